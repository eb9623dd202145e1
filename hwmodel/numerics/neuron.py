"""Neuron MX: blocks of 8 partitions x 4 columns, x4 containers, scale slots, de-interleaving.

The rules are those of the simulator the requirement describes; where it leaves something open the convention is
stated in the docstring.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hwmodel.errors import NumericsError
from hwmodel.numerics.checks import check_choice, whole
from hwmodel.numerics.codec import as_codes, as_source, encode, to_fp32
from hwmodel.numerics.dtypes import dtype_record
from hwmodel.numerics.rounding import F32, canonical_nan
from hwmodel.numerics.scales import BlockTensor, MxScales

Array = NDArray[Any]
BLOCK_ROWS, BLOCK_COLS = 8, 4
LANES = 4
EMAX = {
    "fp4_e2m1": 2, "fp8_e3m4": 0, "fp8_e4m3_ieee": 0, "fp8_e4m3": 8, "e8m0": 0, "fp8_e5m2": 15,
}  # fmt: skip
"""Exponent of the largest normal by element format, as the dtype numbers 2..9 have it (2 0 0 8 0 15 8 15)."""


@dataclass(frozen=True, slots=True)
class NeuronRule:
    """One preset: EMAX or EMAX - 1 (in 8 bits), the smallest scale byte, whether 4-bit targets exist."""

    alternative_emax: bool = False
    floor: int = 1
    fp4: bool = True


PRESETS: dict[str, NeuronRule] = {
    "neuron": NeuronRule(),
    "neuron_alt_emax": NeuronRule(alternative_emax=True),
    "neuron_hw": NeuronRule(alternative_emax=True, floor=0, fp4=False),
}


def neuron_emax(dtype: str) -> int:
    """EMAX of a dtype or of its elements; 0 for every one that is no MX target."""
    return EMAX.get(dtype_record(dtype).element, 0)


def neuron_scales(values: ArrayLike, emax: int, alternative: bool = False, floor: int = 1) -> NDArray[np.uint8]:
    """Scale bytes [rows/8, cols/4] of fp32 ``values`` [rows, cols].

    The largest exponent byte (bits 30..23) of each 8 x 4 block, less EMAX; below 0 it becomes 0, and then a byte below
    ``floor`` (1 as the requirement has it) becomes ``floor``. ``alternative`` takes EMAX - 1 in 8 bits, so an EMAX
    of 0 becomes 255.
    """
    x = _blocked(values)
    emax, floor = whole("emax", emax, 0, 255), whole("floor", floor, 0, 255)
    if alternative:
        emax = (emax - 1) & 0xFF
    rows, cols = x.shape
    exponents = np.right_shift(x.view(np.uint32), 23, dtype=np.uint32).astype(np.uint8)  # a byte drops the sign
    peak = exponents.reshape(rows // BLOCK_ROWS, BLOCK_ROWS, cols // BLOCK_COLS, BLOCK_COLS).max(axis=(1, 3))
    out: NDArray[np.uint8] = np.maximum(peak.astype(np.int64) - emax, floor).astype(np.uint8)
    return out


def quantize_neuron_mx(values: ArrayLike, dtype: str, rule: str = "neuron", nan_suppress: bool = False) -> BlockTensor:
    """Quantise ``values`` [rows, cols] in blocks of 8 rows x 4 columns; scales [rows/8, cols/4].

    ``rule``: ``neuron`` (EMAX, scale byte at least 1), ``neuron_alt_emax`` (EMAX - 1), ``neuron_hw`` (EMAX - 1, zero
    block 0; FP8 only, as the hardware). Elements are multiplied in fp32 by the pattern (254 - byte) << 23 (+0 for byte
    254, minus infinity for 255) and narrowed half-even with saturation, infinities included. A NaN element becomes the
    canonical NaN, with ``nan_suppress`` the signed maximum; in FP4 a zero of its sign. A NaN that the multiplication
    makes (infinity x 0) counts as one of the element's sign.

    ``values`` are fp32 (holding widened bf16 or fp16), fp16 or bf16. ``dtype`` is an MX dtype or an FP8 or FP4 element
    format. Raises NumericsError for another source, unknown names, extents that are no multiple of 8 x 4.
    """
    record = dtype_record(dtype)
    if record.element not in EMAX or record.element == "e8m0":
        raise NumericsError(f"quantize_neuron_mx: no Neuron MX target {dtype!r} (element formats: {', '.join(EMAX)})")
    check_choice("neuron rule", rule, PRESETS)
    preset = PRESETS[rule]
    if record.storage_bits == 4 and not preset.fp4:
        raise NumericsError(f"{rule}: the hardware quantises to FP8 only; use rule 'neuron' for FP4")
    x = _blocked(values)
    scales = neuron_scales(x, neuron_emax(dtype), preset.alternative_emax, preset.floor)
    with np.errstate(all="ignore"):
        scaled = _times(x, _inverse_factors()[scales])
        nan = np.isnan(scaled)
        if nan.any():  # whatever sign the machine gives a new NaN, ours is that of the element
            scaled[nan] = np.copysign(np.float32(np.nan), x[nan])
    if record.storage_bits == 4:
        codes = encode(scaled, record.element)
        codes[nan] = np.where(np.signbit(x[nan]), np.uint8(8), np.uint8(0))
    else:
        codes = encode(scaled, record.element, nan="max" if nan_suppress else "keep")
    return BlockTensor(codes, MxScales(scales), dtype, 1, (BLOCK_ROWS, BLOCK_COLS))


def _times(x: F32, factors: F32) -> F32:
    """``x`` [rows, cols] times the factors [rows/8, cols/4] of its blocks."""
    along = np.repeat(factors, BLOCK_COLS, axis=1)
    out: F32 = (x.reshape(factors.shape[0], BLOCK_ROWS, x.shape[1]) * along[:, None, :]).reshape(x.shape)
    return out


@cache
def _inverse_factors() -> F32:
    """fp32 pattern (254 - byte) << 23 of every scale byte, in 32-bit arithmetic; shape [256]."""
    bits = (254 - np.arange(256)).astype(np.int32) << np.int32(23)
    return bits.view(np.float32)


def dequantize_neuron_mx(values: ArrayLike, scales: ArrayLike) -> F32:
    """ldexp(values, byte - 127) for decoded fp32 ``values`` [rows, cols] and ``scales`` [rows/8, cols/4]; fp32.

    Element (r, c) takes scale (r / 8, c / 4). Byte 0 is 2^-127 and its subnormal results are kept, byte 255 is 2^128
    (1.0 becomes infinity, 0 stays 0); signed zeros, infinities and NaN pass (NaN as the canonical one).
    """
    x = _blocked(values)
    table = np.asarray(scales)
    wanted = (x.shape[0] // BLOCK_ROWS, x.shape[1] // BLOCK_COLS)
    if table.shape != wanted:
        raise NumericsError(f"scales: expected shape {wanted} for values {x.shape}, not {table.shape}")
    if table.dtype != np.uint8:
        raise NumericsError(f"scales: expected uint8, not {table.dtype}")
    # 2^128 is no fp32: two steps, of which the second only doubles and so rounds nothing.
    first = np.ldexp(np.float32(1), np.minimum(np.arange(256), 254) - 127).astype(np.float32)
    with np.errstate(all="ignore"):
        out = _times(x, first[table])
        if (table == 255).any():
            out = _times(out, np.where(table == 255, np.float32(2), np.float32(1)))
    return canonical_nan(out)


def pack_x4(codes: ArrayLike, dtype: str, lanes: ArrayLike | None = None) -> Array:
    """x4 containers of ``codes`` [..., 4n]: uint32 [..., n] for FP8 (lane l in byte l), uint16 for FP4 (bits 4l).

    ``lanes`` is an order from `lane_remap`: stored place p holds element ``lanes[p]`` of each period.
    """
    record = dtype_record(dtype).format
    array = _reorder(as_codes(codes, record), lanes, inverse=False)
    if array.ndim == 0 or array.shape[-1] % LANES:
        raise NumericsError(f"x4 containers: expected a multiple of {LANES} elements, not shape {array.shape}")
    bits, container = _container(record.bits, dtype)
    lane_bytes = array if bits == 8 else array[..., 0::2] | array[..., 1::2] << 4
    little = np.ascontiguousarray(lane_bytes).view(np.dtype(container).newbyteorder("<"))
    return little.astype(container)


def unpack_x4(containers: ArrayLike, dtype: str, lanes: ArrayLike | None = None) -> Array:
    """Codes [..., 4n] (uint8) of x4 containers [..., n]. Undoes `pack_x4` with the same ``lanes``."""
    record = dtype_record(dtype).format
    bits, container = _container(record.bits, dtype)
    array = np.asarray(containers)
    if array.dtype.newbyteorder("=") != container:
        raise NumericsError(f"x4 containers of {dtype}: expected {np.dtype(container)}, not {array.dtype}")
    little = np.ascontiguousarray(array, np.dtype(container).newbyteorder("<"))
    spread = little.view(np.uint8)
    if bits == 4:
        lane_bytes, spread = spread, np.empty((*spread.shape[:-1], 2 * spread.shape[-1]), np.uint8)
        spread[..., 0::2] = lane_bytes & 0x0F
        spread[..., 1::2] = lane_bytes >> 4
    return _reorder(spread.reshape(*array.shape[:-1], -1).astype(np.uint8), lanes, inverse=True)


def _container(bits: int, dtype: str) -> tuple[int, type[np.uint16] | type[np.uint32]]:
    if bits not in (4, 8):
        raise NumericsError(f"x4 containers hold 4- or 8-bit elements, not {dtype!r}")
    return bits, np.uint16 if bits == 4 else np.uint32


def lane_remap(stride: int, parity: int) -> NDArray[np.int64]:
    """Order of elements in x4 containers: stored place p holds element ``order[p]``; a permutation.

    Convention: within each window of 2 x stride elements the index is reversed, and an odd parity exchanges neighbours.
    Stride 1 (or less) with odd parity is therefore the plain little-endian order. The length is the period: the
    smallest multiple of both the window and the container's 4 lanes.
    """
    if parity not in (0, 1):
        raise NumericsError(f"parity: expected 0 or 1, not {parity}")
    window = 2 * max(1, whole("stride", stride))
    place = np.arange(int(np.lcm(window, LANES)))
    inside = place % window
    return place - inside + ((window - 1 - inside) ^ parity)


def _reorder(array: Array, lanes: ArrayLike | None, inverse: bool) -> Array:
    if lanes is None:
        return array
    order = np.asarray(lanes)
    if order.ndim != 1 or not np.array_equal(np.sort(order), np.arange(order.size)):
        raise NumericsError("lanes: expected a permutation of 0 .. n - 1, as lane_remap gives")
    if array.ndim == 0 or array.shape[-1] % order.size:
        raise NumericsError(f"lanes: an order of {order.size} does not divide the last extent of shape {array.shape}")
    if inverse:
        order = np.argsort(order)
    return array.reshape(*array.shape[:-1], -1, order.size)[..., order].reshape(array.shape)


def scale_slots(count: int) -> NDArray[np.int64]:
    """Slot of each scale row i: (i & 3) + 32 (i >> 2), four in each quadrant of 32 partitions; shape [count]."""
    row = np.arange(whole("scale rows", count, 0))
    return (row & 3) + 32 * (row >> 2)


def scales_to_slots(scales: ArrayLike, into: ArrayLike | None = None, partitions: int = 128) -> NDArray[np.uint8]:
    """Slots [partitions, cols/4] with scale row i in slot (i & 3) + 32 (i >> 2); scales [rows/8, cols/4].

    Slots that no row uses keep what ``into`` holds (zeros without it); ``into`` itself is not changed.
    """
    table = _bytes_matrix(scales, "scales")
    slots = scale_slots(table.shape[0])
    if into is None:
        out = np.zeros((whole("partitions", partitions, 0), table.shape[1]), np.uint8)
    else:
        out = _bytes_matrix(into, "slots").copy()
    if out.shape[1] != table.shape[1] or (slots.size and slots[-1] >= out.shape[0]):
        raise NumericsError(f"scale slots: {table.shape} scale rows do not fit slots of shape {out.shape}")
    out[slots] = table
    return out


def scales_from_slots(slots: ArrayLike, count: int) -> NDArray[np.uint8]:
    """Scales [count, cols/4] from slots [partitions, cols/4]. Undoes `scales_to_slots`."""
    table, rows = _bytes_matrix(slots, "slots"), scale_slots(count)
    if rows.size and rows[-1] >= table.shape[0]:
        raise NumericsError(f"scale slots: {count} scale rows need slot {rows[-1]}, there are {table.shape[0]}")
    return table[rows]


def deinterleave(matrix: ArrayLike, factor: int) -> Array:
    """[P, factor x F] -> [factor x P, F]: column factor x c + j goes to row factor x p + j, column c."""
    array = _matrix(matrix)
    if whole("factor", factor) < 1 or array.shape[1] % factor:
        raise NumericsError(f"deinterleave: factor {factor} does not divide the columns of shape {array.shape}")
    rows, cols = array.shape
    grid = np.array(array.reshape(rows, cols // factor, factor).transpose(0, 2, 1), order="C")
    return grid.reshape(rows * factor, cols // factor)


def interleave(matrix: ArrayLike, factor: int) -> Array:
    """[factor x P, F] -> [P, factor x F]. Undoes `deinterleave`."""
    array = _matrix(matrix)
    if whole("factor", factor) < 1 or array.shape[0] % factor:
        raise NumericsError(f"interleave: factor {factor} does not divide the rows of shape {array.shape}")
    rows, cols = array.shape
    grid = np.array(array.reshape(rows // factor, factor, cols).transpose(0, 2, 1), order="C")
    return grid.reshape(rows // factor, cols * factor)


def _matrix(matrix: ArrayLike) -> Array:
    array = np.asarray(matrix)
    if array.ndim != 2:
        raise NumericsError(f"expected a matrix, not shape {array.shape}")
    return array


def _bytes_matrix(values: ArrayLike, name: str) -> NDArray[np.uint8]:
    array = _matrix(values)
    if array.dtype != np.uint8:
        raise NumericsError(f"{name}: expected uint8, not {array.dtype}")
    return array


def _blocked(values: ArrayLike) -> F32:
    """fp32 matrix whose extents are multiples of 8 x 4; bf16 and fp16 are widened."""
    array, kind = as_source(values)
    if kind == "float64":
        raise NumericsError("values: expected fp32, fp16 or bf16, not float64 or integers")
    if array.ndim != 2:
        raise NumericsError(f"values: expected a matrix [rows, cols], not shape {array.shape}")
    if array.shape[0] % BLOCK_ROWS or array.shape[1] % BLOCK_COLS:
        raise NumericsError(
            f"values: blocks are {BLOCK_ROWS} rows x {BLOCK_COLS} columns, shape {array.shape} is no multiple"
        )
    return to_fp32(np.ascontiguousarray(array), kind)
