"""PSUM: start, accumulate, neither; clearing banks; who may write; what nobody wrote. For opcodes 8, 9 and 95."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from neuron_programs import (
    TRN2,
    TRN3,
    codes,
    dense,
    fp32,
    integers,
    left,
    matmult,
    normal,
    psum,
    ready,
    refused,
    sbuf,
    tensor,
)

from hwmodel.units.storage import Array

FAMILY = [8, 9, 95]
P, N = 8, 6
GARBAGE = {
    "finite": [[3.5] * N] * P,
    "nan": [[float("nan")] * N] * P,
    "0xFF bytes": codes([[0xFFFFFFFF] * N] * P),
    "infinity": [[float("inf")] * N] * P,
}


def of_family(opcode: int, **rest: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """(tensors, instruction) of a matmul of the family into acc [8, 6]."""
    instruction = {"op": opcode, "ifmap": "x", "weights": "w", "dst": "acc", **rest}
    if opcode == 8:
        tensors = dense(16, P, N)
    elif opcode == 9:
        tensors = {
            "x": sbuf("bfloat16", 128, 4 * N, init=normal(1)),
            "w": sbuf("bfloat16", 128, P, init=normal(2)),
            "index": sbuf("int16", 32, P, init=integers(3, 0, 1 << 15)),
        }
        instruction["index"] = "index"
    else:
        tensors = {
            "x": sbuf("float8_e4m3fn_x4", 32, N, init=normal(1)),
            "w": sbuf("float8_e4m3fn_x4", 32, P, init=normal(2)),
            "xs": sbuf("uint8", 32, N, init=integers(3, 125, 130)),
            "ws": sbuf("uint8", 32, P, init=integers(4, 125, 130)),
        }
        instruction |= {"ifmap_scales": "xs", "weights_scales": "ws"}
    return {**tensors, "acc": psum(P, N, bank=0)}, instruction


def product(opcode: int) -> Array:
    """What the matmul alone leaves in PSUM."""
    tensors, instruction = of_family(opcode)
    return fp32(left(tensors, [{**instruction, "start": True}])["acc"])


@pytest.mark.parametrize("opcode", FAMILY)
@pytest.mark.parametrize(("start", "accumulate"), [(False, False), (False, True), (True, False), (True, True)])
def test_the_truth_table_of_the_flags_n026_n046(opcode: int, start: bool, accumulate: bool) -> None:
    """Over earlier contents: start clears, then adds; accumulate adds; neither, the middle of a group, adds too."""
    tensors, instruction = of_family(opcode)
    tensors["acc"]["init"] = {"kind": "constant", "value": 2.5}
    found = fp32(left(tensors, [{**instruction, "start": start, "accumulate": accumulate}])["acc"])
    once = product(opcode)
    assert np.array_equal(found, once if start else np.float32(2.5) + once)


@pytest.mark.parametrize("opcode", FAMILY)
@pytest.mark.parametrize("before", GARBAGE)
def test_a_start_leaves_no_trace_of_what_was_there_n026_n047(opcode: int, before: str) -> None:
    tensors, instruction = of_family(opcode)
    tensors["acc"]["init"] = (
        GARBAGE[before]
        if isinstance(GARBAGE[before], dict)
        else {
            "kind": "values",
            "data": GARBAGE[before],
        }
    )
    found = left(tensors, [{**instruction, "start": True}])["acc"]
    assert np.array_equal(fp32(found), product(opcode))


@pytest.mark.parametrize("opcode", FAMILY)
def test_finished_products_are_added_n026_n048(opcode: int) -> None:
    """Two instructions: each product is complete before it is added, one fp32 addition an element."""
    tensors, instruction = of_family(opcode)
    found = fp32(left(tensors, [{**instruction, "start": True}, {**instruction, "accumulate": True}])["acc"])
    once = product(opcode)
    assert np.array_equal(found, once + once)


def test_k_tiling_changes_bits_n048() -> None:
    """2^24, then 1 + 1: as one chain 2^24 (each 1 is lost), as two instructions 2^24 + 2."""
    x = sbuf("float32", 3, 1, init=[[2.0**24], [1.0], [1.0]])
    one = {"x": x, "w": sbuf("float32", 3, 1, init=[[1.0]] * 3), "acc": psum(1, 1)}
    assert fp32(left(one, [matmult()])["acc"])[0, 0] == 2.0**24

    def rows(first: int, count: int) -> dict[str, Any]:
        return {"ifmap": {"tensor": "x", "rows": [first, count]}, "weights": {"tensor": "w", "rows": [first, count]}}

    two = [matmult(**rows(0, 1)), matmult(**rows(1, 2), start=False, accumulate=True)]
    assert fp32(left(one, two, legality="off")["acc"])[0, 0] == 2.0**24 + 2


@pytest.mark.parametrize("opcode", FAMILY)
def test_neither_flag_n026_n049(opcode: int) -> None:
    """Middle of a group: adds. On a region that no start reached: refused, without legality it copies."""
    tensors, instruction = of_family(opcode)
    text = refused(tensors, [instruction])
    assert "instruction 0" in text
    assert "start: true" in text
    found = left(tensors, [instruction], legality="off")
    assert np.array_equal(fp32(found["acc"]), product(opcode))
    both = left(tensors, [{**instruction, "start": True}, instruction])
    assert np.array_equal(fp32(both["acc"]), 2 * product(opcode))


FLAGS = [(False, False), (False, True), (True, False), (True, True)]


@pytest.mark.parametrize("opcode", FAMILY)
@pytest.mark.parametrize("attribute", [None, True, False])
@pytest.mark.parametrize(("start", "accumulate"), FLAGS)
def test_a_function_attribute_overrides_the_flags_n026_n050(
    opcode: int, attribute: bool | None, start: bool, accumulate: bool
) -> None:
    """Absent: the flags count. True: every matmul adds, none clears. False: every matmul clears first."""
    tensors, instruction = of_family(opcode)
    tensors["acc"]["init"] = {"kind": "constant", "value": 1.0}
    attributes = {} if attribute is None else {"attributes": {"has_psum_accumulate_flag": attribute}}
    found = fp32(left(tensors, [{**instruction, "start": start, "accumulate": accumulate}], **attributes)["acc"])
    clears = start if attribute is None else not attribute
    once = product(opcode)
    assert np.array_equal(found, once if clears else np.float32(1) + once)


@pytest.mark.parametrize("opcode", FAMILY)
@pytest.mark.parametrize(("space", "phrase"), [("sbuf", "isSB"), ("dram", "isDRAM")])
def test_a_start_into_anything_but_psum_is_refused_n026_n051(opcode: int, space: str, phrase: str) -> None:
    tensors, instruction = of_family(opcode)
    tensors["acc"] = tensor(space, "float32", P, N)
    for how in ("arch", "off"):
        text = refused(tensors, [{**instruction, "start": True}], legality=how)
        assert phrase in text
        assert "instruction 0" in text
        assert f"in {space}" in text
        assert "PSUM" in text


@pytest.mark.parametrize("opcode", FAMILY)
def test_the_first_write_to_a_fresh_place_is_as_if_it_were_zero_n026_n052(opcode: int) -> None:
    tensors, instruction = of_family(opcode)
    zeroed = {**tensors, "acc": {**tensors["acc"], "init": {"kind": "constant", "value": 0.0}}}
    fresh = left(tensors, [{**instruction, "start": True}])["acc"]
    assert np.array_equal(fresh, left(zeroed, [{**instruction, "accumulate": True}])["acc"])


@pytest.mark.parametrize("flag", ["start", "accumulate"])
def test_only_the_matmul_family_may_reset_or_add_n053_n061(flag: str) -> None:
    tensors = {"a": sbuf("float32", 4, 4, init=normal(1)), "acc": psum(4, 4)}
    text = refused(tensors, [{"op": "copy", "src": "a", "dst": "acc", flag: True}])
    assert "7, 8, 9, 95" in text
    assert "InstMatmultBase" in text


@pytest.mark.parametrize("power", [0, 1, 2, 3])
def test_the_byte_is_log2_of_the_banks_cleared_n054(power: int) -> None:
    """0, 1, 2, 3 clear 1, 2, 4, 8 banks; the next bank keeps its content."""
    tensors = dense(4, 2, 3)
    tensors |= {
        "acc": psum(2, 3, bank=0),
        "all": psum(2, 512 * 8, bank=0, init={"kind": "constant", "value": 7.0}),
    }
    found = fp32(left(tensors, [matmult(clear_banks_log2=power)], legality="off")["all"])
    assert not found[:, 512 : 512 << power].any()
    assert (found[:, 512 << power :] == 7).all()
    assert np.array_equal(found[:, :3], fp32(left(dense(4, 2, 3), [matmult()])["acc"]))


def test_more_than_one_bank_needs_a_core_that_can_n055() -> None:
    for how in ("arch", "off"):
        text = refused(dense(4, 2, 3), [matmult(clear_banks_log2=1)], TRN2, legality=how)
        assert "do not support psum multibank" in text
        assert "instruction 0" in text
    left(dense(4, 2, 3), [matmult(clear_banks_log2=1)], TRN3)


def test_a_start_clears_whole_banks_n056() -> None:
    """A start into elements 10 to 13 of a bank zeroes all 2 KiB of it (convention), over the destination's rows."""
    tensors = dense(4, 2, 3)
    tensors |= {
        "acc": psum(2, 3, bank=1, offset=40),
        "all": psum(2, 1024, bank=0, init={"kind": "constant", "value": 7}),
    }
    found = fp32(left(tensors, [matmult()])["all"])
    assert (found[:, :512] == 7).all()
    assert not found[:, 512:522].any()
    assert not found[:, 525:].any()
    assert found[:, 522:525].any()


@pytest.mark.parametrize(("base", "cleared"), [(0, 32), (64, 64)])
def test_the_base_partition_of_the_instruction_wins_when_above_0_n057(base: int, cleared: int) -> None:
    tensors = dense(4, 2, 3)
    tensors |= {
        "acc": psum(2, 3, bank=0, partition=32),
        "all": psum(128, 8, bank=0, init={"kind": "constant", "value": 7}),
    }
    found = fp32(left(tensors, [matmult(base_partition=base)])["all"])
    zero = [row for row in range(128) if not found[row, 3:].any()]
    assert zero == [cleared, cleared + 1]
    once = fp32(left(dense(4, 2, 3), [matmult()])["acc"])
    assert np.array_equal(found[32:34, :3], once if base == 0 else np.float32(7) + once)


def test_clearing_touches_the_destinations_partitions_only_n058() -> None:
    tensors = dense(4, 2, 3)
    tensors |= {
        "acc": psum(2, 3, bank=0, partition=32),
        "all": psum(128, 8, bank=0, init={"kind": "constant", "value": 7}),
    }
    found = fp32(left(tensors, [matmult()])["all"])
    assert (found[:32] == 7).all()
    assert (found[34:] == 7).all()
    assert not found[32:34, 3:].any()


@pytest.mark.parametrize("opcode", FAMILY)
def test_every_matmul_clears_banks_in_the_same_way_n026_n054_n056_n057_n058_n060(opcode: int) -> None:
    """Two whole banks of the base partition's rows become +0; the product is added at the destination."""
    tensors, instruction = of_family(opcode, start=True, clear_banks_log2=1, base_partition=64)
    tensors["acc"] = psum(P, N, bank=1, offset=40, partition=32)
    tensors["all"] = psum(128, 4 * 512, bank=0, init={"kind": "constant", "value": 7.0})
    expected = np.full((128, 4 * 512), 7, np.float32)
    expected[64 : 64 + P, 512 : 3 * 512] = 0
    expected[32 : 32 + P, 522 : 522 + N] += product(opcode)
    assert np.array_equal(left(tensors, [instruction])["all"], expected.view(np.uint32))


@pytest.mark.parametrize("opcode", FAMILY)
def test_every_matmul_stays_inside_psum_n026_n055_n059(opcode: int) -> None:
    tensors, instruction = of_family(opcode, start=True, clear_banks_log2=1)
    tensors["acc"] = psum(P, N, bank=7)
    text = refused(tensors, [instruction])
    assert "start address 14336, length 4096" in text
    assert "do not support psum multibank" in refused(tensors, [instruction], TRN2, legality="off")


@pytest.mark.parametrize(("bank", "power"), [(7, 1), (6, 2), (1, 3)])
def test_clearing_stays_inside_the_memory_n059(bank: int, power: int) -> None:
    tensors = {**dense(4, 2, 3), "acc": psum(2, 3, bank=bank)}
    text = refused(tensors, [matmult(clear_banks_log2=power)])
    assert f"start address {2048 * bank}" in text
    assert f"length {2048 << power}" in text
    assert "16384" in text


def test_clearing_past_the_last_partition_is_refused_n059() -> None:
    text = refused(dense(4, 2, 3), [matmult(base_partition=127)], legality="off")
    assert "partitions 127 to 128" in text
    assert "128 partitions" in text


def test_a_start_fills_with_positive_zeros_n060() -> None:
    tensors = {**dense(4, 2, 3), "acc": psum(2, 3, bank=0), "all": psum(2, 512, bank=0)}
    tensors["x"]["init"] = {"kind": "constant", "value": -0.0}
    found = left(tensors, [matmult()])["all"]
    assert not found.any()


def test_every_other_write_replaces_n061() -> None:
    tensors = {
        **dense(4, 2, 3),
        "a": sbuf("float32", 2, 3, init=[[1, 2, 3], [4, 5, 6]]),
    }
    found = left(tensors, [matmult(stop=True), {"op": "copy", "src": "a", "dst": "acc"}])
    assert fp32(found["acc"]).tolist() == [[1, 2, 3], [4, 5, 6]]


def test_a_matmul_outside_psum_replaces_without_legality_n061() -> None:
    tensors = {**dense(4, 2, 3), "acc": sbuf("float32", 2, 3, init=normal(9))}
    found = left(tensors, [matmult(start=False, accumulate=True)], legality="off")
    assert np.array_equal(fp32(found["acc"]), fp32(left(dense(4, 2, 3), [matmult()])["acc"]))
    assert "a matmul writes PSUM only" in refused(tensors, [matmult(start=False, accumulate=True)])


@pytest.mark.parametrize("space", ["psum", "sbuf", "dram"])
def test_reading_what_nobody_wrote_is_refused_n062(space: str) -> None:
    tensors = {"a": tensor(space, "float32", 4, 4), "b": sbuf("float32", 4, 4)}
    instruction = {"op": "load" if space == "dram" else "copy", "src": "a", "dst": "b"}
    text = refused(tensors, [{"op": "copy", "src": "b", "dst": "b"}] if space == "" else [instruction])
    assert "instruction 0" in text
    assert "canInstReadFromUninitMem" in text
    assert f"a [4, 4] float32 in {space}" in text


def test_reading_what_was_written_in_part_is_refused_n062() -> None:
    tensors = {**dense(4, 2, 3), "y": sbuf("float32", 8, 3), "big": psum(8, 3, bank=0), "acc": psum(2, 3, bank=0)}
    text = refused(tensors, [matmult(stop=True), {"op": "copy", "src": "big", "dst": "y"}])
    assert "nobody wrote 72 of 96 bytes" in text


def test_a_nan_from_written_operands_is_a_value_n062() -> None:
    tensors = {
        "x": sbuf("float32", 2, 2, init=[[float("inf"), 1.0], [float("inf"), 2.0]]),
        "w": sbuf("float32", 2, 1, init=[[1.0], [-1.0]]),
        "acc": psum(1, 2),
        "y": sbuf("float32", 1, 2),
    }
    found = left(tensors, [matmult(), {"op": "copy", "src": "acc", "dst": "y"}])
    assert found["y"][0, 0] == 0x7FC00000
    assert fp32(found["y"])[0, 1] == -1


@pytest.mark.parametrize(
    ("dtype", "nans"),
    [
        ("float16", [0x7E00, 0xFE00, 0x7C01, 0xFDFF]),
        ("bfloat16", [0x7FC0, 0xFFC0, 0x7F81, 0xFFFF]),
        ("float32", [0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF]),
        ("float8e5", [0x7D, 0xFD, 0x7E, 0xFF]),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_cast_makes_every_nan_the_canonical_one(dtype: str, nans: list[int]) -> None:
    """Sign and payload go, signalling ones included; without a cast bits are moved as they are."""
    canonical = {
        "float32": 0x7FC00000, "bfloat16": 0x7FC0, "float16": 0x7E00, "float8e5": 0x7E, "float8_e4m3fn": 0x7F,
        "int32": 0,
    }  # fmt: skip
    tensors = {"a": sbuf(dtype, 4, 1, init=codes([[bits] for bits in nans]))}
    tensors |= {name: sbuf(name, 4, 1) for name in canonical}
    found = left(tensors, [{"op": "copy", "src": "a", "dst": name} for name in canonical])
    for name, bits in canonical.items():
        assert found[name][:, 0].tolist() == (nans if name == dtype else [bits] * 4), name


def test_scale_bytes_are_copied_as_integers() -> None:
    """A cast between e8m0 and uint8 is the byte itself (hardware facts 3)."""
    scales = np.array([[0, 1, 127, 255]])
    tensors = {
        "a": sbuf("uint8", 1, 4, init=codes(scales)),
        "b": sbuf("float8_e8m0fnu", 1, 4),
        "c": sbuf("uint8", 1, 4),
    }
    found = left(tensors, [{"op": "copy", "src": "a", "dst": "b"}, {"op": "copy", "src": "b", "dst": "c"}], TRN3)
    assert found["b"].tolist() == found["c"].tolist() == scales.tolist()


def test_a_buffer_of_any_size_costs_no_memory() -> None:
    """What is never used is not kept track of: 1 TiB of SBUF and PSUM, as a what-if asks for."""
    large = {f"arch.buffers.{name}.capacity_bytes": 1 << 40 for name in ("sbuf", "psum")}
    tensors, instruction = of_family(8, start=True)
    assert ready(tensors, [instruction], overrides=large).listing is not None


def test_sums_stay_fp32_between_instructions_n063() -> None:
    """1 + 2^-24 twice is 1: nothing wider is kept."""
    tensors = {
        "x": sbuf("float32", 1, 1, init=[[2.0**-24]]),
        "w": sbuf("float32", 1, 1, init=[[1.0]]),
        "acc": psum(1, 1, init=[[1.0]]),
    }
    again = [matmult(start=False, accumulate=True)] * 2
    assert float(fp32(left(tensors, again)["acc"])[0, 0]) == 1.0


def test_dense_and_mx_products_add_up_in_one_bank_n034() -> None:
    mx, instruction = of_family(95)
    tensors = {**mx, "dx": sbuf("bfloat16", 16, N, init=normal(1)), "dw": sbuf("bfloat16", 16, P, init=normal(2))}
    start = matmult(ifmap="dx", weights="dw")
    found = fp32(left(tensors, [start, {**instruction, "accumulate": True}])["acc"])
    assert np.array_equal(found, product(8) + product(95))
