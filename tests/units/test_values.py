"""What units do to values: they move bytes, decode what they find, and leave the arithmetic to the numerics core."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hwmodel import numerics as nm
from hwmodel.program import Cast, Extract, Instruction, Load, Matmul, Order, Store, Tensor, Window, whole
from hwmodel.tiling import operands as sizes
from hwmodel.units import cube, fixpipe, textract, tload
from hwmodel.units.storage import Storage

HIF4 = sizes.operand_kind("hif4", mx=True)
CAPACITIES = {"l1": 1 << 16, "l0a": 1 << 14, "l0b": 1 << 14, "l0a_mx": 1 << 10, "l0b_mx": 1 << 10, "l0c": 1 << 14}
Array = np.ndarray[Any, Any]


def storage(gm: dict[str, Array] | None = None, tensors: dict[str, Tensor] | None = None) -> Storage:
    return Storage(CAPACITIES, gm or {}, tensors or {}, {})


def step(op: str, engine: str, params: Any, reads: Any, writes: Any, values: Any = None) -> Instruction:
    return Instruction(0, op, engine, params, reads, writes, (), (), values)


# -- Cube --------------------------------------------------------------------------------------------------------------

A0 = sizes.l0_tile(HIF4, "l0a", 0, 16, 64, "NZ")
B0 = sizes.l0_tile(HIF4, "l0b", 0, 64, 16, "ZN")
A_MX, B_MX = (sizes.scale_tile(HIF4, space, 0, 16, 64) for space in ("l0a_mx", "l0b_mx"))
ACC = sizes.acc_tile(0, 16, 16, "fp32")


def matmul(*, accumulate: bool = False) -> Instruction:
    reads = tuple(whole(tile) for tile in (A0, B0, A_MX, B_MX))
    return step("tmatmul_mx", "M", Matmul(16, 64, 16, "hif4", "hif4", accumulate), reads, (ACC,), Order())


def filled() -> tuple[Storage, Array, Array]:
    stream = np.random.RandomState(5)
    a, b = (nm.quantize(stream.normal(size=(16, 64)).astype(np.float32), "hif4") for _ in range(2))
    held = storage()
    held.write(A0, a.codes)
    held.write(B0, b.codes.T)
    held.write(A_MX, nm.scale_cells(a.scales, "hif4").reshape(1, 1, 64))
    held.write(B_MX, nm.scale_cells(b.scales, "hif4").reshape(1, 1, 64))
    return held, nm.dequantize(a), nm.dequantize(b).T


def ran(held: Storage, instruction: Instruction) -> Array:
    cube.commit(instruction, held, cube.capture(instruction, held))
    return held.read(whole(ACC))


def test_l0_holds_codes_and_cells_and_the_cube_decodes_them_a08_c3() -> None:
    held, a, b = filled()
    codes = held.buffers["l0a"].peek(0, A0.size)
    assert codes.size == 16 * 64 // 2  # packed, four bits an element: nothing was decoded before
    assert np.array_equal(ran(held, matmul()), nm.matmul(a, b))


@pytest.mark.parametrize("byte", [0, 1, 32, 33])
def test_one_byte_in_l0a_mx_changes_the_result_a08(byte: int) -> None:
    held, *_ = filled()
    before = ran(held, matmul()).copy()
    cells = held.buffers["l0a_mx"].peek(0, 64)
    cells[byte] ^= 0x04
    held.write(A_MX, cells.reshape(1, 1, 64))
    after = ran(held, matmul())
    assert np.flatnonzero((before != after).any(axis=1)).tolist() == [0]  # bytes 0, 1, 32, 33 belong to row 0


def test_accumulating_goes_on_from_what_l0c_holds() -> None:
    held, a, b = filled()
    first = ran(held, matmul()).copy()
    second = ran(held, matmul(accumulate=True))
    assert np.array_equal(second, nm.matmul(a, b, acc=first))
    assert np.array_equal(ran(held, matmul()), first)  # without: from zero


def test_operands_are_those_at_the_start_and_results_come_at_the_end() -> None:
    held, a, b = filled()
    instruction = matmul()
    payload = cube.capture(instruction, held)
    held.write(A0, np.zeros((16, 64), np.uint8))  # overwritten while it runs
    assert np.isnan(held.read(whole(ACC))).all()  # not yet written
    cube.commit(instruction, held, payload)
    assert np.array_equal(held.read(whole(ACC)), nm.matmul(a, b))


def test_int8_sums_are_exact_int32() -> None:
    kind = sizes.operand_kind("int8", mx=False)
    a0, b0 = sizes.l0_tile(kind, "l0a", 0, 16, 32, "NZ"), sizes.l0_tile(kind, "l0b", 0, 32, 16, "ZN")
    acc = sizes.acc_tile(0, 16, 16, "int32")
    held = storage()
    held.write(a0, np.full((16, 32), 0x80, np.uint8))  # -128
    held.write(b0, np.full((32, 16), 0x7F, np.uint8))  # 127
    params = Matmul(16, 32, 16, "int8", "int8", False)
    instruction = step("tmatmul", "M", params, (whole(a0), whole(b0)), (acc,), Order())
    cube.commit(instruction, held, cube.capture(instruction, held))
    found = held.read(whole(acc))
    assert found.dtype == np.int32
    assert (found == -128 * 127 * 32).all()


# -- FIXPIPE -----------------------------------------------------------------------------------------------------------


def stored(sums: Array, dtype: str) -> Array:
    """Codes that a store makes of sums [1, n]."""
    n = sums.shape[1]
    tile = sizes.acc_tile(0, 1, n, "fp32")
    gm = {"out": np.zeros((1, n), nm.DTYPES[dtype].numpy_dtype)}
    held = storage(gm, {"out": Tensor("out", dtype, 1, n)})
    held.write(tile, sums)
    window = Window("out", 0, 0, 1, n)
    store = step("tstore", "FIX", Store(1, n, gm["out"].itemsize, n, 0), (whole(tile),), (window,), Cast(dtype))
    fixpipe.commit(store, held, fixpipe.capture(store, held))
    return gm["out"][0]


def bits(*patterns: int) -> Array:
    return np.array([patterns], np.uint32).view(np.float32)


def test_fixpipe_casts_to_bf16_half_even_a09() -> None:
    sums = bits(
        0x3F808000,  # 1 + 2^-8, a tie: to even 0x3F80
        0x3F818000,  # 1 + 3 x 2^-8, a tie: to even 0x3F82
        0x3F808001,  # just above the tie
        0x3F807FFF,  # just below
        0x7F7F8000,  # the tie above the largest bf16: to Inf
        0x7F7F7FFF,  # just below it: the largest
        0x7F800000,  # Inf
        0xFF800000,  # -Inf
        0x7F800001,  # a NaN: canonical
        0xFFC12345,  # a negative NaN: the same
        0x80000000,  # -0 stays
        0x00008000,  # subnormal, a tie to even: 0
        0x00018000,  # subnormal, a tie to even: 2
    )
    expected = [
        0x3F80, 0x3F82, 0x3F81, 0x3F80, 0x7F80, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0, 0x7FC0, 0x8000, 0x0000, 0x0002,
    ]  # fmt: skip
    assert stored(sums, "bf16").tolist() == expected


def test_fixpipe_casts_to_fp16_and_keeps_fp32() -> None:
    sums = bits(0x3F801000, 0x3F803000, 0x477FF000, 0x477FEFFF, 0x7FC00001)  # ties at 2^-11; 65520 overflows
    assert stored(sums, "fp16").tolist() == [0x3C00, 0x3C02, 0x7C00, 0x7BFF, 0x7E00]
    assert stored(bits(0x3F800001, 0x80000000, 0x7F800000), "fp32").tolist() == [0x3F800001, 0x80000000, 0x7F800000]


def test_a_store_casts_what_it_finds_at_the_start() -> None:
    tile = sizes.acc_tile(0, 1, 4, "fp32")
    gm = {"out": np.zeros((1, 4), np.uint32)}
    held = storage(gm, {"out": Tensor("out", "fp32", 1, 4)})
    held.write(tile, np.full((1, 4), 2, np.float32))
    store = step("tstore", "FIX", Store(1, 4, 4, 16, 0), (whole(tile),), (Window("out", 0, 0, 1, 4),), Cast("fp32"))
    payload = fixpipe.capture(store, held)
    held.write(tile, np.full((1, 4), 3, np.float32))
    assert (gm["out"] == 0).all()
    fixpipe.commit(store, held, payload)
    assert (gm["out"].view(np.float32) == 2).all()


# -- moves -------------------------------------------------------------------------------------------------------------


def test_a_load_and_an_extract_move_a_rectangle() -> None:
    gm = {"b": np.arange(64 * 256, dtype=np.int64).reshape(64, 256).astype(np.uint8) & 15}
    held = storage(gm, {"b": Tensor("b", "hif4", 64, 256)})
    l1 = sizes.l1_tile(HIF4, 0, 64, 192, k_axis=0)
    load = step("tload", "MTE2", Load(64 * 96, 64, 96, 0), (Window("b", 0, 64, 64, 192),), (l1,))
    tload.commit(load, held, tload.capture(load, held))
    target = sizes.l0_tile(HIF4, "l0b", 0, 64, 64, "ZN")
    part = sizes.columns(l1, HIF4, 64, 64)
    extract = step("textract", "MTE1", Extract(target.size, "l0b"), (part,), (target,))
    textract.commit(extract, held, textract.capture(extract, held))
    assert np.array_equal(held.read(whole(target)), gm["b"][:, 128:192])


def test_a_load_takes_what_gm_holds_when_it_starts() -> None:
    gm = {"a": np.zeros((16, 64), np.uint8)}
    held = storage(gm, {"a": Tensor("a", "hif4", 16, 64)})
    l1 = sizes.l1_tile(HIF4, 0, 16, 64, k_axis=1)
    load = step("tload", "MTE2", Load(512, 16, 32, 0), (Window("a", 0, 0, 16, 64),), (l1,))
    payload = tload.capture(load, held)
    gm["a"][...] = 5
    tload.commit(load, held, payload)
    assert (held.read(whole(l1)) == 0).all()
