"""Speeds of the numerics core, with the goal of each and a peer's speed in the same run where one is installed."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from hwmodel import numerics as nm

Run = Callable[[], Any]
Backend = Literal["numpy", "numba"]
_SAMPLE_SECONDS = 1e-3
ML_NAMES = {
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
    "fp8_e3m4": "float8_e3m4",
    "fp4_e2m1": "float4_e2m1fn",
    "bf16": "bfloat16",
}


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement: ``work`` units (elements or multiply-adds) of ``run``; the goal in units a second, 0 for none.

    A peer may do less work, where it would take long.
    """

    name: str
    unit: Literal["elements", "multiply-adds"]
    work: int
    run: Run
    goal: float
    backend: Backend = "numpy"
    threads: int = 1
    peer: str = ""
    peer_run: Run | None = None
    peer_work: int = 0


@dataclass(frozen=True, slots=True)
class Speed:
    """A case measured: units a second, the peer's too (None without one)."""

    case: Case
    rate: float
    peer_rate: float | None


def best_seconds(run: Run, seconds: float, threads: int = 1) -> float:
    """Shortest of the runs that fit ``seconds``, at least two, after one to warm up.

    One thread is measured in processor time, which does not count what others compute meanwhile; several are measured
    by the clock, and for longer, as they need a moment in which no core is busy.
    """
    clock = time.process_time if threads == 1 else time.perf_counter
    seconds *= 1 if threads == 1 else 8
    run()
    start = clock()
    run()
    together = max(1, int(_SAMPLE_SECONDS / max(clock() - start, 1e-9)))
    best, end, count = float("inf"), time.perf_counter() + seconds, 0
    while count < 2 or time.perf_counter() < end:
        start = clock()
        for _ in range(together):
            run()
        best = min(best, (clock() - start) / together)
        count += 1
    return best


def measure(case: Case, seconds: float) -> Speed:
    """Run a case under its backend and thread count, then its peer."""
    backend, threads = nm.set_backend(case.backend), nm.set_threads(case.threads)
    try:
        rate = case.work / best_seconds(case.run, seconds, case.threads)
    finally:
        nm.set_backend(backend)
        nm.set_threads(threads)
    if case.peer_run is None:
        return Speed(case, rate, None)
    return Speed(case, rate, (case.peer_work or case.work) / best_seconds(case.peer_run, seconds / 2))


def cases(scale: int = 1) -> Iterator[Case]:
    """All cases; ``scale`` divides the sizes (1: the sizes that the goals are stated for)."""
    yield from element_cases(scale)
    yield from block_cases(scale)
    yield from product_cases(scale)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def element_cases(scale: int) -> Iterator[Case]:
    """Casts of elements, one core, numpy alone."""
    ml, gfloat = _module("ml_dtypes"), _module("gfloat")
    x = np.random.RandomState(0).standard_normal((1024 // scale, 2048)).astype(np.float32)
    sources = {source: nm.encode(x, source) for source in ("bf16", "fp16")}
    for dtype in ("fp8_e4m3", "fp8_e5m2", "fp8_e3m4", "fp4_e2m1"):
        cast = partial(x.astype, getattr(ml, ML_NAMES[dtype])) if ml else None
        run = partial(nm.encode, x, dtype)
        yield Case(f"fp32 to {dtype}", "elements", x.size, run, 150e6, peer="ml_dtypes", peer_run=cast)
    if gfloat:
        info = importlib.import_module("gfloat.formats").format_info_ocp_e4m3
        part = x[: max(1, 64 // scale)].astype(np.float64)
        other, run = partial(gfloat.round_ndarray, info, part), partial(nm.encode, x, "fp8_e4m3")
        yield Case("fp32 to fp8_e4m3", "elements", x.size, run, 150e6, "numpy", 1, "gfloat", other, part.size)
    for dtype in ("fp8_e4m3", "fp8_e5m2", "hif8", "fp4_e2m1", "fp4_e1m2"):
        for source, codes in sources.items():
            yield Case(f"{source} to {dtype}", "elements", x.size, partial(nm.convert, codes, source, dtype), 500e6)
    for dtype in ("fp8_e4m3", "fp4_e2m1", "bf16"):
        codes = nm.encode(x, dtype)
        back = partial(codes.view(getattr(ml, ML_NAMES[dtype])).astype, np.float32) if ml else None
        run = partial(nm.decode, codes, dtype)
        yield Case(f"{dtype} to fp32", "elements", x.size, run, 0.0, peer="ml_dtypes", peer_run=back)


def block_cases(scale: int) -> Iterator[Case]:
    """Quantising and back, one core."""
    x = np.random.RandomState(1).standard_normal((1024 // scale, 4096)).astype(np.float32)
    quantise, back = partial(nm.quantize, x, "hif4"), partial(nm.dequantize, nm.quantize(x, "hif4"))
    turned = partial(nm.dequantize, nm.quantize(x, "hif4", axis=0))
    listed: list[tuple[str, Run, float, Backend]] = [
        ("HiF4 quantise", quantise, 100e6, "numba"),
        ("HiF4 quantise", quantise, 25e6, "numpy"),
        ("HiF4 quantise along axis 0", partial(nm.quantize, x, "hif4", axis=0), 0.0, "numba"),
        ("HiF4 dequantise", back, 1e9, "numba"),
        ("HiF4 dequantise", back, 0.0, "numpy"),
        ("HiF4 dequantise along axis 0", turned, 0.0, "numba"),
        ("mxfp8_e4m3 quantise, floor", partial(nm.quantize, x, "mxfp8_e4m3"), 80e6, "numpy"),
        ("mxfp8_e4m3 quantise, rceil", partial(nm.quantize, x, "mxfp8_e4m3", rule="rceil"), 80e6, "numpy"),
        ("mxfp4_e2m1 quantise, even", partial(nm.quantize, x, "mxfp4_e2m1", rule="even"), 80e6, "numpy"),
        ("mxfp8_e4m3 dequantise", partial(nm.dequantize, nm.quantize(x, "mxfp8_e4m3")), 0.0, "numpy"),
        ("Neuron 8 x 4 quantise", partial(nm.quantize_neuron_mx, x, "mxfp8_e4m3"), 0.0, "numpy"),
    ]
    for name, run, goal, backend in listed:
        yield Case(name, "elements", x.size, run, goal, backend)


def product_cases(scale: int) -> Iterator[Case]:
    """Matrix products, one and two threads."""
    n = 1024 // scale
    rng = np.random.RandomState(2)
    a, b = (rng.standard_normal((n, n)).astype(np.float32) for _ in range(2))
    plain = partial(nm.matmul, a, b)
    size = f"{n}^3"

    def case(name: str, run: Run, goal: float, backend: Backend, threads: int, work: int = n**3) -> Case:
        return Case(name, "multiply-adds", work, run, goal, backend, threads)

    for threads, goal in ((1, 22e9), (2, 35e9)):
        yield case(f"seq {size}, fp32", plain, goal, "numba", threads)
    for threads in (1, 2):
        yield case(f"seq {size}, fp32", plain, 8e9, "numpy", threads)
    for dtype, group in (("hif4", 64), ("mxfp4_e2m1", 32)):
        x, y = nm.dequantize(nm.quantize(a, dtype)), nm.dequantize(nm.quantize(b, dtype, axis=0))
        for threads, goal in ((1, 40e9), (2, 75e9)):
            grouped = partial(nm.matmul, x, y, "group", group=group)
            yield case(f"group {size}, {dtype} values", grouped, goal, "numba", threads)
        yield case(f"seq {size}, {dtype} values", partial(nm.matmul, x, y), 8e9, "numpy", 1)
    yield case(f"f64 {size}, fp32", partial(nm.matmul, a, b, "f64"), 0.0, "numba", 1)
    tile = 16 * 64 * 16
    small = partial(nm.matmul, a[:16, :64].copy(), b[:64, :16].copy(), acc=np.zeros((16, 16), np.float32))
    yield case("seq 16 x 64 x 16, one tile at 10 us", small, tile / 10e-6, "numba", 1, tile)
