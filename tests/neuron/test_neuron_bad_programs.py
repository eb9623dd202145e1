"""Programs that cannot run: each is refused with the number of the instruction and what is legal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from neuron_programs import (
    TRN2,
    TRN3,
    codes,
    dense,
    integers,
    left,
    matmult,
    normal,
    psum,
    ready,
    refused,
    result,
    sbuf,
    tensor,
)

from hwmodel.errors import DeadlockError, InputError
from hwmodel.scenario import load

COPY = {"op": "copy", "src": "acc", "dst": "y"}


def with_copy(**rest: Any) -> dict[str, Any]:
    return {**dense(16, 8, 6), "y": sbuf("float32", 8, 6), **rest}


MX = {
    "op": 95, "ifmap": "x", "weights": "w", "ifmap_scales": "xs", "weights_scales": "ws", "dst": "acc", "start": True,
}  # fmt: skip


def mx(partitions: int) -> dict[str, Any]:
    return {
        "x": sbuf("float8_e4m3fn_x4", partitions, 6, init=normal(1)),
        "w": sbuf("float8_e4m3fn_x4", partitions, 8, init=normal(2)),
        "xs": sbuf("uint8", partitions, 6, init=integers(3, 120, 130)),
        "ws": sbuf("uint8", partitions, 8, init=integers(4, 120, 130)),
        "acc": psum(8, 6),
    }


BAD: dict[str, tuple[dict[str, Any], list[dict[str, Any]], str, tuple[str, ...]]] = {
    "an operand of 0 and 1 whose dtype takes one pass": (
        {**dense(16, 8, 6), "x": sbuf("bfloat16", 16, 6), "w": sbuf("bfloat16", 16, 8)},
        [matmult(weights_onezero=True)], TRN2, ("weights_onezero: expected with float32", "bfloat16"),
    ),
    "a matmul into SBUF": (
        {**dense(16, 8, 6), "acc": sbuf("float32", 8, 6)}, [matmult()], TRN2, ("a matmul writes PSUM only", "isSB"),
    ),
    "a group that never starts": (
        with_copy(), [matmult(start=False, accumulate=True)], TRN2, ("no start wrote", "start: true"),
    ),
    "a bank beyond 7": (
        with_copy(acc=psum(8, 6, bank=8)), [matmult()], TRN2, ("reaches bank 8", "banks 0 to 7"),
    ),
    "a bank before the first": (
        with_copy(acc=psum(8, 6, bank=-1)), [matmult()], TRN2, ("reaches bank -1", "banks 0 to 7"),
    ),
    "a start in the bank of an open group": (
        with_copy(acc=psum(8, 6, bank=0), other=psum(8, 6, bank=0, offset=1024)),
        [matmult(stop=False), matmult(dst="other", stop=True)], TRN2,
        ("clearing bank 0", "instruction 1 started", "stop: true"),
    ),
    "a start that clears the bank of an open group too": (
        with_copy(acc=psum(8, 6, bank=1), other=psum(8, 6, bank=0)),
        [matmult(stop=False), matmult(dst="other", stop=True, clear_banks_log2=1)], TRN3,
        ("clearing bank 1", "instruction 1 started", "stop: true"),
    ),
    "reading one of two open groups of a bank": (
        with_copy(acc=psum(8, 6, bank=0), other=psum(8, 6, bank=0, partition=32)),
        [matmult(stop=False), matmult(dst="other", stop=True), COPY], TRN2, ("bank 0", "instruction 1 started"),
    ),
    "a sum of two tensors in PSUM": (
        with_copy(), [matmult(stop=True), {"op": "add", "a": "acc", "b": "acc", "dst": "y"}], TRN2,
        ("a, b: expected at most one of them in psum",),
    ),
    "reading a bank before its stop": (
        with_copy(), [matmult(stop=False), COPY], TRN2, ("bank 0", "before the stop", "stop: true"),
    ),
    "a group without its stop": (
        with_copy(), [matmult(stop=False)], TRN2,
        ("group that instruction 1 started in bank 0", "lacks its stop when the program ends", "stop: true"),
    ),
    "a group whose stop was not its last matmul": (
        with_copy(),
        [matmult(stop=False), matmult(start=False, stop=True), matmult(start=False, accumulate=True, stop=False)], TRN3,
        ("group that instruction 1 started in bank 0", "lacks its stop"),
    ),
    "a copy into an open group": (
        with_copy(y=sbuf("float32", 8, 6, init=normal(4))),
        [matmult(stop=False), {"op": "copy", "src": "y", "dst": "acc"}], TRN3,
        ("writes acc [8, 6] float32 in psum, bank 0", "open group that instruction 1 started", "stop: true"),
    ),
    "a copy into a part of an open group": (
        with_copy(y=sbuf("float32", 8, 1, init=normal(4))),
        [matmult(stop=False), {"op": "copy", "src": "y", "dst": {"tensor": "acc", "cols": [5, 1]}}], TRN2,
        ("writes acc[0:8, 5:6]", "open group"),
    ),
    "an accumulator read out into an open group": (
        with_copy(y=sbuf("float32", 8, 6, init=normal(4))),
        [{"op": "engine_accumulate", "command": "zero_accumulate", "src": "y"}, matmult(stop=False),
         {"op": 5, "dst": {"tensor": "acc", "cols": [0, 1]}}], TRN2,
        ("writes acc[0:8, 0:1]", "open group that instruction 2 started"),
    ),
    "a sum with what an engine left in PSUM": (
        with_copy(y=sbuf("float32", 8, 6, init=normal(4))),
        [{"op": "copy", "src": "y", "dst": "acc"}, matmult(start=False, accumulate=True)], TRN2,
        ("adds to acc [8, 6] float32 in psum, which an engine wrote", "neuron_trn2", "undefined", "start: true"),
    ),
    "a sum with one element that an engine left in PSUM": (
        with_copy(y=sbuf("float32", 8, 1, init=normal(4))),
        [matmult(), {"op": "copy", "src": "y", "dst": {"tensor": "acc", "cols": [3, 1]}}, matmult(start=False)], TRN2,
        ("which an engine wrote",),
    ),
    "moving size over 512": (
        {**dense(16, 8, 513), "acc": psum(8, 513)}, [matmult()], TRN2, ("at most 512 moving rows", "not 513"),
    ),
    "mixed fp32 and bf16": (
        {**with_copy(), "w": sbuf("float32", 16, 8, init=normal(3))}, [matmult()], TRN2,
        ("bfloat16 x float32", "fp32 is not mixed", "legal is"),
    ),
    "mixed kinds of e4m3": (
        {**dense(16, 8, 6, dtype="float8e4"), "w": sbuf("float8_e4m3fn", 16, 8, init=normal(3))}, [matmult()], TRN2,
        ("the two kinds of e4m3",),
    ),
    "odd MX partitions": (mx(24), [MX], "neuron_trn3", ("32, 64, 128 partitions", "not 24")),
    "an operand of the wrong dtype": (
        with_copy(x=sbuf("int32", 16, 6, init=integers(1))), [matmult()], TRN2,
        ("Invalid ifmap data type", "int32", "legal are floats and uint8"),
    ),
    "more weight columns than the array has": (
        {**dense(16, 8, 6), "w": sbuf("bfloat16", 16, 130, init=normal(1)), "acc": psum(128, 6)}, [matmult()], TRN2,
        ("dst: expected [130, 6]",),
    ),
    "a start partition that engines cannot reach": (
        with_copy(x=sbuf("bfloat16", 16, 6, init=normal(1), partition=16)), [matmult()], TRN2,
        ("starts at partition 0, 32, 64 or 96", "not 16"),
    ),
    "sums across two banks": (
        with_copy(acc=psum(8, 6, offset=2040)), [matmult()], TRN2, ("more than one bank",),
    ),
    "a DMA out of PSUM": (
        with_copy(out=tensor("dram", "float32", 8, 6)), [matmult(), {"op": "store", "src": "acc", "dst": "out"}], TRN2,
        ("DMA does not reach PSUM", "copy to SBUF first"),
    ),
    "a load between different shapes": (
        {"h": tensor("dram", "float32", 4, 6, init=normal(1)), "y": sbuf("float32", 4, 7)},
        [{"op": "load", "src": "h", "dst": "y"}], TRN2, ("[4, 6]", "[4, 7]"),
    ),
    "a load that casts": (
        {"h": tensor("dram", "float32", 4, 6, init=normal(1)), "y": sbuf("bfloat16", 4, 6)},
        [{"op": "load", "src": "h", "dst": "y"}], TRN2, ("DMA moves bytes", "bfloat16"),
    ),
    "a copy out of DRAM": (
        with_copy(acc=tensor("dram", "float32", 8, 6, init=normal(1))), [COPY], TRN2, ("load and store",),
    ),
    "a queue that is not there": (
        {"h": tensor("dram", "float32", 4, 6, init=normal(1)), "y": sbuf("float32", 4, 6)},
        [{"op": "load", "src": "h", "dst": "y", "queue": 9}], TRN2, ("queue: expected 0 to 3, not 9",),
    ),
    "sums in bf16": (with_copy(acc=psum(8, 6, dtype="bfloat16")), [matmult()], TRN2, ("float32",)),
    "sums in fp16": (with_copy(acc=psum(8, 6, dtype="float16")), [matmult()], TRN2, ("float32 sums",)),
    "more elements than the one bank that a start clears": (
        {**dense(16, 8, 600), "acc": psum(8, 600)}, [matmult()], TRN3,
        ("spans more than the bank that the start clears",),
    ),
    "more elements than the two banks that a start clears": (
        {**dense(16, 8, 1025), "acc": psum(8, 1025)}, [matmult(clear_banks_log2=1)], TRN3,
        ("spans more than the 2 banks that the start clears",),
    ),
    "mixed uint8 and fp32": (
        with_copy(x=sbuf("uint8", 16, 6, init=integers(1, 0, 9)), w=sbuf("float32", 16, 8, init=normal(3))),
        [matmult()], TRN2, ("uint8 x float32", "legal is float32 x float32"),
    ),
    "scale bytes as an operand": (
        with_copy(x=sbuf("float8_e8m0fnu", 16, 6, init=codes([[127] * 6] * 16))), [matmult()], TRN3,
        ("float8_e8m0fnu: no operand of a matmul",),
    ),
    "a cast to scale bytes": (
        {"a": sbuf("float32", 4, 4, init=normal(1)), "b": sbuf("float8_e8m0fnu", 4, 4)},
        [{"op": "copy", "src": "a", "dst": "b"}], TRN3, ("a dtype that can be cast", "b [4, 4] float8_e8m0fnu"),
    ),
    "a sum of scale bytes": (
        {"a": sbuf("float8_e8m0fnu", 4, 4, init=codes([[127] * 4] * 4)), "b": sbuf("float32", 4, 4)},
        [{"op": "add", "a": "a", "b": "a", "dst": "b"}], TRN3, ("a dtype that can be cast",),
    ),
    "a reduction of scale bytes": (
        {"a": sbuf("float8_e8m0fnu", 4, 4, init=codes([[127] * 4] * 4))},
        [{"op": "engine_accumulate", "command": "zero_accumulate", "src": "a"}], TRN3,
        ("src: expected numbers on chip",),
    ),
    "column tiling with doubled rows": (
        {**dense(16, 8, 6, dtype="float8e4"), "acc": psum(4, 3)}, [matmult(perf_mode=4, col_group=64)], TRN2,
        ("col_group: expected 128 with perf_mode 4", "not 64"),
    ),
    "more sums than PSUM holds": (
        {**dense(4, 2, 4097)}, [matmult(clear_banks_log2=3)], TRN3, ("at most 4096 moving rows", "all PSUM banks"),
    ),
    "a mode on wide operands": (
        {**dense(16, 8, 6), "acc": psum(4, 3)}, [matmult(perf_mode=1)], TRN2, ("expected FP8 operands",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_bad_program_is_refused_with_number_and_what_is_legal(what: str) -> None:
    tensors, instructions, arch, words = BAD[what]
    first = {"op": "copy", "src": "zero", "dst": "zero"}
    padded = {**tensors, "zero": sbuf("float32", 1, 1, init=[[0.0]])}
    text = refused(padded, [first, *instructions], arch)
    for word in words:
        assert word in text
    wrong = len(instructions)  # with the copy in front, the last one is the culprit
    assert f"program.instructions[{wrong}]" in text
    assert f"instruction {wrong} (" in text


@pytest.mark.parametrize("side", ["weights", "ifmap"])
def test_an_operand_of_0_and_1_that_holds_others_is_refused_where_it_is_multiplied(side: str) -> None:
    tensors = dense(16, 8, 6, dtype="float32")
    with pytest.raises(
        InputError, match=f"instruction 0 .matmult.: {side}_onezero: expected only 0 and 1 in the {side}, not "
    ):
        result(tensors, [matmult(**{f"{side}_onezero": True})], TRN2)


def test_legality_off_runs_the_value_model_of_the_requirement() -> None:
    beyond = (
        "moving size over 512",
        "mixed fp32 and bf16",
        "mixed kinds of e4m3",
        "odd MX partitions",
        "a start partition that engines cannot reach",
        "a sum of two tensors in PSUM",
        "a start in the bank of an open group",
        "a group without its stop",
        "a copy into an open group",
        "a sum with what an engine left in PSUM",
    )
    for what in beyond:
        tensors, instructions, arch, _ = BAD[what]
        left(tensors, instructions, arch, legality="off")


@pytest.mark.parametrize("number", [2**53 + 1, -(2**63), 2**63, 2**64 - 1, -1])
def test_large_integers_are_exact(number: int) -> None:
    found = left({"a": sbuf("int64", 1, 1, init=[[number]])}, [], TRN2)
    assert int(found["a"][0, 0]) == number % 2**64


def test_errors_have_the_line_of_the_instruction(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(
        """name: bad
arch: neuron_trn2
program:
  tensors:
    x: {space: sbuf, dtype: bfloat16, shape: [4, 4], init: {kind: normal}}
    acc: {space: sbuf, dtype: float32, shape: [4, 4]}
  instructions:
    - op: matmult
      ifmap: x
      weights: x
      dst: acc
      start: true
"""
    )
    from hwmodel.experiment import prepare

    with pytest.raises(InputError) as error:
        prepare(load(path))
    assert str(error.value).startswith(f"{path}:8: program.instructions[0]: instruction 0 (matmult): dst:")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ifmpa": "x"}, ("instructions[0].ifmpa", "did you mean 'ifmap'")),
        ({"start": "yes"}, ("instructions[0].start", "true or false")),
        ({"ifmap": "xx"}, ("unknown tensor 'xx'", "did you mean 'x'")),
        ({"clear_banks_log2": 300}, ("clear_banks_log2", "at most 255")),
    ],
)
def test_wrong_fields_are_named(change: dict[str, Any], words: tuple[str, ...]) -> None:
    text = refused(dense(4, 2, 3), [matmult(**change)])
    for word in words:
        assert word in text


def test_op_is_needed_once() -> None:
    assert "expected op, a name or an opcode number, but it is missing" in refused({}, [{"dst": "x"}])
    assert "not both op and opcode" in refused({}, [{"op": 8, "opcode": 8}])
    left(dense(4, 2, 3), [{**{k: v for k, v in matmult().items() if k != "op"}, "opcode": 8}])


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (sbuf("float32", 4, 60000), ("tensors.a", "sbuf", "229,376")),
        (sbuf("float32", 4, 1000, offset=400000), ("tensors.a", "404,000", "229,376")),
        (sbuf("float32", 130, 4), ("tensors.a", "partitions 0 to 127")),
        (sbuf("float32", 4, 4, bank=1), ("tensors.a.bank", "no banks")),
        (psum(4, 4, bank=8, init=normal(1)), ("tensors.a: ", "reaches bank 8", "banks 0 to 7")),
        (psum(4, 4, bank=-1, output=True), ("tensors.a: ", "reaches bank -1", "banks 0 to 7")),
        (tensor("dram", "float32", 4, 4, offset=4), ("tensors.a.offset", "DRAM")),
        (tensor("dram", "float32", 10**20, 4), ("tensors.a.shape", "at most 4,294,967,296 bytes")),
        (tensor("l1", "float32", 4, 4), ("tensors.a.space", "dram, sbuf or psum")),
        (sbuf("float32", 4, 4, init=[[1.0] * 4] * 3), ("init.data", "expected 4 rows, not 3")),
        (sbuf("float32", 1, 4, init=[[1.0] * 4] * 3), ("init.data: expected 1 row, not 3",)),
        (sbuf("float32", 2, 1, init=[[1.0] * 4] * 2), ("init.data[0]: expected 1 element, not 4",)),
        (sbuf("uint8", 1, 2, init=codes([[7, 256]])), ("init.data: expected codes from 0 to 255, not 256 at [0, 1]",)),
        (sbuf("int16", 1, 1, init=codes([[-1]])), ("init.data: expected codes from 0 to 65535, not -1",)),
        (sbuf("uint64", 1, 1, init=codes([[2**64]])), ("not 18446744073709551616 at [0, 0]",)),
        (sbuf("uint16", 1, 1, init=[[70000]]), ("init: expected integers from -32768 to 65535, not 70000",)),
        (sbuf("uint16", 1, 1, init=[[float("inf")]]), ("whole numbers",)),
        (sbuf("float32", 1, 1, init=[[10**400]]), ("expected numbers that a double holds",)),
        (sbuf("int16", 4, 4, init=[[1.5] * 4] * 4), ("whole numbers",)),
    ],
)
def test_tensors_that_do_not_fit_are_named(entry: dict[str, Any], words: tuple[str, ...]) -> None:
    text = refused({"a": entry}, [], TRN2)
    for word in words:
        assert word in text


# -- semaphores of the user's own --------------------------------------------------------------------------------------


def test_own_semaphores_order_a_program() -> None:
    tensors = with_copy(h=tensor("dram", "bfloat16", 16, 6, init=normal(1)), x=sbuf("bfloat16", 16, 6))
    good = [
        {"op": "load", "src": "h", "dst": "x", "sets": [{"semaphore": "loaded"}]},
        matmult(waits=[{"semaphore": "loaded", "at_least": 1}], sets=[{"semaphore": "done"}]),
        {**COPY, "waits": [{"semaphore": "done", "at_least": 1}]},
    ]
    left(tensors, good)
    assert ready(tensors, good).hazards() == ()


@pytest.mark.parametrize("engine", ["vector", "scalar"])
def test_an_engine_waits_for_its_own_results_in_psum(engine: str) -> None:
    """The second copy could start before the first one's results are there: without a wait it reads what was before."""
    tensors = {
        "a": sbuf("float32", 8, 6, init=normal(1)),
        "p": psum(8, 6, init=normal(2)),
        "b": sbuf("float32", 8, 6),
    }
    moves = [{"op": "copy", "src": "a", "dst": "p", "engine": engine}]
    moves += [{"op": "copy", "src": "p", "dst": "b", "engine": engine}]
    found = left(tensors, moves, TRN2)
    assert found["b"].tolist() == found["a"].tolist()


@pytest.mark.parametrize("name", ["PE streamed", "DVE ended", "DMA0 ended"])
def test_semaphores_of_the_machine_are_not_the_users(name: str) -> None:
    for field in ({"sets": [{"semaphore": name}]}, {"waits": [{"semaphore": name, "at_least": 1}]}):
        text = refused(dense(4, 2, 3), [matmult(**field)])
        assert f"instruction 0 (matmult): semaphore '{name}' is one that the machine sets itself" in text


def test_a_queue_that_is_not_there_is_refused_without_legality_too() -> None:
    tensors = {"h": tensor("dram", "float32", 4, 6, init=normal(1)), "y": sbuf("float32", 4, 6)}
    load = {"op": "load", "src": "h", "dst": "y", "queue": 16}
    assert "queue: expected 0 to 3, not 16" in refused(tensors, [load], TRN2, legality="off")


def test_a_missing_wait_is_a_race_that_shows_in_the_bits() -> None:
    tensors = with_copy(h=tensor("dram", "bfloat16", 16, 6, init=normal(1)), x=sbuf("bfloat16", 16, 6))
    bad = [
        {"op": "load", "src": "h", "dst": "x", "sets": [{"semaphore": "loaded"}]},
        matmult(sets=[{"semaphore": "done"}]),
        {**COPY, "waits": [{"semaphore": "done", "at_least": 1}]},
    ]
    outcome = result(tensors, bad)
    assert outcome.values.status == "mismatch"
    assert outcome.exit_code == 1
    assert any(text.startswith(("race", "unwritten")) for text in outcome.hazards)


def test_hazards_name_the_instructions_of_the_user() -> None:
    """A matmul is two instructions of the machine; the load behind it is still the user's number 1."""
    tensors = with_copy(h=tensor("dram", "bfloat16", 16, 8, init=normal(1)))
    race = [matmult(sets=[{"semaphore": "done"}]), {"op": "load", "src": "h", "dst": "w"}]
    texts = [str(hazard) for hazard in ready(tensors, race).hazards()]
    assert len(texts) == 1
    assert "matmult 0 (load_weights) reads and load 1 overwrites" in texts[0]
    with pytest.raises(DeadlockError, match=r"before instruction 1 \(copy\)"):
        result(tensors, [matmult(), {**COPY, "waits": [{"semaphore": "never", "at_least": 1}]}])


def test_a_wait_that_nothing_satisfies_is_a_deadlock() -> None:
    bad = [matmult(waits=[{"semaphore": "never", "at_least": 1}])]
    assert any("never" in str(hazard) for hazard in ready(dense(4, 2, 3), bad).hazards())
    with pytest.raises(DeadlockError, match="never"):
        result(dense(4, 2, 3), bad)
