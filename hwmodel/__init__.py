"""A cycle-approximate hardware model of NPU matmul pipelines with bit-exact values."""

__version__ = "0.1.0"
