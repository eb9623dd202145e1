"""Loop structures of a GEMM on a NeuronCore: tiled, hoisted, blocked_free, fully_blocked."""
