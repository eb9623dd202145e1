"""MX programs: quantise (96) and scaled matmul (95), from the operands to the bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from neuron_programs import TRN2, chain, codes, fp32, integers, left, normal, psum, ready, refused, sbuf, values

from hwmodel import numerics as nm
from hwmodel.listing.neuron.formats import widen
from hwmodel.program.neuron_dtypes import NEURON_DTYPES
from hwmodel.units.storage import Array

E4M3, E5M2, FP4 = "float8_e4m3fn_x4", "float8_e5m2_x4", "float4_e2m1fn_x4"
X4 = [FP4, E4M3, E5M2]
MX = {
    "op": "matmult_mx",
    "ifmap": "x",
    "weights": "w",
    "ifmap_scales": "xs",
    "weights_scales": "ws",
    "dst": "acc",
    "start": True,
}
QUANTISE = {"op": "quantize_mx", "src": "src", "data": "data", "scales": "scales"}


def operands(x: str = E4M3, w: str = E4M3, partitions: int = 32, p: int = 4, n: int = 6) -> dict[str, Any]:
    return {
        "x": sbuf(x, partitions, n, init=normal(1)),
        "w": sbuf(w, partitions, p, init=normal(2)),
        "xs": sbuf("uint8", partitions, n, init=integers(3, 124, 131)),
        "ws": sbuf("uint8", partitions, p, init=integers(4, 124, 131)),
        "acc": psum(p, n),
    }


def scaled(found: dict[str, Array], data: str, slots: str, dtype: str) -> Array:
    """[4 P, F] by the index formula: element (r, c) takes scale byte (r / 8, c / 4), lane l of p is row 4 p + l."""
    wide = widen(found[data], NEURON_DTYPES[dtype])
    out = np.zeros((4 * wide.shape[0], wide.shape[1] // 4), np.float32)
    for r in range(wide.shape[0]):
        row = r // 8
        for c in range(wide.shape[1]):
            byte = int(found[slots][(row & 3) + 32 * (row >> 2), c // 4])
            out[4 * r + c % 4, c // 4] = np.ldexp(wide[r, c], byte - 127)
    return out


@pytest.mark.parametrize("missing", ["ifmap", "weights", "ifmap_scales", "weights_scales"])
def test_mx_takes_four_operands_n027(missing: str) -> None:
    text = refused(operands(), [{name: value for name, value in MX.items() if name != missing}])
    assert f"{missing}: expected a tensor, but it is missing" in text
    assert "instruction 0" in text


def test_swapped_scales_give_another_result_n027() -> None:
    tensors = operands(p=6)
    right = left(tensors, [MX])["acc"]
    swapped = left(tensors, [{**MX, "ifmap_scales": "ws", "weights_scales": "xs"}])["acc"]
    assert not np.array_equal(right, swapped)


@pytest.mark.parametrize("dtype", X4)
def test_x4_follows_from_the_dtype_alone_n028(dtype: str) -> None:
    """Numbers 2, 8 and 9 multiply the extent by four: 32 partitions contract 128."""
    params = [i.params for i in programmed(operands(dtype, dtype)) if i.op == "matmult_mx"]
    assert params[0].k == 128


def programmed(tensors: dict[str, Any]) -> Any:
    program = ready(tensors, [MX]).program
    assert program is not None
    return program.cores[0].instructions


def test_plain_e4m3_does_not_multiply_the_extent_n028() -> None:
    """The same bytes as 4 x as many plain elements: the same product, without x4 of the extent."""
    packed = operands()
    found = left(packed, [MX])
    plain = {
        **packed,
        "x": sbuf("float8_e4m3fn", 32, 24, init=codes(found["x"].view(np.uint8))),
        "w": sbuf("float8_e4m3fn", 32, 16, init=codes(found["w"].view(np.uint8))),
    }
    assert np.array_equal(left(plain, [MX], legality="off")["acc"], found["acc"])
    assert "expected an x4 dtype (2, 8, 9), not float8_e4m3fn" in refused(plain, [MX])


@pytest.mark.parametrize("partitions", [8, 32, 128])
def test_partitions_count_in_eights_n029(partitions: int) -> None:
    found = left(operands(partitions=partitions), [MX], legality="off")
    expected = chain(scaled(found, "w", "ws", E4M3), scaled(found, "x", "xs", E4M3))
    assert np.array_equal(fp32(found["acc"]), expected)


@pytest.mark.parametrize("wrong", [5, 7])
def test_the_size_of_the_scales_is_checked_n030(wrong: int) -> None:
    tensors = operands()
    tensors["xs"] = sbuf("uint8", 32, wrong, init=integers(3, 124, 131))
    text = refused(tensors, [MX])
    assert "expected 24 scale bytes" in text
    assert f"not {4 * wrong}" in text


def test_scales_are_bytes_n030() -> None:
    tensors = operands()
    tensors["xs"] = sbuf("int16", 32, 6, init=integers(3, 124, 131))
    assert "expected uint8 or float8_e8m0fnu, not int16" in refused(tensors, [MX])
    tensors["xs"] = sbuf("float8_e8m0fnu", 32, 6, init={"kind": "codes", "data": [127] * 32})
    left(tensors, [MX])


@pytest.mark.parametrize("lane", range(4))
def test_lane_l_meets_lane_l_n031(lane: int) -> None:
    """One lane at a time is not zero: k = 4 x partition + lane on both sides."""
    x, w = np.zeros((32, 4 * 3)), np.zeros((32, 4 * 2))
    x[5, lane::4] = [1, 2, 4]
    w[5, lane::4] = [8, 16]
    tensors = {
        **operands(p=2, n=3),
        "x": sbuf(E4M3, 32, 3, init=x),
        "w": sbuf(E4M3, 32, 2, init=w),
        "xs": sbuf("uint8", 32, 3, init=codes([127] * 32)),
        "ws": sbuf("uint8", 32, 2, init=codes([127] * 32)),
    }
    assert fp32(left(tensors, [MX])["acc"]).tolist() == [[8, 16, 32], [16, 32, 64]]
    shifted = np.roll(w, 1, axis=1)
    tensors["w"] = sbuf(E4M3, 32, 2, init=shifted)
    assert not fp32(left(tensors, [MX])["acc"]).any()


def test_each_operand_is_scaled_before_the_product_n032() -> None:
    """6.0 with byte 254 times 0.5 with byte 0 is infinite: 6 x 2^127 already is."""
    x, w = np.zeros((32, 4)), np.zeros((32, 8))
    x[0, 0], w[0, 0] = 6.0, 0.5
    tensors = {
        **operands(p=2, n=1),
        "x": sbuf(FP4, 32, 1, init=x),
        "w": sbuf(FP4, 32, 2, init=w),
        "xs": sbuf("uint8", 32, 1, init=codes([254] * 32)),
        "ws": sbuf("uint8", 32, 2, init=codes([0] * 32)),
    }
    assert fp32(left(tensors, [MX])["acc"])[0, 0] == np.inf


@pytest.mark.parametrize("x", X4)
@pytest.mark.parametrize("w", X4)
def test_the_mx_sum_is_a_scalar_loop_n033(x: str, w: str) -> None:
    found = left(operands(x, w, p=2, n=3), [MX])
    expected = chain(scaled(found, "w", "ws", w), scaled(found, "x", "xs", x))
    assert np.array_equal(fp32(found["acc"]), expected)


def test_an_extent_without_whole_blocks_is_refused_n045() -> None:
    assert "whole blocks of 8 partitions x 4" in refused(operands(partitions=12), [MX], legality="off")


def test_another_block_size_is_refused_n037() -> None:
    assert "expected [8, 4]" in refused(operands(), [{**MX, "block": [4, 8]}])
    assert "expected [8, 4]" in refused(quantising(), [{**QUANTISE, "block": [1, 32]}])


# -- quantise ----------------------------------------------------------------------------------------------------------


def quantising(
    source: str = "bfloat16", target: str = E4M3, rows: int = 32, cols: int = 16, init: Any = None
) -> dict[str, Any]:
    lanes = NEURON_DTYPES[target].lanes
    return {
        "src": sbuf(source, rows, cols, init=normal(7) if init is None else init),
        "data": sbuf(target, rows, cols // lanes),
        "scales": sbuf("uint8", rows, cols // 4, init={"kind": "codes", "data": [0xAB] * rows}),
    }


@pytest.mark.parametrize("missing", ["data", "scales"])
def test_quantise_has_two_outputs_n064(missing: str) -> None:
    found = left(quantising(), [QUANTISE])
    assert found["data"].any()
    assert (found["scales"][:4] != 0xAB).all()
    text = refused(quantising(), [{name: value for name, value in QUANTISE.items() if name != missing}])
    assert f"{missing}: expected a tensor, but it is missing" in text


@pytest.mark.parametrize("source", ["float32", "float8e4", "int16"])
def test_other_sources_are_refused_n065(source: str) -> None:
    text = refused(quantising(source, init=integers(1)), [QUANTISE])
    assert f"src: expected bfloat16 or float16, not {source}" in text


@pytest.mark.parametrize("source", ["bfloat16", "float16"])
def test_a_source_of_16_bits_is_widened_exactly_n065(source: str) -> None:
    found = left(quantising(source), [QUANTISE])
    tensor = nm.quantize_neuron_mx(widen(found["src"], NEURON_DTYPES[source]), "fp8_e4m3")
    assert np.array_equal(found["data"].view(np.uint8), tensor.codes)


@pytest.mark.parametrize("target", X4)
def test_shapes_of_both_outputs_n066_n088(target: str) -> None:
    """Data [rows, cols / 4] containers, scales [rows / 8, cols / 4] in their slots."""
    found = left(quantising(target=target, rows=64, cols=32), [QUANTISE])
    assert found["data"].shape == (64, 8)
    used = [row for row in range(64) if (found["scales"][row] != 0xAB).any()]
    assert used == [0, 1, 2, 3, 32, 33, 34, 35]
    text = refused({**quantising(target=target), "data": sbuf(target, 32, 5)}, [QUANTISE])
    assert "data: expected [32, 4]" in text


@pytest.mark.parametrize(
    ("target", "emax"),
    [(FP4, 2), ("float8e3", 0), ("float8e4", 0), ("float8_e4m3fn", 8), ("float8e5", 15), (E4M3, 8), (E5M2, 15)],
)
def test_the_scale_byte_of_ones_shows_emax_n067_n068(target: str, emax: int) -> None:
    tensors = quantising(target=target, init=values(np.ones((32, 16))))
    found = left(tensors, [QUANTISE], legality="off")
    assert (found["scales"][:4] == 127 - emax).all()
    if emax:
        found = left(tensors, [{**QUANTISE, "alternative_emax": True}], legality="off")
        assert (found["scales"][:4] == 127 - emax + 1).all()


def test_the_alternative_of_emax_zero_wraps_n069() -> None:
    tensors = quantising(target="float8e4", init=values(np.ones((32, 16))))
    found = left(tensors, [{**QUANTISE, "alternative_emax": True}], legality="off")
    assert (found["scales"][:4] == 1).all()


def test_nan_and_infinity_in_a_block_n078_n079_n081() -> None:
    source = np.ones((32, 16), np.float32)
    source[0, 0], source[0, 4], source[0, 8] = np.nan, -np.inf, 449 * 2.0**-8
    found = left(quantising(init=source), [QUANTISE])
    row = found["data"].view(np.uint8)[0]
    assert row[0] == 0x7F
    assert row[4] == 0xFE
    assert row[8] == 0x7E
    suppressed = left(quantising(init=source), [{**QUANTISE, "nan_suppress": True}])
    assert suppressed["data"].view(np.uint8)[0, 0] == 0x7E
    narrow = left(quantising(target=FP4, init=source), [QUANTISE])
    assert narrow["data"].view(np.uint16)[0, 0] & 0xF == 0


@pytest.mark.parametrize(
    ("source", "nans"), [("float16", [0x7E00, 0xFE00, 0xFD01]), ("bfloat16", [0x7FC0, 0xFFC0, 0xFF81])]
)
def test_a_nan_keeps_its_sign_on_the_way_to_the_narrow_n079_n081(source: str, nans: list[int]) -> None:
    """FP4: a zero of its sign; FP8 with suppression: the largest of its sign. Of both 16-bit sources."""
    stored = np.full((32, 16), 0x3C00)
    stored[0, :3] = nans
    narrow = left(quantising(source, FP4, init=codes(stored)), [QUANTISE])
    assert narrow["data"].view(np.uint16)[0, 0] & 0xFFF == 0x880
    suppressed = left(quantising(source, init=codes(stored)), [{**QUANTISE, "nan_suppress": True}])
    assert suppressed["data"].view(np.uint8)[0, :3].tolist() == [0x7E, 0xFE, 0xFE]


def test_counts_that_are_no_multiple_of_four_are_refused_n089() -> None:
    tensors = {**quantising(), "src": sbuf("bfloat16", 32, 14, init=normal(1))}
    assert "whole blocks of 8 partitions x 4" in refused(tensors, [QUANTISE])


@pytest.mark.parametrize("stride", [1, 2, 4])
@pytest.mark.parametrize("parity", [0, 1])
def test_lanes_in_another_order_come_back_n090(stride: int, parity: int) -> None:
    remap = {"stride": stride, "parity": parity}
    tensors = {
        **quantising(target=FP4, cols=32),
        "w": sbuf(FP4, 32, 8),
        "ws": sbuf("uint8", 32, 8),
        "acc": psum(8, 8),
    }
    both = [
        {**QUANTISE, "lane_remap": remap},
        {**QUANTISE, "data": "w", "scales": "ws", "lane_remap": remap},
        {**MX, "ifmap": "data", "ifmap_scales": "scales", "lane_remap": remap},
    ]
    found = left(tensors, both)
    plain = left(tensors, [{name: value for name, value in one.items() if name != "lane_remap"} for one in both])
    assert np.array_equal(found["acc"], plain["acc"])
    assert np.array_equal(found["data"], plain["data"]) == ((stride, parity) == (1, 1))


@pytest.mark.parametrize("target", X4)
@pytest.mark.parametrize("rule", ["requirement", "hw"])
def test_quantise_feeds_the_matmul_as_it_is_n092_n093(target: str, rule: str) -> None:
    """96 -> 95 with no step between; the round trip stays within half a step where nothing saturates."""
    if rule == "hw" and target == FP4:
        text = refused({**quantising(target=target)}, [QUANTISE], preset="hw")
        assert "quantises to FP8 only" in text
        return
    tensors = {
        **quantising(target=target, rows=128, cols=24),
        "w": sbuf(target, 128, 6),
        "ws": sbuf("uint8", 128, 6),
        "acc": psum(6, 6),
    }
    found = left(
        tensors,
        [QUANTISE, {**QUANTISE, "data": "w", "scales": "ws"}, {**MX, "ifmap": "data", "ifmap_scales": "scales"}],
        preset=rule,
    )
    x = scaled(found, "data", "scales", target)
    assert np.array_equal(fp32(found["acc"]), chain(scaled(found, "w", "ws", target), x))
    source = widen(found["src"], NEURON_DTYPES["bfloat16"])
    back = x.reshape(128, 4, 6).transpose(0, 2, 1).reshape(128, 24)
    scale = found["scales"][[(row // 8 & 3) + 32 * (row // 8 >> 2) for row in range(128)]].repeat(4, axis=1)
    size = np.ldexp(1.0, scale.astype(np.int64) - 127)
    largest = {FP4: 6.0, E4M3: 448.0, E5M2: 57344.0}[target]
    inside = np.abs(source) < largest * size
    step = {FP4: 1.0, E4M3: 16.0, E5M2: 4096.0}[target] * size  # half a step of the top binade
    assert (np.abs(back - source)[inside] <= step[inside]).all()
    assert inside.mean() > 0.7


def test_quantise_needs_a_core_that_has_it() -> None:
    assert f"{TRN2} has no quantize_mx" in refused(quantising(), [QUANTISE], TRN2)
    assert f"{TRN2} has no MX matmul" in refused(operands(), [MX], TRN2)


@pytest.mark.parametrize("partitions", [8, 96])
def test_mx_uses_32_64_or_128_partitions(partitions: int) -> None:
    text = refused(operands(partitions=partitions), [MX])
    assert "32, 64, 128 partitions" in text
    assert "instruction 0" in text


def test_an_order_of_lanes_that_does_not_go_into_a_partition_is_refused() -> None:
    """Stride 3 reverses 6 elements, and containers hold 4: 12 of them are a period; 16 are none, 24 two."""
    remap = {"lane_remap": {"stride": 3, "parity": 0}}
    for p, legal in ((4, False), (6, True)):
        tensors = operands(n=3, p=p)
        if legal:
            left(tensors, [{**MX, **remap}])
        else:
            text = refused(tensors, [{**MX, **remap}])
            assert "instruction 0 (matmult_mx): lane_remap: expected a multiple of 12 elements a partition" in text
            assert "not 16 in w [32, 4] float8_e4m3fn_x4" in text
    source = {
        "src": sbuf("bfloat16", 32, 16, init=normal(1)),
        "data": sbuf(E4M3, 32, 4),
        "scales": sbuf("uint8", 32, 4),
    }
    assert "multiple of 12 elements" in refused(source, [{**QUANTISE, **remap}])


@pytest.mark.parametrize("name", ["xs", "ws"])
def test_scale_bytes_lie_in_the_quadrants_of_their_data(name: str) -> None:
    """Hardware facts 3 and 4; legality: off reads them wherever they are."""
    tensors = operands()
    tensors[name]["partition"] = 32
    field = {"xs": "ifmap_scales", "ws": "weights_scales"}[name]
    text = refused(tensors, [MX])
    assert f"instruction 0 (matmult_mx): {field}: expected scale bytes in the partition quadrants of {name[0]}" in text
    assert "from 0 on, not from 32 on" in text
    left(tensors, [MX], legality="off")
    source = {"src": sbuf("bfloat16", 32, 16, init=normal(1)), "data": sbuf(E4M3, 32, 4, partition=64)}
    source["scales"] = sbuf("uint8", 32, 4)
    assert "scales: expected scale bytes in the partition quadrants of data, from 64 on" in refused(source, [QUANTISE])
    source["scales"]["partition"] = 64
    left(source, [QUANTISE])
