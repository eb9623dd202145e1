"""Write the validation report: ``python -m hwmodel.validation.report [FOLDER]``.

Everything in it is simulated when it is written: errors, leave-one-out errors, the picture, what was fitted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hwmodel import __version__
from hwmodel.arch import Arch
from hwmodel.config.arch import load_arch
from hwmodel.config.resources import shipped_archs
from hwmodel.engines import default_jobs, open_engine
from hwmodel.validation.compare import Row, Validation, validate
from hwmodel.validation.fit import fitted_fields, left_out_error, left_out_tasks
from hwmodel.validation.kernels import scenario_of
from hwmodel.validation.picture import draw
from hwmodel.validation.table import Measurement, read_table

FOLDER = Path("reports") / "validation"
TIME_PERCENT = 5.0
RATIO_POINTS = {"fixpipe": 6.0}
RATIO_POINTS_DEFAULT = 4.0
CUBE_SMALL_POINTS = 6.0
"""Targets: time, active share of a unit, share of the Cube on the smallest size of a kernel."""

EXPLANATIONS = {
    ("a5_mxfp8_2048", "tload"): (
        "The profile shows MTE2 active for about 12,000 cycles more than the loads of this kernel take at the rates of"
        " its larger size. The whole run is not longer by that time, so it lies within the launch: the first accesses"
        " of a cold kernel (address translation, instruction fetch) keep a load in flight. The MXFP4 kernels of the"
        " same machine show no such time. Nothing public says what decides it, so it is not modelled."
    ),
}
"""Why a figure that misses its target is left as it is."""


class PerfSim(NamedTuple):
    """What a public simulator of the same pipeline says of a measured kernel (hardware facts 2.5)."""

    row: str
    error: str
    remark: str


PERF_SIM = (
    PerfSim("a3_gemm_1536", "27 to 32 % fast", "one core"),
    PerfSim("a3_gemm_6144", "4 % slow", "one core; 13 times too slow with all 24 cores simulated"),
)


class Miss(NamedTuple):
    """A figure beyond its target."""

    row: str
    what: str
    found: str
    target: str
    why: str


def misses(found: Validation) -> list[Miss]:
    """Every figure beyond its target, with the explanation there is."""
    smallest = _smallest(found)
    result = []
    for row in found.rows:
        name = row.measurement.id
        if row.error_percent is None:
            result.append(Miss(name, "time", row.problem, f"within {TIME_PERCENT:g} %", ""))
            continue
        if abs(row.error_percent) > TIME_PERCENT:
            why = EXPLANATIONS.get((name, "time"), "")
            result.append(Miss(name, "time", f"{row.error_percent:+.1f} %", f"within {TIME_PERCENT:g} %", why))
        for ratio in row.ratios:
            target = RATIO_POINTS.get(ratio.unit, RATIO_POINTS_DEFAULT)
            if ratio.unit == "cube" and name in smallest:
                target = CUBE_SMALL_POINTS
            if abs(ratio.difference_points) > target:
                why = EXPLANATIONS.get((name, ratio.unit), "")
                found_points = f"{ratio.difference_points:+.1f} points"
                result.append(Miss(name, f"{ratio.unit} share", found_points, f"within {target:g} points", why))
    return result


def _smallest(found: Validation) -> set[str]:
    """The smallest size of each kernel."""
    best: dict[tuple[str, str], Measurement] = {}
    for row in (row.measurement for row in found.rows):
        key = (row.arch, row.kernel)
        if key not in best or row.m * row.k * row.n < best[key].m * best[key].k * best[key].n:
            best[key] = row
    return {row.id for row in best.values()}


def left_out(table: Sequence[Measurement], jobs: int | None = None) -> dict[str, float]:
    """Leave-one-out error of every row for which the other rows of its machine determine the fitted numbers."""
    tasks = []
    for arch in dict.fromkeys(row.arch for row in table):
        rows = [row for row in table if row.arch == arch]
        tasks += left_out_tasks(rows, fitted_fields(load_arch(arch)))
    with open_engine("local", jobs=jobs) as engine:
        errors = list(engine.map(left_out_error, tasks))
    return {task.row.id: error for task, error in zip(tasks, errors, strict=True) if error is not None}


def text(found: Validation, without: dict[str, float]) -> Iterator[str]:
    """The report as Markdown lines."""
    yield "# How far from silicon"
    yield ""
    yield "Rebuilt by `python -m hwmodel.validation.report`; the table alone by `hwmodel validate`."
    yield f"hwmodel {__version__}. Measurements: `hwmodel/validation/silicon.csv`, each with its source."
    yield ""
    yield "![measured against modelled](measured_vs_modelled.png)"
    yield ""
    yield "## Rows"
    yield ""
    yield from _rows(found, without)
    yield ""
    yield "Left out: the row's error when its machine is fitted to the other rows alone; - where those do not determine"
    yield "the numbers. One long kernel hardly tells how long a launch takes, and the error of a short one shows it."
    yield ""
    yield "## Machines"
    yield ""
    yield from _machines(found, without)
    yield ""
    yield "## What was fitted"
    yield ""
    yield from _fitted(found)
    yield ""
    yield "## Misses"
    yield ""
    yield from _missed(misses(found))
    yield ""
    yield "## Beside a public simulator"
    yield ""
    yield from _perf_sim(found)


def _rows(found: Validation, without: dict[str, float]) -> Iterator[str]:
    yield "| row | machine | M x K x N | measured | modelled | error | left out | active shares, modelled / measured |"
    yield "|---|---|---|---:|---:|---:|---:|---|"
    for row in found.rows:
        m = row.measurement
        head = f"| {m.id} | {m.arch} | {m.m} x {m.k} x {m.n} | {m.time_ms:.4f} ms |"
        if row.modelled_ms is None:
            yield f"{head} - | - | - | not simulated: {row.problem} |"
            continue
        shares = ", ".join(f"{ratio.unit} {ratio.modelled:.3f} / {ratio.measured:.3f}" for ratio in row.ratios)
        loo = f"{without[m.id]:+.1f} %" if m.id in without else "-"
        yield f"{head} {row.modelled_ms:.4f} ms | {row.error_percent:+.2f} % | {loo} | {shares or '-'} |"


def _machines(found: Validation, without: dict[str, float]) -> Iterator[str]:
    yield "| machine | calibrated | rows | mean error | worst | mean error, left out |"
    yield "|---|---|---:|---:|---:|---:|"
    known = {machine.arch: machine for machine in found.machines}
    for name in shipped_archs():
        arch = load_arch(name)
        machine = known.get(name)
        if machine is None:
            yield f"| {name} | {'yes' if arch.calibrated else '**no**'} | 0 | - | - | - |"
            continue
        errors = [abs(without[row.measurement.id]) for row in _of(found, name) if row.measurement.id in without]
        loo = f"{sum(errors) / len(errors):.1f} %" if errors else "-"
        figures = f"{machine.rows} | {machine.mape_percent:.2f} % | {machine.worst_percent:.2f} % | {loo}"
        yield f"| {name} | {'yes' if arch.calibrated else '**no**'} | {figures} |"
    yield ""
    yield "A machine that is not calibrated has no published measurements; its rates are those of its predecessor or"
    yield "assumed, as `hwmodel list arch NAME` says number by number."


def _of(found: Validation, arch: str) -> list[Row]:
    return [row for row in found.rows if row.measurement.arch == arch]


def _fitted(found: Validation) -> Iterator[str]:
    yield "One set of numbers a machine; none depends on size or row."
    yield ""
    yield "| machine | fitted | to measured figures | number | value | source |"
    yield "|---|---:|---:|---|---:|---|"
    for name in (machine.arch for machine in found.machines):
        arch = load_arch(name)
        paths = fitted_fields(arch)
        figures = sum(1 + len(row.ratios) for row in _of(found, name))
        for index, path in enumerate(paths):
            counts = f"{name} | {len(paths)} | {figures}" if index == 0 else " | | "
            yield f"| {counts} | {path} | {_value(arch, path)} | {arch.sources[path].source} |"
        if not paths:
            yield f"| {name} | 0 | {figures} | - | - | - |"
    yield ""
    yield "Numbers that were not fitted but worked out by hand, each from the figure that its source names. Some of"
    yield "those figures are cycles of single instructions in the profiles of the kernels above: they are measured too."
    yield ""
    yield "| machine | worked out | number | value | source |"
    yield "|---|---:|---|---:|---|"
    for name in (machine.arch for machine in found.machines):
        arch = load_arch(name)
        paths = [path for path in _derived(arch) if not path.startswith("validation.")]
        yield from _numbers(name, arch, paths)
    yield ""
    yield "The MXFP4 kernel has numbers of its own in `scenarios/silicon`: its TMATMUL, TEXTRACT and drain are slower"
    yield "than the machine can, as the vendor's operator reaches 99 % of the Cube. They are the kernel's, not the"
    yield "machine's; each was worked out from its profile, and none was fitted."
    yield ""
    yield "| kernel | worked out | number | value | source |"
    yield "|---|---:|---|---:|---|"
    seen = set()
    for row in (row for row in found.rows if not row.problem):
        arch, kernel = scenario_of(row.measurement).arch, row.measurement.kernel
        base = load_arch(row.measurement.arch)
        if kernel not in seen:
            own = [path for path in _derived(arch) if arch.sources[path] != base.sources.get(path)]
            yield from _numbers(kernel, arch, own)
        seen.add(kernel)


def _derived(arch: Arch) -> list[str]:
    return [path for path, source in arch.sources.items() if source.confidence == "derived"]


def _numbers(name: str, arch: Arch, paths: list[str]) -> Iterator[str]:
    for index, path in enumerate(paths):
        head = f"{name} | {len(paths)}" if index == 0 else " | "
        yield f"| {head} | {path} | {_value(arch, path)} | {arch.sources[path].source} |"


def _value(arch: Arch, path: str) -> str:
    node: object = arch.spec
    for step in path.split("."):
        node = node[step] if isinstance(node, dict) else getattr(node, step)
    return f"{float(node):g}"  # type: ignore[arg-type]


def _missed(found: list[Miss]) -> Iterator[str]:
    yield (
        f"Targets: time within {TIME_PERCENT:g} %, active shares within {RATIO_POINTS_DEFAULT:g} points"
        f" (fixpipe {RATIO_POINTS['fixpipe']:g}, the Cube on the smallest size of a kernel {CUBE_SMALL_POINTS:g})."
    )
    yield ""
    if not found:
        yield "Every figure is within its target."
        return
    for miss in found:
        yield f"* **{miss.row}, {miss.what}: {miss.found}** ({miss.target}). {miss.why}".rstrip()


def _perf_sim(found: Validation) -> Iterator[str]:
    yield "pto-isa perf_sim (revision 7fe55014) models the same pipeline in C++; it knows no MX, FP8, FP4 or HiF4."
    yield ""
    yield "| row | perf_sim | hwmodel | remark |"
    yield "|---|---|---|---|"
    errors = {row.measurement.id: row.error_percent for row in found.rows}
    for other in PERF_SIM:
        error = errors.get(other.row)
        ours = "-" if error is None else f"{abs(error):.1f} % {'slow' if error > 0 else 'fast'}"
        yield f"| {other.row} | {other.error} | {ours} | {other.remark} |"


def write(folder: Path = FOLDER) -> list[Path]:
    """Simulate, fit, and write ``report.md`` and the picture; returns the files."""
    table = read_table()
    found = validate(table, jobs=default_jobs())
    without = left_out(table)
    folder.mkdir(parents=True, exist_ok=True)
    report, picture = folder / "report.md", folder / "measured_vs_modelled.png"
    draw(found, picture)
    report.write_text("\n".join(text(found, without)) + "\n", encoding="utf-8", newline="\n")
    return [report, picture]


if __name__ == "__main__":
    for path in write(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER):
        sys.stdout.write(f"{path}\n")
