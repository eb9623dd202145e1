"""Compiled loops. Only ``backend.kernels`` imports these modules, when numba is there and the work is large enough.

Each does what a numpy function beside it does, bit for bit; tests run on both. ``fastmath`` is off everywhere.
"""
