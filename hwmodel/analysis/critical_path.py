"""The chain of instructions that determines when a run ends, and who has time to spare.

Walking back from the instruction that ends last: its start was decided by the instruction before it on its engine, by
one that raised its flag or semaphore, by one that gave a bank back, or by the launch; and so on to tick 0. The steps
cover the whole run, without gap or overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hwmodel.analysis.constraints import HOW, LAUNCH, QUEUE, Constraints
from hwmodel.analysis.naming import subject
from hwmodel.program.instructions import Instruction, label_text
from hwmodel.quantities import ceil_div

LAUNCH_NAME, GAP_NAME = "launch", "gap"


class Step(NamedTuple):
    """From tick ``start`` to tick ``end`` the run waited for this instruction; node -1 for launch and gaps.

    ``how`` says what let it start (names of `hwmodel.analysis.constraints`).
    """

    start: int
    end: int
    node: int
    how: str


class Link(NamedTuple):
    """Neighbouring steps of the same kind, as one: ``tmatmul_mx``, 4 of them, 5,632 cycles."""

    unit: str
    what: str
    times: int
    cycles: int
    first: str
    """Tile of the first of them."""
    last: str


@dataclass(frozen=True)
class CriticalPath:
    """The steps of one core from tick 0 to the end of the run, in the order of time."""

    core: int
    steps: tuple[Step, ...]
    graph: Constraints
    ticks_per_cycle: int

    @property
    def nodes(self) -> list[int]:
        """Nodes of the instructions on the path, those that take no time included."""
        return [step.node for step in self.steps if step.node >= 0]

    def cycles_of(self, step: Step) -> int:
        """Cycles of a step, its boundaries rounded up first; all of them sum to the cycles of the run."""
        return ceil_div(step.end, self.ticks_per_cycle) - ceil_div(step.start, self.ticks_per_cycle)

    def unit_of(self, step: Step) -> str:
        """The unit of a step's instruction, ``launch`` or ``gap``."""
        if step.node < 0:
            return LAUNCH_NAME if step.how == HOW[LAUNCH] else GAP_NAME
        return self.graph.rows[self.graph.place(step.node).row].unit

    def by_unit(self) -> dict[str, int]:
        """Cycles on the path: launch, then the units in the order of the rows, then gaps; zeros left out."""
        names = dict.fromkeys((LAUNCH_NAME, *(row.unit for row in self.graph.rows), GAP_NAME), 0)
        for step in self.steps:
            names[self.unit_of(step)] += self.cycles_of(step)
        return {name: cycles for name, cycles in names.items() if cycles}

    def chain(self) -> list[Link]:
        """The path for people: neighbouring steps of the same kind are one link."""
        links: list[Link] = []
        for step in self.steps:
            cycles = self.cycles_of(step)
            if not cycles:
                continue
            instruction = self.graph.instruction(step.node) if step.node >= 0 else None
            what = step.how if instruction is None else _what(instruction)
            unit, tile = self.unit_of(step), "" if instruction is None else label_text(instruction.label)
            if links and (links[-1].unit, links[-1].what) == (unit, what):
                before = links[-1]
                links[-1] = before._replace(times=before.times + 1, cycles=before.cycles + cycles, last=tile)
            else:
                links.append(Link(unit, what, 1, cycles, tile, tile))
        return links

    def to_dict(self) -> dict[str, Any]:
        """For ``explain --json``."""
        steps = []
        for step in self.steps:
            cycles = self.cycles_of(step)
            if not cycles:
                continue
            start = ceil_div(step.start, self.ticks_per_cycle)
            record: dict[str, Any] = {"start_cycle": start, "cycles": cycles, "unit": self.unit_of(step)}
            if step.node >= 0:
                instruction = self.graph.instruction(step.node)
                record |= {
                    "engine": instruction.engine,
                    "instruction": instruction.number,
                    "op": instruction.op,
                    "tile": label_text(instruction.label),
                    "started_by": step.how,
                }
            steps.append(record)
        return {"core": self.core, "cycles_by_unit": self.by_unit(), "steps": steps}


def _what(instruction: Instruction) -> str:
    what = subject(instruction)
    return f"{instruction.op} {what}" if what else instruction.op


def critical_path(core: int, graph: Constraints, end: int, ticks_per_cycle: int) -> CriticalPath:
    """Walk back from the instruction of this core that ends last; the path is padded to the ``end`` of the run."""
    if not graph.count:
        steps = (Step(0, end, -1, GAP_NAME),) if end else ()
        return CriticalPath(core, steps, graph, ticks_per_cycle)
    starts, ends = graph.starts, graph.ends
    binding, how = graph.binding
    behind = graph.behind
    node = graph.count - 1 - int(np.argmax(ends[::-1]))
    found: list[Step] = []
    until = end
    seen: set[int] = set()
    while node >= 0:
        seen.add(node)
        stop = int(ends[node])
        if stop < until:
            found.append(Step(stop, until, -1, GAP_NAME))
            until = stop
        before = int(behind[node])
        if before >= 0 and stop == until and ends[before] > starts[node]:
            found.append(Step(int(ends[before]), until, node, HOW[QUEUE]))
            node, until = before, int(ends[before])
            continue
        found.append(Step(int(starts[node]), until, node, HOW[int(how[node])]))
        until = int(starts[node])
        following = int(binding[node])
        if following in seen:  # instructions without length in one tick may stand in for each other
            following = next((other for other in graph.met(node) if other not in seen), -1)
        node = following
    launch = min(graph.launch, until)
    if until > launch:
        found.append(Step(launch, until, -1, GAP_NAME))
    if launch:
        found.append(Step(0, launch, -1, HOW[LAUNCH]))
    return CriticalPath(core, tuple(reversed(found)), graph, ticks_per_cycle)


def last_core(graphs: Sequence[Constraints]) -> int:
    """Place of the core that ends last, the first of them where several do."""
    ends = [int(graph.ends.max(initial=0)) for graph in graphs]
    return ends.index(max(ends)) if ends else -1
