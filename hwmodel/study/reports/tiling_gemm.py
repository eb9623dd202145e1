"""2048^3 to 8192^3 on A3 (fp16) and A5 (MXFP8): the usual kernel, ``auto``, and the best of ``tune``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from hwmodel.scenario import load
from hwmodel.study.compare import Job, compare
from hwmodel.study.pool import Workers
from hwmodel.study.reports import COMMAND
from hwmodel.study.reports.pieces import Found, bars, of, table, write
from hwmodel.study.tune import Tuned, tune
from hwmodel.writers import comparison

SIZES = (2048, 4096, 6144, 8192)
MACHINES = {"ascend_a3": ("A3, fp16", "silicon/a3_gemm_1536"), "ascend_a5": ("A5, MXFP8", "silicon/a5_mxfp8_2048")}
TRIALS = 96
"""Tilings simulated for each problem, in the order of their bounds."""


class Case(NamedTuple):
    """What was found for one size on one machine."""

    machine: str
    name: str
    n: int
    usual: Found
    auto: Found
    best: Found
    tuned: Tuned


def build(folder: Path) -> list[Path]:
    """Write report.md and its pictures."""
    cases = [_case(machine, *MACHINES[machine], n) for machine in MACHINES for n in SIZES]
    files = [_bars(folder, machine, [case for case in cases if case.machine == machine]) for machine in MACHINES]
    files += [_timelines(folder, case) for case in cases if case.n == 4096]
    return [write(folder / "report.md", _page(cases)), *files]


def _fields(n: int, **more: Any) -> dict[str, Any]:
    return {"expect": {}, "problem.m": n, "problem.k": n, "problem.n": n, **more}


def _case(machine: str, name: str, scenario: str, n: int) -> Case:
    usual = load(scenario, _fields(n))
    tuned = tune(usual, search="bounds", trials=TRIALS, workers=Workers())
    picked = load(scenario, _fields(n, tiling={"kind": "auto"}))
    return Case(machine, name, n, of(usual), of(picked), of(tuned.best_scenario), tuned)


def _bars(folder: Path, machine: str, cases: list[Case]) -> Path:
    gains = [case.usual.cycles / case.best.cycles for case in cases]
    close = max(case.auto.cycles / case.best.cycles for case in cases) - 1
    title = f"{cases[0].name}: tune is {min(gains):.2f} to {max(gains):.2f} times as fast as the usual kernel"
    values = [[float(case.usual.cycles), float(case.auto.cycles), float(case.best.cycles)] for case in cases]
    names = [f"{case.n} x {case.n} x {case.n}" for case in cases]
    variants = ["the usual hand-written kernel", "auto", "best of tune"]
    below = f"all cores of {machine}; auto, which simulates nothing, is at most {100 * close:.1f} % slower than tune"
    label = "cycles; x: of the usual kernel"
    return bars(folder / f"{machine}.png", title, below, names, variants, values, label)


def _timelines(folder: Path, case: Case) -> Path:
    scenario = MACHINES[case.machine][1]
    jobs = [
        Job("the usual kernel", load(scenario, _fields(case.n)), "skip"),
        Job("auto", load(scenario, _fields(case.n, tiling={"kind": "auto"})), "skip"),
        Job("best of tune", case.tuned.best_scenario, "skip"),
    ]
    path = folder / f"{case.machine}_{case.n}.png"
    comparison.write(compare(jobs, Workers("local", 1)), path)
    return path


def _page(cases: list[Case]) -> list[str]:
    lines = [
        "# Square GEMMs: the usual kernel, auto and tune",
        "",
        f"Rebuild with `{COMMAND} tiling_gemm` (some minutes).",
        "",
        "The usual kernel is the published one: on A3 a core grid of 4 x 6 and blocks of 128 x 64 x 256, on A5 4 x 8",
        "and 128 x 128 x 256, four K slices a panel, everything doubled but L0C. `auto` picks by lower bounds and",
        f"simulates nothing. `tune` simulates up to {TRIALS} tilings in the order of their lower bounds and knows how",
        "far from the optimum it may still be: `left open` is how much faster a tiling that was left out could be",
        "at most. `of peak` counts the cores that have work.",
        "",
    ]
    for machine, (name, _) in MACHINES.items():
        here = [case for case in cases if case.machine == machine]
        rows = [_row(case) for case in here]
        lines += [
            f"## {name}",
            "",
            f"![cycles of three tilings for each size on {machine}]({machine}.png)",
            "",
            *table(["n", "usual", "auto", "tune", "of peak: usual", "auto", "tune", "left open", "best tiling"], rows),
            "",
            f"![timelines of 4096 cubed on {machine}]({machine}_4096.png)",
            "",
            *_learned(here),
            "",
        ]
    return lines


def _row(case: Case) -> list[str]:
    base = case.usual.cycles
    peaks = [f"{100 * found.columns['peak_fraction']:.1f} %" for found in (case.usual, case.auto, case.best)]
    gap = "proven" if case.tuned.proven else f"{100 * (1 - (case.tuned.open_bound or 0) / case.best.cycles):.1f} %"
    return [
        str(case.n),
        f"{base:,}",
        f"{case.auto.cycles:,} ({case.auto.cycles / base:.3f})",
        f"{case.best.cycles:,} ({case.best.cycles / base:.3f})",
        *peaks,
        gap,
        case.best.plan.removeprefix("blocked, "),
    ]


def _learned(cases: list[Case]) -> list[str]:
    """Sentences about the differences, with the figures that carry them."""
    found = []
    small, large = cases[0], cases[-1]
    units = ("tload", "cube")
    for case in (small, large):
        usual, best = (
            ", ".join(f"{unit} {100 * each.columns[f'{unit}_utilization']:.0f} %" for unit in units)
            for each in (case.usual, case.best)
        )
        moved = case.best.columns["gm_read_bytes"] / case.usual.columns["gm_read_bytes"]
        before, after = case.usual.columns["cores"], case.best.columns["cores"]
        cores = f"{after} cores, as before" if after == before else f"{after} instead of {before} cores"
        found += [
            f"* {case.n}^3: busy {usual} in the usual kernel (limit: {case.usual.columns['bound']}),",
            f"  {best} in the best one (limit: {case.best.columns['bound']}), which reads {moved:.2f} times the bytes",
            f"  on {cores}.",
        ]
    worst = max(cases, key=lambda case: case.auto.cycles / case.best.cycles)
    slower = 100 * (worst.auto.cycles / worst.best.cycles - 1)
    found.append(f"* auto is at most {slower:.1f} % slower than the best that tune found (at {worst.n}^3).")
    return found
