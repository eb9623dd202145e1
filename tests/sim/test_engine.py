"""In-order engines: queues, flags, equal times, banks, deadlocks. Timelines are worked out by hand."""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from fractions import Fraction
from typing import Any, NamedTuple

import pytest
from support import signals, waits

from hwmodel.errors import CapacityError
from hwmodel.program.instructions import Instruction
from hwmodel.sim import InOrderEngine, Kernel, Link
from hwmodel.sim.engine import Cost
from hwmodel.trace import WAIT_INPUT, WAIT_SPACE, Row, Stall

STAGES = {"load": 0, "move": 1, "multiply": 2, "drain": 3}


class Work(NamedTuple):
    """Parameters of a made-up instruction."""

    name: str
    ticks: int
    banks: tuple[Hashable, ...] = ()
    link_bytes: int = 0


class Unit:
    """An executor without hardware: costs and banks are in the parameters, values are a log."""

    def __init__(self, log: list[tuple[str, str, int]], kernel: Kernel, link: Link | None = None, *, banked: bool):
        self.kernel, self.link, self.log = kernel, link, log
        self.banks: Any = (lambda instruction: instruction.params.banks) if banked else None
        self.capture: Any = self._capture
        self.commit: Any = self._commit

    def cost(self, params: Any) -> Cost:
        assert self.link is not None or not params.link_bytes
        return Cost(params.ticks, ((self.link, params.link_bytes),) if params.link_bytes else ())  # type: ignore[arg-type]

    def _capture(self, instruction: Instruction) -> str:
        self.log.append(("start", instruction.params.name, int(self.kernel.env.now)))  # type: ignore[attr-defined]
        return "payload"

    def _commit(self, instruction: Instruction, payload: str) -> None:
        assert payload == "payload"
        self.log.append(("end", instruction.params.name, int(self.kernel.env.now)))  # type: ignore[attr-defined]


class Bench:
    """Engines wired together; ``run`` returns {name: (start, end)}."""

    def __init__(self) -> None:
        self.streams: dict[str, list[Instruction]] = {}
        self.numbers = itertools.count()
        self.rows: dict[str, Row] = {}
        self.engines: dict[str, InOrderEngine] = {}
        self.log: list[tuple[str, str, int]] = []
        self.kernel = Kernel()

    def add(
        self, engine: str, name: str, ticks: int, wait: str = "", sets: str = "", banks: str = "", number: int = -1,
        link_bytes: int = 0,
    ) -> None:  # fmt: skip
        self.streams.setdefault(engine, []).append(
            Instruction(
                next(self.numbers) if number < 0 else number,
                engine,
                engine,
                Work(name, ticks, tuple(banks.split()), link_bytes),
                waits=waits(wait),
                sets=signals(sets),
            )
        )

    def run(self, order: list[str] | None = None, launch: int = 0, link: Link | None = None) -> dict[str, Any]:
        for engine in order or list(self.streams):
            row = Row(0, engine, engine, tuple(self.streams[engine]))
            banked = any(instruction.params.banks for instruction in row.instructions)  # type: ignore[attr-defined]
            unit = Unit(self.log, self.kernel, link, banked=banked)
            self.rows[engine] = row
            stage = lambda instruction: STAGES[instruction.engine]  # noqa: E731
            self.engines[engine] = InOrderEngine(self.kernel, row, unit, stage, self.engines, launch)
        self.kernel.env.run()
        return {
            instruction.params.name: (start, end)  # type: ignore[attr-defined]
            for row in self.rows.values()
            for instruction, start, end in zip(row.instructions, row.starts, row.ends, strict=False)
        }

    def stalls(self, engine: str) -> list[Stall]:
        return self.rows[engine].stalls


def test_one_engine_runs_its_instructions_back_to_back() -> None:
    bench = Bench()
    for name, ticks in (("a", 5), ("b", 0), ("c", 7)):
        bench.add("load", name, ticks)
    assert bench.run() == {"a": (0, 5), "b": (5, 5), "c": (5, 12)}
    assert bench.stalls("load") == []


def test_launch_comes_before_everything() -> None:
    bench = Bench()
    bench.add("load", "a", 5)
    assert bench.run(launch=100) == {"a": (100, 105)}
    assert bench.stalls("load") == []


def test_a_flag_is_consumed_once_for_each_wait() -> None:
    bench = Bench()
    bench.add("load", "l0", 10, sets="f")
    bench.add("load", "l1", 10, sets="f")
    bench.add("move", "m0", 3, wait="f")
    bench.add("move", "m1", 3, wait="f")
    # l0 ends at 10, m0 10-13; the second wait needs the second set, at 20
    assert bench.run() == {"l0": (0, 10), "l1": (10, 20), "m0": (10, 13), "m1": (20, 23)}
    assert bench.stalls("move") == [
        Stall(0, 10, 0, WAIT_INPUT, "flag f", "load", 0),
        Stall(13, 20, 1, WAIT_INPUT, "flag f", "load", 1),
    ]


def test_sets_before_the_wait_are_counted() -> None:
    bench = Bench()
    for name in ("l0", "l1", "l2"):
        bench.add("load", name, 2, sets="f")
    bench.add("move", "late", 9)
    bench.add("move", "m0", 1, wait="f")
    bench.add("move", "m1", 1, wait="f f")
    assert bench.run()["m1"] == (10, 11)


def test_a_semaphore_is_reached_and_not_consumed() -> None:
    bench = Bench()
    bench.add("load", "l0", 4, sets="s+2")
    bench.add("load", "l1", 4, sets="s")
    bench.add("move", "m0", 1, wait="s>=2")
    bench.add("move", "m1", 1, wait="s>=2")
    bench.add("multiply", "x", 1, wait="s>=3")
    # s: 2 at 4, 3 at 8
    assert bench.run() == {"l0": (0, 4), "l1": (4, 8), "m0": (4, 5), "m1": (5, 6), "x": (8, 9)}


def test_two_engines_that_wait_for_one_flag_get_one_set_each() -> None:
    bench = Bench()
    bench.add("load", "l0", 4, sets="f")
    bench.add("load", "l1", 4, sets="f")
    bench.add("move", "m", 1, wait="f")
    bench.add("drain", "d", 1, wait="f")
    ends = bench.run()
    assert (ends["m"], ends["d"]) == ((4, 5), (8, 9))  # the lower number first


def test_a_wait_for_what_comes_later_in_the_pipeline_is_a_wait_for_space() -> None:
    bench = Bench()
    bench.add("move", "m0", 5, sets="full")
    bench.add("move", "m1", 5, wait="free", sets="full")
    bench.add("multiply", "x0", 20, wait="full", sets="free")
    bench.add("multiply", "x1", 20, wait="full")
    assert bench.run() == {"m0": (0, 5), "x0": (5, 25), "m1": (25, 30), "x1": (30, 50)}
    assert bench.stalls("move") == [Stall(5, 25, 1, WAIT_SPACE, "flag free", "multiply", 0)]
    assert bench.stalls("multiply") == [
        Stall(0, 5, 0, WAIT_INPUT, "flag full", "move", 0),
        Stall(25, 30, 1, WAIT_INPUT, "flag full", "move", 1),
    ]


@pytest.mark.parametrize("order", list(itertools.permutations(["load", "move", "multiply"])))
def test_at_equal_times_ends_come_before_starts(order: tuple[str, ...]) -> None:
    """Three engines without flags: at tick 10 one ends, one ends and starts, one starts."""
    bench = Bench()
    bench.add("load", "writer", 10)
    bench.add("move", "before", 10)
    bench.add("move", "reader", 5)
    bench.add("multiply", "first", 4)
    bench.add("multiply", "second", 6)
    bench.add("multiply", "third", 1)
    bench.run(list(order))
    at_ten = [(what, name) for what, name, now in bench.log if now == 10]
    assert {name for what, name in at_ten[:3] if what == "end"} == {"writer", "before", "second"}
    assert {name for what, name in at_ten[3:] if what == "start"} == {"reader", "third"}


def test_an_instruction_of_no_length_lets_others_start_in_the_same_tick() -> None:
    bench = Bench()
    bench.add("load", "a", 6, sets="f")
    bench.add("move", "sync", 0, wait="f", sets="g")
    bench.add("multiply", "x", 3, wait="g")
    assert bench.run() == {"a": (0, 6), "sync": (6, 6), "x": (6, 9)}


def test_two_users_of_one_bank_take_turns() -> None:
    bench = Bench()
    bench.add("multiply", "x0", 10, sets="f", banks="b0")
    bench.add("multiply", "x1", 10, banks="b0")
    bench.add("drain", "d0", 30, wait="f", banks="b0")
    # at 10 both x1 (number 1) and d0 (number 2) ask for b0: x1 first
    assert bench.run() == {"x0": (0, 10), "x1": (10, 20), "d0": (20, 50)}
    assert bench.stalls("drain") == [
        Stall(0, 10, 0, WAIT_INPUT, "flag f", "multiply", 0),
        Stall(10, 20, 0, WAIT_INPUT, "bank b0", "multiply", 1),
    ]


def test_two_banks_do_not_wait_for_each_other() -> None:
    bench = Bench()
    bench.add("multiply", "x0", 10, sets="f", banks="b0")
    bench.add("multiply", "x1", 10, banks="b1")
    bench.add("drain", "d0", 30, wait="f", banks="b0")
    assert bench.run() == {"x0": (0, 10), "x1": (10, 20), "d0": (10, 40)}


@pytest.mark.parametrize("order", [["multiply", "drain"], ["drain", "multiply"]])
@pytest.mark.parametrize("first", ["multiply", "drain"])
def test_banks_are_granted_by_instruction_number_whatever_was_made_first(order: list[str], first: str) -> None:
    bench = Bench()
    bench.add("multiply", "x", 10, banks="b", number=1 if first == "multiply" else 2)
    bench.add("drain", "d", 10, banks="b", number=2 if first == "multiply" else 1)
    expected = {"x": (0, 10), "d": (10, 20)} if first == "multiply" else {"d": (0, 10), "x": (10, 20)}
    assert bench.run(order) == expected


def test_numbers_decide_among_those_who_wait_when_a_bank_is_released() -> None:
    bench = Bench()
    bench.add("load", "holder", 10, banks="b", number=0)
    bench.add("drain", "early", 1, number=8)
    bench.add("drain", "high", 5, banks="b", number=9)
    bench.add("move", "late", 7, number=2)
    bench.add("move", "low", 5, banks="b", number=3)
    # high asks at 1, low at 7; the bank is free at 10 and goes to number 3
    assert bench.run() == {"holder": (0, 10), "early": (0, 1), "late": (0, 7), "low": (10, 15), "high": (15, 20)}
    assert bench.stalls("drain") == [Stall(1, 15, 1, WAIT_INPUT, "bank b", "move", 1)]


def test_who_wants_two_banks_is_not_overtaken_at_either() -> None:
    bench = Bench()
    bench.add("load", "holds_a", 10, banks="a", number=0)
    bench.add("move", "wants_both", 5, banks="a b", number=1)
    bench.add("drain", "wants_b", 5, banks="b", number=2)
    # b is free, but number 1 comes first at b as well
    assert bench.run() == {"holds_a": (0, 10), "wants_both": (10, 15), "wants_b": (15, 20)}


def test_a_link_comes_after_the_own_time() -> None:
    bench = Bench()
    link = Link(bench.kernel, "hbm", Fraction(10), Fraction(10))
    bench.add("load", "a", 7, link_bytes=100)
    bench.add("load", "b", 0, link_bytes=50)
    bench.add("move", "m", 12, link_bytes=30)
    # a: 7, then 100 bytes: alone until 12, 50 moved. m joins, 5 each: its 30 take 6 -> 18; a has 20 left at 10 -> 20
    assert bench.run(link=link) == {"a": (0, 20), "b": (20, 25), "m": (0, 18)}


def test_a_deadlock_says_who_waits_for_what_before_which_instruction() -> None:
    bench = Bench()
    bench.add("load", "l0", 5)
    bench.add("load", "l1", 5, wait="never")
    bench.add("move", "m0", 5, wait="sem>=3")
    bench.run()
    assert bench.engines["load"].process.is_alive
    assert bench.engines["load"].describe() == "core 0 load waits for flag never before instruction 1 (load)"
    assert bench.engines["move"].describe() == "core 0 move waits for semaphore sem before instruction 2 (move)"


def test_an_error_in_a_unit_comes_out_as_it_is() -> None:
    bench = Bench()
    bench.add("load", "a", 5)

    def refuse(instruction: Instruction, payload: Any) -> None:
        raise CapacityError("l1", 100, 64, "a tile", "a hint")

    row = Row(0, "load", "load", tuple(bench.streams["load"]))
    unit = Unit(bench.log, bench.kernel, banked=False)
    unit.commit = refuse
    InOrderEngine(bench.kernel, row, unit, lambda _: 0, {})
    with pytest.raises(CapacityError) as caught:
        bench.kernel.env.run()
    assert caught.value.needed_bytes == 100
    assert str(caught.value) == "l1: a tile needs 100 bytes, 64 bytes are there; a hint"
