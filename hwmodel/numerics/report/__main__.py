"""Write the conformance table and the speeds as Markdown and JSON."""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.metadata
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from hwmodel.numerics.report.conformance import Finding, findings
from hwmodel.numerics.report.speed import Speed, cases, measure

COMMAND = "python -m hwmodel.numerics.report"
PACKAGES = ("numpy", "numba", "ml_dtypes", "gfloat")


def versions() -> dict[str, str]:
    """Versions of what was measured, ``-`` for what is not installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "-"
    return found


def machine() -> str:
    """Processor and how many of its cores this process may use."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cores} cores"


def load() -> str:
    """The machine's load average over a minute, ``-`` where it is not known."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "-"


def rate_text(rate: float, unit: str) -> str:
    """A rate in the unit people use for it."""
    if rate == 0:
        return "-"
    return f"{rate / 1e9:.1f} GMAC/s" if unit == "multiply-adds" else f"{rate / 1e6:.0f} M/s"


def markdown(rows: list[Finding], speeds: list[Speed], about: dict[str, Any]) -> str:
    """The report as Markdown: how it was made, conformance, speeds."""
    lines = [
        "# Numerics: conformance and speed",
        "",
        f"Rebuilt with `{COMMAND}` on {about['date']}; {about['machine']}; "
        + ", ".join(f"{name} {version}" for name, version in about["versions"].items())
        + ".",
        "",
        "## Conformance",
        "",
        "Array code (and compiled kernels) against the scalar reference in exact fractions"
        + (f"; here one case in {about['every']} of the exhaustive checks." if about["every"] > 1 else "."),
        "",
        "| subject | check | cases | differences |",
        "|---|---|---:|---:|",
        *(f"| {row.subject} | {row.check} | {row.cases:,} | {row.differences} |" for row in rows),
        "",
        f"Sum: {sum(row.cases for row in rows):,} cases, {sum(row.differences for row in rows)} differences.",
    ]
    if speeds:
        lines += [
            "",
            "## Speed",
            "",
            "Best of the runs in a fixed time; the peer ran in the same process. A goal of - states none.",
            "One thread is measured in processor time, two by the clock: they need both cores to themselves.",
            f"The machine's load was {about['load']} while this ran.",
            "",
            "| what | backend | threads | speed | goal | peer | times the peer |",
            "|---|---|---:|---:|---:|---|---:|",
        ]
        for speed in speeds:
            case = speed.case
            peer = f"{case.peer} {rate_text(speed.peer_rate, case.unit)}" if speed.peer_rate else "-"
            ratio = f"{speed.rate / speed.peer_rate:.1f}" if speed.peer_rate else "-"
            rate, goal = rate_text(speed.rate, case.unit), rate_text(case.goal, case.unit)
            lines.append(f"| {case.name} | {case.backend} | {case.threads} | {rate} | {goal} | {peer} | {ratio} |")
    return "\n".join(lines) + "\n"


def as_json(rows: list[Finding], speeds: list[Speed], about: dict[str, Any]) -> dict[str, Any]:
    """The report as data."""
    return {
        **about,
        "command": COMMAND,
        "conformance": [
            {"subject": row.subject, "check": row.check, "cases": row.cases, "differences": row.differences}
            for row in rows
        ],
        "speed": [
            {
                "what": speed.case.name,
                "unit": f"{speed.case.unit} per second",
                "backend": speed.case.backend,
                "threads": speed.case.threads,
                "rate": round(speed.rate),
                "goal": round(speed.case.goal),
                "peer": speed.case.peer,
                "peer_rate": None if speed.peer_rate is None else round(speed.peer_rate),
            }
            for speed in speeds
        ],
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure, write ``report.md`` and ``report.json``; 1 when anything differed from the reference."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("-o", "--out", type=Path, default=Path("reports/numerics"), metavar="DIR")
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="take every n-th case of the exhaustive checks"
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each speed; 0 leaves speeds out")
    parser.add_argument("--scale", type=int, default=1, help="divide the sizes of the speed cases")
    options = parser.parse_args(arguments)
    options.every = max(1, options.every)
    loads = [load()]
    rows = list(findings(options.every))
    speeds = [measure(case, options.seconds) for case in cases(options.scale)] if options.seconds > 0 else []
    loads.append(load())
    about: dict[str, Any] = {
        "load": " to ".join(loads),
        "date": dt.date.today().isoformat(),
        "machine": machine(),
        "versions": versions(),
        "every": options.every,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "report.md").write_text(markdown(rows, speeds, about), encoding="utf-8")
    (options.out / "report.json").write_text(
        json.dumps(as_json(rows, speeds, about), indent=1) + "\n", encoding="utf-8"
    )
    sys.stdout.write(f"{options.out / 'report.md'}\n")
    return 1 if any(row.differences for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
