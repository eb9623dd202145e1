"""Wrong use is a clear error, and inputs are never changed."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hwmodel import numerics as nm
from hwmodel.errors import InputError, NumericsError

X = np.ones((4, 64), np.float32)
CASES: list[tuple[Callable[[], Any], str]] = [
    (lambda: nm.encode(X, "fp8_e4m4"), "unknown dtype 'fp8_e4m4', did you mean 'fp8_e4m3'"),
    (lambda: nm.encode(X, "hif4"), "use quantize and dequantize, or its element dtype 'fp4_e1m2'"),
    (lambda: nm.encode(X, None), "unknown dtype None"),  # type: ignore[arg-type]
    (lambda: nm.encode(X, "bf16", "clamp"), "unknown overflow 'clamp'"),  # type: ignore[arg-type]
    (lambda: nm.encode(X, "bf16", nan="kept"), "unknown nan 'kept', did you mean 'keep'"),  # type: ignore[arg-type]
    (lambda: nm.encode(["a"], "bf16"), "expected floating-point numbers"),
    (lambda: nm.encode(X + 1j, "bf16"), "expected floating-point numbers, not dtype complex64"),
    (lambda: nm.encode(np.array([2**60 + 1]), "bf16"), "beyond 2"),
    (lambda: nm.decode([16], "fp4_e2m1"), "expected 0 to 15, not 16"),
    (lambda: nm.decode([-1], "fp8_e4m3"), "expected 0 to 255, not -1"),
    (lambda: nm.decode([256], "fp8_e4m3"), "expected 0 to 255, not 256"),
    (lambda: nm.decode(X, "fp8_e4m3"), "expected integers, not dtype float32"),
    (lambda: nm.decode([0], "mxfp8_e4m3"), "has block scales"),
    (lambda: nm.decode_int([0], "bf16"), "expected an integer dtype"),
    (lambda: nm.convert([70000], "bf16", "int8"), "expected 0 to 65535, not 70000"),
    (lambda: nm.quantize(X, "hif8"), "has no block scales"),
    (lambda: nm.quantize(X, "hif5"), "did you mean 'hif"),
    (lambda: nm.quantize(X, "hif4", axis=2), r"axis: 2 does not exist in shape \(4, 64\)"),
    (lambda: nm.quantize(X, "hif4", axis=-3), "axis: -3 does not exist"),
    (lambda: nm.quantize(np.float32(1), "hif4"), "at least one axis"),
    (lambda: nm.quantize(X[:0], "hif4"), "nothing to quantise"),
    (lambda: nm.quantize(X, "hif4", rule="papr"), "unknown hif4 rule 'papr', did you mean 'paper'"),
    (lambda: nm.quantize(X, "mxfp8_e4m3", rule="flor"), "unknown mx rule 'flor', did you mean 'floor'"),
    (lambda: nm.quantize(X, "hif4", source="fp16"), "unknown source 'fp16'"),  # type: ignore[arg-type]
    (lambda: nm.quantize(X, "hif4", scale_ties="up"), "unknown hif4 switch 'scale_ties', did you mean 'scale_tie'"),
    (lambda: nm.quantize(X, "hif4", scale_tie="odd"), "scale_tie: expected one of even, up"),
    (lambda: nm.quantize(X, "mxfp8_e4m3", exponent="round"), "exponent: unexpected choice"),
    (lambda: nm.quantize(X, "mxfp8_e4m3", zero_kode=1), "did you mean 'zero_code'"),
    (lambda: nm.dequantize(nm.BlockTensor(np.zeros((4, 64), np.uint8), nm.MxScales(np.zeros((4, 3), np.uint8)),
                                          "mxfp8_e4m3", 1, (1, 32))), r"expected uint8 \(4, 2\)"),
    (lambda: nm.dequantize(nm.BlockTensor(np.zeros((4, 64), np.uint8), nm.MxScales(np.zeros((4, 1), np.uint8)),
                                          "hif4", 1, (1, 64))), "expected ea, eb and ec"),
    (lambda: nm.dequantize(nm.BlockTensor(np.full((4, 64), 16, np.uint8), nm.MxScales(np.zeros((4, 2), np.uint8)),
                                          "mxfp4_e2m1", 1, (1, 32))), "expected 0 to 15, not 16"),
    (lambda: nm.decode_operand(X.astype(np.uint8), None, "hif4"), "needs its scales"),
    (lambda: nm.decode_operand(np.zeros(64, np.uint8), nm.MxScales(np.zeros((1, 2), np.uint8)), "mxfp8_e4m3"),
     "expected a matrix"),
    (lambda: nm.cast_out(X.astype(np.float64), "bf16"), "expected fp32 or int32 sums, not float64"),
    (lambda: nm.cast_out(X, "mxfp4_e2m1"), "has block scales"),
    (lambda: nm.cast_out(X, "int8", scale="2"), "scale: expected a number or one a channel"),
    (lambda: nm.cast_out(X, "int8", offset=1.5), "offset .*expected an integer, not 1.5"),  # type: ignore[arg-type]
    (lambda: nm.encode([[1, 2], [3]], "bf16"), "lists of equal lengths"),  # type: ignore[list-item]
    (lambda: nm.encode(X, "FP8_E4M3"), "did you mean 'fp8_e4m3'"),
    (lambda: nm.quantize(X, "hif"), "unknown dtype 'hif', did you mean 'hif4'"),
    (lambda: nm.quantize(X, "hif4", axis=1.0), "axis: expected an integer, not 1.0"),  # type: ignore[arg-type]
    (lambda: nm.quantize(X, "hif4", rule=["a6"]), "unknown hif4 rule"),  # type: ignore[arg-type]
    (lambda: nm.quantize(X, "mxfp8_e4m3", rule=["floor"]), "unknown mx rule"),  # type: ignore[arg-type]
    (lambda: nm.quantize_neuron_mx(X, "mxfp8_e4m3", rule=[]), "unknown neuron rule"),  # type: ignore[arg-type]
    (lambda: nm.dequantize(X), "expected a BlockTensor as quantize gives it, not ndarray"),  # type: ignore[arg-type]
    (lambda: nm.matmul(X, X.T, k_tile=2.5), "k_tile: expected an integer, not 2.5"),  # type: ignore[arg-type]
    (lambda: nm.matmul(X, X.T, "group", group="64"), "group: expected an integer"),  # type: ignore[arg-type]
    (lambda: nm.matmul(X, X.T, a_zero=1.5), "a_zero: expected an integer, not 1.5"),  # type: ignore[arg-type]
    (lambda: nm.matmul(X, X.T, out=np.broadcast_to(np.float32(0), (4, 4))), "out: expected an array that can be"),
    (lambda: nm.to_layout(X.astype(np.uint8), "nz", "int8"), "unknown layout 'nz', did you mean 'NZ'"),
    (lambda: nm.layout_bytes(-1, 3, "NZ", "int8"), "rows: expected at least 0, not -1"),
    (lambda: nm.scale_cell_bytes(16, -64, "hif4"), "k: expected at least 0, not -64"),
    (lambda: nm.scale_slots(-1), "scale rows: expected at least 0, not -1"),
    (lambda: nm.lane_remap(2.5, 1), "stride: expected an integer"),  # type: ignore[arg-type]
    (lambda: nm.neuron_scales(np.ones((8, 4), np.float32), 300), "emax: expected 0 to 255, not 300"),
    (lambda: nm.set_threads(1.5), "threads: expected an integer, not 1.5"),  # type: ignore[arg-type]
    (lambda: nm.round_bf16([1j]), "expected floating-point numbers, not dtype complex128"),
    (lambda: nm.round_fp32r([1j]), "expected floating-point numbers, not dtype complex128"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), CASES, ids=[message[:40] for _, message in CASES])
def test_clear_errors(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(NumericsError, match=message) as caught:
        call()
    assert isinstance(caught.value, InputError)
    assert isinstance(caught.value, ValueError)
    assert caught.value.exit_code == 2


def test_inputs_are_never_changed(backend: str) -> None:
    x = np.random.default_rng(0).standard_normal((16, 128)).astype(np.float32)
    x[0, 0], x[1, 1], x[2, 2] = np.nan, np.inf, -0.0
    y = np.random.default_rng(1).standard_normal((128, 16)).astype(np.float32)
    acc = np.random.default_rng(2).standard_normal((16, 16)).astype(np.float32)
    codes = np.random.default_rng(3).integers(0, 16, (16, 128)).astype(np.uint8)
    inputs = [x, y, acc, codes]
    before = [each.tobytes() for each in inputs]
    for each in inputs:
        each.flags.writeable = False
    for dtype in ("hif4", "mxfp8_e4m3"):
        for axis in (0, 1):
            tensor = (
                nm.quantize(x, dtype, axis=axis, inf="saturate")
                if dtype == "hif4"
                else nm.quantize(x, dtype, axis=axis)
            )
            nm.dequantize(tensor)
    nm.quantize_neuron_mx(x, "mxfp4_e2m1")
    nm.dequantize_neuron_mx(x, np.full((2, 32), 255, np.uint8))
    for dtype in nm.FORMATS:
        nm.encode(x, dtype)
        nm.cast_out(acc, dtype, relu=True, scale=2.0)
    for order in nm.ORDERS:
        nm.matmul(x, y, order, acc=acc, group=32, a_zero=3)
        nm.matmul(x, y, order, acc=acc, group=32, k_tile=64, accumulate="bf16")
    nm.round_fp32r(x), nm.round_bf16(x)
    nm.pack_rows(codes, "hif4"), nm.to_layout(codes, "NZ", "hif4"), nm.deinterleave(x, 4)
    nm.pack_x4(codes, "fp4_e2m1"), nm.scales_to_slots(codes[:4], into=codes[:8])
    nm.scale_cells(nm.MxScales(codes[:, :4]), "mxfp8_e4m3")
    assert [each.tobytes() for each in inputs] == before


@pytest.mark.parametrize("order", nm.ORDERS)
@pytest.mark.parametrize("options", [{}, {"k_tile": 16}, {"scale_on": "block"}], ids=str)
@pytest.mark.parametrize("side", [48, 300])
def test_the_result_may_overlap_any_input(backend: str, order: str, options: dict[str, Any], side: int) -> None:
    """A sum written over an operand, or over the next sum's start, changed the sums that came after it."""
    rng = np.random.default_rng(7)
    a, b, c = (rng.standard_normal((side, side)).astype(np.float32) for _ in range(3))
    alone = nm.matmul(a, b, order, group=16, **options)  # type: ignore[call-overload]
    for taken in (0, 1):
        operands = [a.copy(), b.copy()]
        got = nm.matmul(*operands, order, group=16, out=operands[taken], **options)  # type: ignore[misc]
        assert got is operands[taken]
        assert got.tobytes() == alone.tobytes()
    with_start = nm.matmul(a, b, order, group=16, acc=c, **options)  # type: ignore[call-overload]
    store = np.concatenate([c, c[:1]])
    got = nm.matmul(a, b, order, group=16, acc=store[:-1], out=store[1:], **options)  # type: ignore[call-overload]
    assert got.tobytes() == with_start.tobytes()
    nm.matmul(a, b, order, group=16, acc=c, out=c, **options)  # type: ignore[call-overload]
    assert c.tobytes() == with_start.tobytes()


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (8, 4), (16, 2), (16, 32), (32, 16)], ids=str)
def test_results_share_no_memory_with_inputs(shape: tuple[int, int]) -> None:
    """Where a permutation moves nothing, a view of the input came back: to change one changed the other."""
    data = np.ones(shape, np.uint8)
    cells = np.ones(nm.scale_cell_bytes(shape[0], 32 * shape[1], "mxfp8_e4m3"), np.uint8)
    results = [
        (cells, nm.read_e8m0_cells(cells, *shape)),
        (data, nm.e8m0_cells(data)),
        (data, nm.deinterleave(data, 1)),
        (data, nm.interleave(data, 1)),
        (data, nm.deinterleave(data, shape[1])),
        (data, nm.interleave(data, shape[0])),
        (data, nm.decode_int(data, "uint8")),
        (data, nm.convert(data, "uint8", "uint8")),
    ]
    results += [(data, nm.to_layout(data, layout, "int8")) for layout in nm.LAYOUTS]
    for layout in nm.LAYOUTS:
        laid = nm.to_layout(data, layout, "int8")
        results.append((laid, nm.from_layout(laid, *shape, layout, "int8")))
    if shape[1] % 4 == 0:
        for dtype in ("fp8_e4m3", "fp4_e2m1"):
            packed = nm.pack_x4(data, dtype)
            results += [(data, packed), (packed, nm.unpack_x4(packed, dtype))]
    assert not any(np.shares_memory(given, result) for given, result in results)


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32", "int32"])
def test_codes_in_the_other_byte_order_are_the_same_codes(dtype: str) -> None:
    """Signed codes of a big-endian file were read as they lie."""
    bits = nm.FORMATS[dtype].bits
    codes = np.array([[0x3C00, 0x3F80], [1, 0x7001]], f"u{bits // 8}")
    signed = codes.view(f"i{bits // 8}")
    for other in (codes.astype(f">u{bits // 8}"), signed.astype(f">i{bits // 8}"), signed.astype(f"<i{bits // 8}")):
        assert nm.decode(other, dtype).tobytes() == nm.decode(codes, dtype).tobytes()
        assert (nm.to_layout(other, "NZ", dtype) == nm.to_layout(codes, "NZ", dtype)).all()
        assert (nm.convert(other, dtype, "fp8_e4m3") == nm.convert(codes, dtype, "fp8_e4m3")).all()


def test_nothing_is_a_shape_like_any_other(backend: str) -> None:
    for m, k, n in ((0, 3, 4), (3, 4, 0), (0, 0, 0), (2, 0, 2)):
        for order in nm.ORDERS:
            out = nm.matmul(np.ones((m, k), np.float32), np.ones((k, n), np.float32), order, group=2)
            assert out.shape == (m, n)
            assert not out.any()
    assert nm.encode([], "bf16").shape == nm.decode([], "fp8_e4m3").shape == (0,)
    assert nm.pack_rows(np.zeros((0, 4), np.uint8), "hif4").size == 0


def test_block_tensors_cross_process_borders() -> None:
    tensor = nm.quantize(X, "hif4")
    back = pickle.loads(pickle.dumps(tensor))
    assert repr(back) == "BlockTensor(hif4, shape=(4, 64), axis=1, block=(1, 64))"
    assert (back.codes == tensor.codes).all()
    assert (back.scales.ec == tensor.scales.ec).all()
