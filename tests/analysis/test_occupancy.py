"""Occupancy of buffers, with times worked out by hand."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

from hwmodel.analysis.flow import Lives, lives, times
from hwmodel.analysis.occupancy import Track, core_tracks, occupancy
from hwmodel.arch import Arch, ArchSpec
from hwmodel.experiment import simulate
from hwmodel.program.instructions import Extract, Instruction, Matmul
from hwmodel.program.memory import Tile
from hwmodel.program.program import CoreProgram, Program
from hwmodel.scenario import load
from hwmodel.trace import Row, Trace

ARCH = Arch(
    ArchSpec.model_validate(
        {
            "name": "toy", "family": "ascend", "clock_mhz": 1000, "cores": 1, "units": {},
            "buffers": {"l1": {"capacity_bytes": 128}, "l0c": {"capacity_bytes": 64}},
        }
    )
)  # fmt: skip


def tile(offset: int, size: int, space: str = "l1") -> Tile:
    return Tile(space, offset, size, "int8", 1, size, "ND", "data", (1, size))


def step(reads: list[Tile], writes: list[Tile], *, adds: bool = False, engine: str = "E") -> Instruction:
    params = Matmul(1, 1, 1, "int8", "int8", adds) if adds else Extract(0, "")
    return Instruction(0, "op", engine, params, tuple(reads), tuple(writes))


def tracks(*steps: tuple[Instruction, int, int]) -> dict[str, Track]:
    starts, ends = (np.array([entry[i] for entry in steps], np.int64) for i in (1, 2))
    found = core_tracks(0, lives([entry[0] for entry in steps]), starts, ends, ARCH)
    return {track.buffer: track for track in found}


def steps_of(track: Track) -> list[tuple[int, int]]:
    return list(zip(track.ticks.tolist(), track.used_bytes.tolist(), strict=True))


def test_a_tile_lives_from_the_start_of_its_writer_to_the_end_of_its_last_reader() -> None:
    x = tile(0, 32)
    track = tracks((step([], [x]), 10, 20), (step([x], []), 20, 30), (step([x], []), 25, 28))["l1"]
    assert steps_of(track) == [(0, 0), (10, 32), (30, 0)]
    assert (track.peak_bytes, track.capacity_bytes, track.mean_bytes(40)) == (32, 128, 16.0)
    assert not track.reused


def test_a_tile_nobody_reads_lives_while_it_is_written() -> None:
    assert steps_of(tracks((step([], [tile(0, 32)]), 0, 5))["l1"]) == [(0, 32), (5, 0)]


def test_overwriting_back_to_back_leaves_no_gap_and_counts_once() -> None:
    x = tile(0, 32)
    track = tracks((step([], [x]), 0, 5), (step([x], []), 5, 9), (step([], [x]), 9, 12), (step([x], []), 12, 20))["l1"]
    assert steps_of(track) == [(0, 32), (20, 0)]
    assert list(zip(track.born.tolist(), track.gone.tolist(), track.writer.tolist(), strict=True)) == [
        (0, 9, 0),
        (9, 20, 2),
    ]
    assert track.reused


def test_sums_live_while_others_add_to_them() -> None:
    acc = tile(0, 64, "l0c")
    track = tracks((step([], [acc]), 0, 5), (step([], [acc], adds=True), 8, 12), (step([acc], []), 15, 20))["l0c"]
    assert steps_of(track) == [(0, 64), (20, 0)]


def test_two_halves_add_up() -> None:
    a, b = tile(0, 32), tile(32, 32)
    track = tracks((step([], [a]), 0, 5), (step([], [b]), 5, 9), (step([a], []), 5, 12), (step([b], []), 12, 15))["l1"]
    assert steps_of(track) == [(0, 32), (5, 64), (12, 32), (15, 0)]


def test_a_tile_overwritten_in_part_keeps_the_rest() -> None:
    x = tile(0, 64)
    track = tracks(
        (step([], [x]), 0, 5), (step([x], []), 5, 9), (step([], [tile(16, 16)]), 20, 25), (step([x], []), 30, 40)
    )["l1"]
    assert steps_of(track) == [(0, 64), (9, 48), (20, 64), (40, 0)]


@pytest.mark.parametrize("name", ["hif4_256x256x256", "hif4_512x128x512", "hif4_512x128x512_l0c2"])
def test_l0c_is_filled_to_its_262144_bytes_and_never_beyond_a17(name: str) -> None:
    result = simulate(load(name))
    assert result.trace is not None
    assert result.program is not None
    (track,) = [each for each in occupancy(result.trace, result.program, result.arch) if each.buffer == "l0c"]
    assert (track.peak_bytes, track.capacity_bytes) == (262144, 262144)
    assert max(held for _, held in steps_of(track)) == 262144


def test_a_race_never_counts_a_byte_twice() -> None:
    x = tile(0, 128)
    track = tracks((step([], [x]), 0, 5), (step([x], []), 5, 30), (step([], [x]), 10, 12), (step([x], []), 12, 40))[
        "l1"
    ]
    assert steps_of(track) == [(0, 128), (40, 0)]
    assert track.peak_bytes <= track.capacity_bytes


def test_nothing_at_all() -> None:
    assert core_tracks(0, Lives(), np.zeros(0, np.int64), np.zeros(0, np.int64), ARCH) == []


@pytest.mark.parametrize("cores", [None, [1]])
def test_times_come_from_the_rows_of_each_core(cores: list[int] | None) -> None:
    x = tile(0, 32)
    instructions = (step([], [x]), step([x], [], engine="F"))
    program = Program({}, (CoreProgram(0, instructions), CoreProgram(1, instructions)))
    rows = []
    for core, shift in ((0, 0), (1, 100)):
        rows.append(Row(core, "E", "e", instructions[:1], False, array("q", [shift]), array("q", [shift + 5])))
        rows.append(Row(core, "F", "f", instructions[1:], False, array("q", [shift + 5]), array("q", [shift + 7])))
    trace = Trace(rows, 107, 0, 1, (1, 1))
    assert [column.tolist() for column in times(program.cores[1], trace)] == [[100, 105], [105, 107]]
    found = occupancy(trace, program, ARCH, cores)
    assert [track.core for track in found] == (cores or [0, 1])
    assert steps_of(found[-1]) == [(0, 0), (100, 32), (107, 0)]
