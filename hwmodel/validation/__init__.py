"""Model against measurements: tables of measured kernels, the scenarios they stand for, errors, and fits."""
