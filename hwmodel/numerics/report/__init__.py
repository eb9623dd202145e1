"""What the numerics core gets right and how fast it is, measured where it runs.

``python -m hwmodel.numerics.report`` writes both as Markdown and JSON.
"""
