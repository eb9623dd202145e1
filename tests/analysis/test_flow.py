"""Dependences of hand-written instruction lists."""

from __future__ import annotations

from typing import Any

import pytest

from hwmodel.analysis.flow import Flow, lives, signal_flows
from hwmodel.program.instructions import Extract, Instruction, Matmul, Signal, Sync, Wait
from hwmodel.program.memory import Operand, Part, Tile, Window


def tile(space: str, offset: int, size: int) -> Tile:
    return Tile(space, offset, size, "int8", 1, size, "ND", "data", (1, size))


def part(of: Tile, offset: int, size: int) -> Part:
    return Part(of, 0, offset - of.offset, 1, size, offset, size)


def step(reads: list[Operand], writes: list[Operand], *, adds: bool = False, **rest: Any) -> Instruction:
    params = Matmul(1, 1, 1, "int8", "int8", adds) if adds else Extract(0, "")
    return Instruction(0, "op", "E", params, tuple(reads), tuple(writes), **rest)


def flows(*instructions: Instruction) -> list[Flow]:
    return lives(instructions).flows()


def test_a_reader_depends_on_the_last_writer() -> None:
    x = tile("l1", 0, 64)
    program = (step([], [x]), step([x], []), step([], [x]), step([x], []))
    assert flows(*program) == [Flow(0, 1, "l1"), Flow(2, 3, "l1")]


def test_parts_of_a_tile_depend_on_its_writer() -> None:
    x = tile("l1", 0, 64)
    program = (step([], [x]), step([part(x, 0, 32)], []), step([part(x, 32, 32)], []))
    assert flows(*program) == [Flow(0, 1, "l1"), Flow(0, 2, "l1")]


def test_a_read_across_two_tiles_depends_on_both_writers() -> None:
    whole = tile("l1", 0, 64)
    program = (step([], [tile("l1", 0, 32)]), step([], [tile("l1", 32, 32)]), step([whole], []))
    assert flows(*program) == [Flow(0, 2, "l1"), Flow(1, 2, "l1")]


def test_spaces_do_not_mix() -> None:
    program = (step([], [tile("l1", 0, 32)]), step([tile("l0a", 0, 32)], []))
    assert flows(*program) == []


@pytest.mark.parametrize(("offset", "expected"), [(0, [1, 0]), (16, [0, 1, 0]), (32, [0, 1])])
def test_a_tile_overwritten_in_part_keeps_its_writer_elsewhere(offset: int, expected: list[int]) -> None:
    """Reading byte by byte afterwards meets the writers in the order of the bytes."""
    x = tile("l1", 0, 64)
    program = (step([], [x]), step([], [tile("l1", offset, 32)]), step([x], []))
    found = lives(program)
    alive = [i for i in range(len(found.space)) if found.size[i] and found.overwritten_by[i] < 0]
    assert [found.writer[i] for i in sorted(alive, key=lambda i: found.offset[i])] == expected
    assert sum(found.size[i] for i in alive) == 64
    assert set(found.flows()) == {Flow(0, 2, "l1"), Flow(1, 2, "l1")}


def test_adding_depends_on_what_was_there_and_passes_it_on() -> None:
    acc = tile("l0c", 0, 64)
    program = (step([], [acc]), step([], [acc], adds=True), step([], [acc], adds=True), step([acc], []))
    assert flows(*program) == [Flow(0, 1, "l0c"), Flow(1, 2, "l0c"), Flow(2, 3, "l0c")]
    assert len(lives(program).space) == 1


def test_working_in_place_goes_on() -> None:
    x = tile("l1", 0, 64)
    program = (step([], [x]), step([x], [x]), step([x], []))
    assert flows(*program) == [Flow(0, 1, "l1"), Flow(1, 2, "l1")]
    assert len(lives(program).space) == 1


def test_adding_to_a_larger_place_begins_the_rest() -> None:
    program = (step([], [tile("l0c", 16, 16)]), step([], [tile("l0c", 0, 64)], adds=True))
    found = lives(program)
    sizes = [(found.offset[i], found.size[i], found.first[i]) for i in range(len(found.space)) if found.size[i]]
    assert sorted(sizes) == [(0, 16, 1), (16, 16, 0), (32, 32, 1)]


def test_gm_counts_where_it_is_written_and_read_again() -> None:
    out, other = Window("c", 0, 0, 4, 4), Window("c", 4, 0, 4, 4)
    program = (
        step([], [out]),
        step([other], []),
        step([Window("c", 3, 3, 1, 1)], []),
        step([Window("a", 0, 0, 4, 4)], []),
    )
    assert flows(*program) == [Flow(0, 2, "gm.c")]


def test_nth_wait_belongs_to_nth_set() -> None:
    def sync(sets: str = "", waits: str = "") -> Instruction:
        return Instruction(
            0, "x", "E", Sync("x"),
            waits=(Wait(waits),) if waits else (), sets=(Signal(sets),) if sets else (),
        )  # fmt: skip

    program = (sync("f"), sync(waits="f"), sync("f"), sync(waits="f"), sync(waits="f"))
    assert signal_flows(program) == [Flow(0, 1, "f"), Flow(2, 3, "f")]


def test_a_semaphore_wait_belongs_to_the_set_that_reaches_it() -> None:
    def raise_by(amount: int) -> Instruction:
        return Instruction(0, "x", "E", Sync("x"), sets=(Signal("s", amount),))

    program = (
        raise_by(1),
        raise_by(2),
        raise_by(1),
        Instruction(0, "x", "E", Sync("x"), waits=(Wait("s", 3), Wait("s", 4))),
    )
    assert signal_flows(program) == [Flow(1, 3, "s"), Flow(2, 3, "s")]
