"""Where a run stands under the roofs of its machine: arithmetic intensity at each level of memory, what it reached.

A level is what a unit or link moves. Its roof is the rate at which it moves bytes once it runs, start-ups left out, so
no run lies above it; intensity is operations (a multiply-add counts two) for each byte that crosses the level. On
Ascend what crosses the HBM link are the loads that miss the L2; all that is read from GM and written to it, whatever
it comes from, is the traffic of a run, and the intensity that a run prints is over both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from hwmodel import numerics as nm
from hwmodel.analysis.statistics import Statistics
from hwmodel.arch import Arch, Unit
from hwmodel.program.instructions import Matmul, Sync
from hwmodel.program.program import Program

Census = Counter[tuple[str, Any]]


class Moved(NamedTuple):
    """What an instruction moves through a level: bytes, and cycles of its unit at full rate."""

    size: int
    cycles: Fraction


def _tload(spec: Any, params: Any, _arch: Arch) -> Moved:
    return Moved(params.size, params.size / Fraction(spec.bytes_per_cycle))


def _textract(spec: Any, params: Any, _arch: Arch) -> Moved:
    return Moved(params.size, params.size / Fraction(spec.bytes_per_cycle[params.target]))


def _fixpipe(spec: Any, params: Any, _arch: Arch) -> Moved:
    size = params.rows * params.cols * params.element_bytes
    return Moved(size, size / Fraction(spec.bytes_per_cycle))


def _dma(spec: Any, params: Any, _arch: Arch) -> Moved:
    size = params.rows * params.row_bytes
    return Moved(size, size / Fraction(spec.bytes_per_cycle) / spec.rings)


def _pe(spec: Any, params: Any, _arch: Arch) -> Moved:
    """Moving rows alone: weights are loaded beside them."""
    if not isinstance(params, Matmul):
        return Moved(0, Fraction(0))
    size = Fraction(params.k * params.n * ELEMENT_BITS[params.b], 8)
    return Moved(int(size), Fraction(params.n * max(spec.operands[side].passes for side in (params.a, params.b))))


def _evacuate(spec: Any, params: Any, arch: Arch) -> Moved:
    buffer = arch.spec.buffers.get("psum")
    size = SUM_BYTES * params.elements * (buffer.partitions if buffer else 1)
    return Moved(size, params.elements / Fraction(spec.rate(params)))


SUM_BYTES = 4
ELEMENT_BITS = {name: dtype.storage_bits for name, dtype in nm.DTYPES.items()} | {"fp32r": 32}
"""By operand dtype; fp32r is fp32 that the array shortens as it reads it."""
LEVELS: dict[str, tuple[str, Callable[[Any, Any, Arch], Moved]]] = {
    "tload": ("L2", _tload),
    "textract": ("L1", _textract),
    "fixpipe": ("L0C", _fixpipe),
    "dma": ("HBM", _dma),
    "pe": ("SBUF", _pe),
    "vector": ("PSUM", _evacuate),
    "scalar": ("PSUM", _evacuate),
}
"""By kind of unit: the level of memory that it reads from (or drains), and what an instruction moves."""


@dataclass(frozen=True)
class Level:
    """One roof. ``bytes`` is the sum over all cores, rates are those of all cores that have work."""

    name: str
    by: str
    """The unit or link that moves the bytes."""
    bytes: int
    bytes_per_cycle: float
    intensity: float
    """Operations for each byte."""
    attainable: float
    """Operations a cycle that this roof and the peak allow at that intensity."""
    reached: float
    """What the run reached of it, 1 at most."""


@dataclass(frozen=True)
class Roofline:
    """Operations a cycle of a run, and its roofs."""

    flops_per_cycle: float
    peak_flops_per_cycle: float
    clock_mhz: float
    levels: tuple[Level, ...]

    def tflops(self, flops_per_cycle: float) -> float:
        """10**12 operations a second."""
        return flops_per_cycle * self.clock_mhz / 1e6

    @property
    def lowest(self) -> Level | None:
        """The roof that allows least."""
        return min(self.levels, key=lambda level: level.attainable, default=None)

    def to_dict(self) -> dict[str, Any]:
        """For ``explain --json``."""
        return {
            "flops_per_cycle": self.flops_per_cycle,
            "peak_flops_per_cycle": self.peak_flops_per_cycle,
            "tflops": self.tflops(self.flops_per_cycle),
            "peak_tflops": self.tflops(self.peak_flops_per_cycle),
            "levels": [asdict(level) for level in self.levels],
        }


def roofline(stats: Statistics, program: Program, arch: Arch) -> Roofline | None:
    """The roofs of a run; None where nothing is multiplied."""
    if not stats.macs or not stats.cycles or not stats.peak_macs_per_cycle:
        return None
    flops = 2 * stats.macs
    peak = 2.0 * stats.peak_macs_per_cycle * stats.cores
    counted = census(program)
    found = [*_links(counted, arch, stats.cores), *_units(counted, arch, stats.cores)]
    levels = []
    for name, by, size, rate in found:
        intensity = flops / size
        attainable = min(peak, intensity * rate)
        reached = flops / stats.cycles / attainable
        levels.append(Level(name, by, size, rate, intensity, attainable, reached))
    return Roofline(flops / stats.cycles, peak, float(arch.spec.clock_mhz), tuple(levels))


def census(program: Program) -> Census:
    """How often each engine runs an instruction with each set of parameters, over all cores."""
    seen: dict[int, Census] = {}
    result: Census = Counter()
    for core in program.cores:
        own = seen.get(id(core.instructions))
        if own is None:
            own = seen[id(core.instructions)] = Counter(
                (i.engine, i.params) for i in core.instructions if not isinstance(i.params, Sync)
            )
        for key, count in own.items():
            result[key] += count * core.stands_for
    return result


def _links(counted: Census, arch: Arch, cores: int) -> list[tuple[str, str, int, float]]:
    moved: Counter[str] = Counter()
    for (engine, params), count in counted.items():
        unit = arch.units[engine]
        for move in unit.kind.traffic(unit.spec, params):
            moved[move.link] += move.size * count
    result = []
    for name, size in moved.items():
        own = arch.core_link_rates[name] * arch.ticks_per_cycle
        rate = float(min(arch.spec.links[name].bytes_per_cycle, cores * own))
        result.append((name.upper(), f"{name} link", size, rate))
    return result


def _units(counted: Census, arch: Arch, cores: int) -> list[tuple[str, str, int, float]]:
    """Units of one level work side by side: their rates add up."""
    sizes: dict[str, Counter[str]] = {}
    cycles: dict[str, dict[str, Fraction]] = {}
    units: dict[str, Unit] = {}
    for (engine, params), count in counted.items():
        unit = arch.units[engine]
        kind = unit.kind.kind
        if kind not in LEVELS:
            continue
        name, move = LEVELS[kind]
        size, own = move(unit.spec, params, arch)
        sizes.setdefault(name, Counter())[kind] += size * count
        times = cycles.setdefault(name, {})
        times[kind] = times.get(kind, Fraction(0)) + own * count * unit.ticks_per_cycle / arch.ticks_per_cycle
        units[kind] = unit
    result = []
    order = {name: place for place, (name, _) in enumerate(LEVELS.values())}
    for name in sorted(sizes, key=lambda name: order[name]):
        total = sum(sizes[name].values())
        if total:
            rate = sum(sizes[name][kind] / time for kind, time in cycles[name].items() if time)
            by = next(iter(dict.fromkeys(units[kind].name for kind in sizes[name])))
            result.append((name, by, total, float(rate * cores)))
    return result
