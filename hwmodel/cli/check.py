"""``hwmodel check``: validate, plan, lower and look for hazards, without simulating."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from hwmodel.cli.options import Json, NoColor, Quiet, Scenarios, Set, Verbose, configure
from hwmodel.cli.scenarios import Ready, prepare_all
from hwmodel.errors import InputError, choice


def _config(each: Ready) -> Iterator[str]:
    yield each.scenario.resolved().rstrip("\n")


def _plan(each: Ready) -> Iterator[str]:
    from hwmodel.config.dump import dump

    yield dump(_summary(each) or {"kind": None}).rstrip("\n")


def _program(each: Ready) -> Iterator[str]:
    if each.prepared.program is not None:
        yield from each.prepared.program.text()


def _hazards(each: Ready) -> Iterator[str]:
    for hazard in each.prepared.hazards():
        yield str(hazard)


SHOW: dict[str, Callable[[Ready], Iterator[str]]] = {
    "config": _config,
    "plan": _plan,
    "program": _program,
    "hazards": _hazards,
}
"""What ``--show`` can print, as lines."""


def command(
    context: typer.Context,
    scenarios: Scenarios,
    sets: Set = None,
    show: Annotated[
        str | None, typer.Option("--show", metavar="config|plan|program|hazards", help="Print this as well.")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> int:
    """Validate, lower and look for hazards, without simulating.

    Prints what ``--show`` asks for, else one line for each scenario; a hazard ends with exit code 2.
    """
    console = configure(context, quiet=quiet, verbose=verbose, as_json=as_json, no_color=no_color)
    part = SHOW[choice("--show", show, SHOW)] if show is not None else None
    ready, code = prepare_all(scenarios, sets, console, to_run=False)
    documents = []
    for each in ready:
        hazards = [str(hazard) for hazard in each.prepared.hazards()]
        if hazards:
            code = max(code, InputError.exit_code)
        document = _document(each, hazards)
        if part is not None:
            document[str(show)] = hazards if show == "hazards" else list(part(each))
        documents.append(document)
        if as_json:
            continue
        if part is not None and show != "hazards":
            for line in part(each):
                console.out(line)
        for hazard in hazards:
            console.out(f"{each.scenario.name}: hazard: {hazard}")
        if not quiet and show in (None, "hazards"):
            console.out(_verdict(each, len(hazards)))
    if as_json and documents:
        console.json(documents if len(scenarios) > 1 else documents[0])
    return code


def _document(each: Ready, hazards: list[str]) -> dict[str, Any]:
    program = each.prepared.program
    return {
        "schema_version": 1,
        "name": each.scenario.name,
        "arch": each.scenario.arch.name,
        "status": "hazards" if hazards else "ok",
        "hazards": hazards,
        "tiling": _summary(each),
        "instructions": None if program is None else program.count,
    }


def _summary(each: Ready) -> dict[str, Any]:
    plan = each.prepared.plan
    return {} if plan is None else dict(plan.summary())


def _verdict(each: Ready, hazards: int) -> str:
    program = each.prepared.program
    size = "no program" if program is None else f"{program.count:,} instructions on {len(program.cores)} core"
    size += "s" if program is not None and len(program.cores) != 1 else ""
    found = "no hazards" if not hazards else f"{hazards} hazard{'s' if hazards > 1 else ''}"
    return f"{each.scenario.name}: {size}, {found}"
