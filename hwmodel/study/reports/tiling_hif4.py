"""The nine HiF4 shapes: one L0C tile, two halves, and the best that ``tune`` finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from hwmodel.scenario import load
from hwmodel.study.compare import Job, compare
from hwmodel.study.points import Template, parse_axes
from hwmodel.study.pool import Workers
from hwmodel.study.reports import COMMAND
from hwmodel.study.reports.pieces import Found, bars, measured, of, table, write
from hwmodel.study.sweep import sweep
from hwmodel.study.tune import tune
from hwmodel.writers import comparison, sweep_plots

SHAPES = (
    (64, 64, 64),
    (128, 128, 128),
    (128, 256, 128),
    (256, 128, 128),
    (128, 512, 128),
    (128, 128, 256),
    (256, 256, 256),
    (256, 128, 512),
    (512, 128, 512),
)
"""M, K, N of the requirement's test cases, by work."""
ALONE = Workers("local", 1)
INTRODUCTION = (
    "The kernel of the requirement (`n_split`) keeps A in L0A and cuts N into slices that fit L0C. What does the cut",
    "cost, do two halves of L0C (the Cube fills one while FIXPIPE drains the other) win it back, and is there a",
    "better tiling? Machine: `ascend_a6`, whose timing nobody has measured. Ratios between tilings rest on the",
    "published facts about A5; absolute cycles should not be quoted.",
)


class Shape(NamedTuple):
    """What was found for one shape."""

    name: str
    one: Found
    halves: Found
    slices: Found
    core: Found
    chip: Found


def build(folder: Path) -> list[Path]:
    """Write report.md and its pictures."""
    shapes = [_shape(*extents) for extents in SHAPES]
    files = [_bars(folder, shapes), _timelines(folder), _widths(folder)]
    return [write(folder / "report.md", _page(shapes)), *files]


def _name(m: int, k: int, n: int) -> str:
    return f"hif4_{m}x{k}x{n}"


def _shape(m: int, k: int, n: int) -> Shape:
    name = _name(m, k, n)
    scenario = load(name, {"expect": {}})
    blocked = load(name, {"expect": {}, "tiling.kind": "blocked"})
    return Shape(
        f"{m} x {k} x {n}",
        measured(name),
        measured(name, tiling__buffers={"l0": 1, "l0c": 2}),
        of(tune(scenario, workers=ALONE).best_scenario),
        of(tune(blocked, max_cores=1, workers=ALONE).best_scenario),
        of(tune(blocked, workers=ALONE).best_scenario),
    )


def _bars(folder: Path, shapes: list[Shape]) -> Path:
    variants = [
        "n_split, one L0C tile",
        "two halves",
        "best n_split",
        "best blocks, one core",
        "best blocks, all cores",
    ]
    values = [[float(found.cycles) for found in shape[1:]] for shape in shapes]
    worst = max(shapes, key=lambda shape: shape.one.cycles / shape.core.cycles)
    times = worst.one.cycles / worst.core.cycles
    wins = sum(shape.halves.cycles < shape.one.cycles for shape in shapes)
    halves = f"two halves win {wins} times of {len(shapes)}" if wins else "two halves never win"
    title = f"Cutting M as well as N makes {worst.name} {times:.1f} times as fast on the same core; {halves}"
    below = "HiF4 x HiF4 -> bf16 on ascend_a6 (not calibrated: compare, do not quote); M x K x N"
    names = [shape.name for shape in shapes]
    return bars(folder / "cycles.png", title, below, names, variants, values, "cycles; x: of n_split with one L0C tile")


def _jobs() -> list[Job]:
    name = _name(512, 128, 512)
    whole = {"expect": {}, "tiling.kind": "blocked"}
    best = tune(load(name, whole), max_cores=1, workers=ALONE).best_scenario
    loaded: list[tuple[str, Any]] = [
        ("one L0C tile, 4 slices of 128 columns", load(name, {"expect": {}})),
        ("two L0C halves, 8 slices of 64", load(name, {"expect": {}, "tiling.buffers": {"l0": 1, "l0c": 2}})),
        ("blocks of 256 x 256, best of tune", best),
    ]
    return [Job(label, scenario, "check") for label, scenario in loaded]


def _timelines(folder: Path) -> Path:
    comparison.write(compare(_jobs(), ALONE), folder / "timelines_512x128x512.png")
    return folder / "timelines_512x128x512.png"


def _widths(folder: Path) -> Path:
    axes = parse_axes({"tiling.buffers.l0c": [1, 2], "tiling.tile_n": [64, 128, 192, 256, 512]})
    found = sweep(Template.read(_name(256, 128, 512)), axes, workers=ALONE)
    sweep_plots.write(found, folder / "slice_width_256x128x512.png")
    return folder / "slice_width_256x128x512.png"


def _page(shapes: list[Shape]) -> list[str]:
    rows = []
    for shape in shapes:
        cells = [shape.name, f"{shape.one.cycles:,}"]
        cells += [f"{found.cycles:,} ({found.cycles / shape.one.cycles:.2f})" for found in shape[2:]]
        rows.append([*cells, str(shape.one.columns["bound"])])
    largest = shapes[-1]
    drain = largest.one.columns["fixpipe_utilization"]
    fixpipe = load(_name(512, 128, 512)).arch.unit("fixpipe")
    granule, factor = fixpipe.granule_bytes, float(fixpipe.partial_granule_factor)
    same = [shape.name for shape in shapes if shape.one.cycles == shape.slices.cycles == shape.core.cycles]
    small = [shape for shape in shapes if shape.chip.cycles > 0.9 * shape.core.cycles]
    faster = largest.one.cycles / largest.core.cycles
    lines = [
        "# The nine HiF4 shapes: which way to cut",
        "",
        f"Rebuild with `{COMMAND} tiling_hif4`.",
        "",
        *INTRODUCTION,
        "",
        "![cycles of five tilings of each shape](cycles.png)",
        "",
        *table(
            ["M x K x N", "one L0C tile", "two halves", "best n_split", "best blocks, one core", "all cores", "limit"],
            rows,
        ),
        "",
        "Cycles; in brackets the ratio to one L0C tile. `limit` is the unit that limits the kernel with one L0C tile.",
        "The best ones are proven: every tiling that was not simulated has a lower bound above them.",
        "",
        "## What one learns",
        "",
        f"* **The drain decides.** In {largest.name} FIXPIPE is busy {100 * drain:.0f} % of the time and the Cube",
        "  hardly at all. K is so short that every output is written after a handful of steps.",
        f"* **Do not cut rows below {granule} bytes.** FIXPIPE writes granules of {granule} bytes, and one that is",
        f"  written in part costs {factor:g} times a whole one. A slice of 128 bf16 columns is 256 bytes: all its",
        "  granules are partial. Two halves make slices half as wide, so twice as many partial granules: they",
        "  lose more than the overlap wins.",
        "* **Cut M instead.** Blocks of 256 x 256 fill L0C just as well and write whole granules:",
        f"  {faster:.1f} times as fast on the same single core ({largest.core.plan}).",
    ]
    if same:
        lines += [f"* **Where everything fits, there is nothing to win on one core** ({', '.join(same)})."]
    if small:
        names = ", ".join(shape.name for shape in small)
        lines += [f"* **More cores hardly help** for {names}: start-up of load and drain is all there is."]
    lines += [
        "",
        "## 512 x 128 x 512 over time",
        "",
        "![timelines of one tile, two halves and blocks](timelines_512x128x512.png)",
        "",
        "The Cube (M) waits for space in all three: FIXPIPE (FIX) is the queue everybody stands in. Two halves remove",
        "its last gaps and still lose, because each column costs twice as much to write. All three give the same bits.",
        "",
        "## 256 x 128 x 512: width of the slice",
        "",
        "![cycles over slice width and L0C halves](slice_width_256x128x512.png)",
        "",
        "The widest slice that fits is the best one, until a half of L0C cannot hold it any more.",
    ]
    return lines
