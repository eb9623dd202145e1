"""The slow, obvious version: scalars, exact fractions, one rounding per line. It is the specification.

Nothing in the package calls it to compute a result; tests and the conformance report compare the array code with it.
"""
