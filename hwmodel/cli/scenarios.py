"""Loading and preparing all scenarios of a call before any of them runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwmodel.cli.console import Console
from hwmodel.errors import HwmodelError, InputError

if TYPE_CHECKING:
    from hwmodel.experiment import Prepared
    from hwmodel.scenario import Scenario


@dataclass(frozen=True)
class Ready:
    """One scenario that was loaded, planned, lowered, and whose inputs were read."""

    scenario: Scenario
    prepared: Prepared


def prepare_all(
    names: Sequence[str], sets: Sequence[str] | None, console: Console, *, to_run: bool = True
) -> tuple[list[Ready], int]:
    """(those that are good, exit code); every bad one is reported in one line. ``to_run``: see `experiment.prepare`."""
    from hwmodel.config.overrides import parse_overrides
    from hwmodel.experiment import prepare
    from hwmodel.scenario import load

    parse_overrides(sets)
    ready: list[Ready] = []
    faults: dict[str, HwmodelError] = {}
    for name in names:
        try:
            scenario = load(name, sets)
            try:
                ready.append(Ready(scenario, prepare(scenario, to_run=to_run)))
            except InputError as error:
                raise scenario.locate(error, "tiling" if scenario.program is None else "program") from error
        except HwmodelError as error:
            faults.setdefault(str(error), error)
    return ready, max((console.fail(error) for error in faults.values()), default=0)
