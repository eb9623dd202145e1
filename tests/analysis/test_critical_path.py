"""The critical path: it covers the run, and nudging instructions on and off it does what slack says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from explain_support import facts_of, nudged, path_of, programs, shipped, timed_scenarios
from hypothesis import given
from hypothesis import strategies as st
from support import Script, machine, traced

from hwmodel.analysis.constraints import HOW
from hwmodel.analysis.critical_path import CriticalPath, last_core
from hwmodel.analysis.stalls import CoreFacts
from hwmodel.arch import Arch
from hwmodel.program.instructions import Extract, Load
from hwmodel.program.program import Program
from hwmodel.trace import Trace

ARCH = machine()


def covers(path: CriticalPath, trace: Trace) -> None:
    """Busy time on the path, launch and gaps are the whole run, without gap or overlap."""
    now = 0
    for step in path.steps:
        assert step.start == now
        assert step.end >= step.start
        now = step.end
    assert now == trace.end
    assert sum(path.by_unit().values()) == -(-trace.end // trace.ticks_per_cycle)
    for step in path.steps:
        if step.node >= 0:
            assert path.graph.starts[step.node] <= step.start
            assert step.end <= path.graph.ends[step.node]


def last(trace: Trace, program: Program, arch: Arch) -> tuple[CoreFacts, CriticalPath]:
    every = facts_of(trace, program, arch)
    facts = every[last_core([each.graph for each in every])]
    return facts, path_of(trace, facts)


def in_order(facts: CoreFacts) -> bool:
    return not any(row.parallel for row in facts.rows)


@pytest.mark.parametrize("path", timed_scenarios(), ids=lambda path: path.stem)
def test_the_path_of_every_shipped_scenario_covers_it(path: Path) -> None:
    result = shipped(path)
    assert result is not None
    assert result.trace is not None
    assert result.program is not None
    facts, found = last(result.trace, result.program, result.arch)
    covers(found, result.trace)
    slack = facts.graph.slack(result.trace.end)
    assert slack.min() == 0
    if in_order(facts):
        assert np.array_equal(facts.graph.earliest, facts.graph.starts)
        assert not slack[found.nodes].any()
        assert "gap" not in found.by_unit()


@given(programs())
def test_starts_are_decided_by_the_constraints_and_the_path_covers_any_program(program: Program) -> None:
    trace = traced(ARCH, program)
    facts, found = last(trace, program, ARCH)
    assert np.array_equal(facts.graph.earliest, facts.graph.starts)
    covers(found, trace)
    slack = facts.graph.slack(trace.end)
    assert (slack >= 0).all()
    assert not slack[found.nodes].any()


@given(programs(banks=False, shared=False), st.data())
def test_slack_says_exactly_how_much_a_longer_instruction_costs(program: Program, data: st.DataObject) -> None:
    trace = traced(ARCH, program)
    (facts,) = facts_of(trace, program, ARCH)
    node = data.draw(st.integers(0, facts.graph.count - 1))
    slack = int(facts.graph.slack(trace.end)[node])
    row, position = facts.graph.place(node)
    for ticks in {1, slack, slack + 1, slack + 50}:
        end = nudged(ARCH, program, 0, facts.rows[row].engine, position, ticks).end
        assert end == trace.end + max(0, ticks - slack)


@pytest.mark.parametrize("name", ["hif4_512x128x512", "hif4_512x128x512_l0c2", "blocked_remainders", "a3_gemm_1536"])
def test_nudging_instructions_of_shipped_scenarios(name: str) -> None:
    result = shipped(next(path for path in timed_scenarios() if path.stem == name))
    assert result is not None
    assert result.trace is not None
    assert result.program is not None
    trace, program, arch = result.trace, result.program, result.arch
    facts, found = last(trace, program, arch)
    graph = facts.graph
    slack = graph.slack(trace.end)
    on = sorted(set(found.nodes))
    off = [node for node in range(graph.count) if slack[node] > 1]
    assert off
    for node in on[:: max(1, len(on) // 6)]:
        row, position = graph.place(node)
        assert trace.end <= nudged(arch, program, found.core, facts.rows[row].engine, position, 9).end <= trace.end + 9
    if len(program.cores) > 1:
        return  # a nudge moves who shares the link with whom
    for node in on[:: max(1, len(on) // 6)]:
        row, position = graph.place(node)
        assert nudged(arch, program, found.core, facts.rows[row].engine, position, 9).end == trace.end + 9
    for node in off[:: max(1, len(off) // 8)]:
        row, position = graph.place(node)
        spare = int(slack[node])
        for ticks, later in ((spare // 2, 0), (spare, 0), (spare + 5, 5)):
            assert nudged(arch, program, found.core, facts.rows[row].engine, position, ticks).end == trace.end + later


def test_nudging_instructions_of_overlapping_engines_within_their_slack_costs_nothing() -> None:
    """Half of it, as transfers that come later share the rings with others."""
    result = shipped(next(path for path in timed_scenarios() if path.stem == "trn1_bf16_fully_blocked"))
    assert result is not None
    assert result.trace is not None
    assert result.program is not None
    trace, program, arch = result.trace, result.program, result.arch
    facts, _ = last(trace, program, arch)
    slack = facts.graph.slack(trace.end)
    spare = [node for node in range(facts.graph.count) if slack[node] > 10]
    assert spare
    for node in spare[:: max(1, len(spare) // 5)]:
        row, position = facts.graph.place(node)
        end = nudged(arch, program, 0, facts.rows[row].engine, position, int(slack[node]) // 2).end
        assert end == trace.end


def test_the_path_by_hand() -> None:
    script = Script()
    script.add("MTE2", Load(640, 1, 640, 0), sets="a")  # 0 - 110
    script.add("MTE2", Load(64, 1, 64, 0), sets="b")  # 110 - 211
    script.add("MTE1", Extract(640, "l0b"), wait="a")  # 110 - 125
    script.add("MTE1", Extract(6400, "l0b"), wait="b")  # 211 - 271
    arch = machine({"launch_cycles": 7})
    program = script.program()
    trace = traced(arch, program)
    facts, found = last(trace, program, arch)
    assert [(step.start, step.end, step.how) for step in found.steps] == [
        (0, 7, "launch"), (7, 117, "launch"), (117, 218, "engine"), (218, 278, "flag"),
    ]  # fmt: skip
    assert found.by_unit() == {"launch": 7, "tload": 211, "textract": 60}
    assert facts.graph.slack(trace.end).tolist() == [0, 0, 86, 0]
    assert [(link.what, link.times, link.cycles) for link in found.chain()] == [
        ("launch", 1, 7), ("tload", 2, 211), ("textract", 1, 60),
    ]  # fmt: skip
    steps = found.to_dict()["steps"]
    assert [step["cycles"] for step in steps] == [7, 110, 101, 60]
    assert {step.get("started_by") for step in steps} <= {None, *HOW}


def test_an_empty_core_has_an_empty_path() -> None:
    program = Script().program()
    trace = traced(ARCH, program)
    _, found = last(trace, program, ARCH)
    assert found.steps == ()
    assert found.by_unit() == {}
