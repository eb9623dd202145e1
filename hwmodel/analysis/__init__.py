"""Pure functions from a trace to numbers: nothing here simulates, and nothing here is recorded while simulating."""
