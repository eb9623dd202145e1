"""The same bytes from every BLAS kernel, thread count, and with numba blocked: each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import hashlib, sys
blocked, backend = sys.argv[1] == "blocked", sys.argv[2]
if blocked:
    sys.modules["numba"] = None
import numpy as np
from hwmodel import numerics as nm
nm.set_backend(backend)
digest = hashlib.sha256()
rng = np.random.RandomState(1)
def take(x):
    digest.update(np.ascontiguousarray(x).tobytes())
for m, k, n in ((1, 300, 70), (65, 257, 1), (40, 512, 130), (200, 300, 200)):
    a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    acc = rng.standard_normal((m, n)).astype(np.float32)
    x, y = nm.quantize(a, "hif4"), nm.quantize(b, "hif4", axis=0)
    take(x.codes), take(x.scales.ec)
    for left, right in ((a, b), (nm.dequantize(x), nm.dequantize(y))):
        take(nm.matmul(left, right))
        take(nm.matmul(left, right, acc=acc))
        take(nm.matmul(left, right, "f64"))
        take(nm.matmul(left[:, :64], right[:64], "group", group=32))
    p, q = nm.quantize(a, "mxfp8_e4m3"), nm.quantize(b, "mxfp4_e2m1", axis=0)
    take(nm.matmul(p, q)), take(nm.matmul(p, q, "group")), take(nm.matmul(p, q, "group", scale_on="block"))
    big = nm.quantize_neuron_mx(np.repeat(a[:1], 8, 0)[:, : k // 4 * 4], "mxfp8_e5m2")
    take(big.codes), take(nm.dequantize(big))
    take(nm.cast_out(nm.matmul(a, b), "bf16"))
assert ("numba" in sys.modules and sys.modules["numba"] is not None) == (backend == "numba")
print(digest.hexdigest())
"""


def digest(block: str, backend: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, block, backend],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def usual() -> str:
    """Numpy alone, whatever BLAS and threads this machine has."""
    return digest("free", "numpy")


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("core", ["Haswell", "SkylakeX", "Prescott"])
def test_the_blas_does_not_show_check_12(usual: str, core: str, threads: str) -> None:
    assert digest("free", "numpy", OPENBLAS_CORETYPE=core, OPENBLAS_NUM_THREADS=threads) == usual


@pytest.mark.parametrize("threads", ["1", "2"])
def test_compiled_kernels_do_not_show_check_12(usual: str, threads: str) -> None:
    assert digest("free", "numba", OPENBLAS_NUM_THREADS=threads) == usual


def test_with_numba_blocked_everything_works_check_12(usual: str) -> None:
    assert digest("blocked", "auto") == usual
