"""The same program, strictly in order, by plain loops: the answer that a run of a program is compared with.

It shares with the machine only the steps (operands and what the flags mean), no arithmetic: formats come from the
exact scalar codec, sums are rounded step by step, rearrangements are index loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hwmodel.listing.neuron.formats import canonical, narrow, shorten, widen
from hwmodel.listing.neuron.places import Place, Region
from hwmodel.listing.neuron.steps import Accumulate, Move, Multiply, Quantise, ReadOut, Step, Transfer
from hwmodel.program.neuron_dtypes import LANES, NeuronDtype

Array = np.ndarray[Any, Any]
PARTITIONS = 128
BLOCK_ROWS = 8
EMAX = (2, 0, 0, 8, 0, 15, 8, 15)
"""By dtype number - 2 (requirement, section 6)."""


class Reference:
    """Memory of a core as bytes of each partition, and the tensors in DRAM."""

    def __init__(self, places: dict[str, Place], contents: dict[str, Array], capacities: dict[str, int]) -> None:
        self.places = places
        self.chip = {space: np.full((PARTITIONS, size), 0xFF, np.uint8) for space, size in capacities.items()}
        self.written = np.zeros((PARTITIONS, capacities["psum"]), np.bool_)
        self.accumulator = np.zeros((PARTITIONS, 1), np.float32)
        self.dram: dict[str, Array] = {}
        for name, place in places.items():
            if place.space == "dram":
                blank = np.full((place.rows, place.cols * place.dtype.bytes), 0xFF, np.uint8)
                self.dram[name] = np.array(contents.get(name, blank.view(place.dtype.numpy)))
            elif name in contents:
                self.put(Region(place, 0, 0, place.rows, place.cols), contents[name])

    def get(self, region: Region) -> Array:
        """Stored elements of a region."""
        if region.space == "dram":
            tensor = self.dram[region.place.name]
            return tensor[region.row : region.row + region.rows, region.col : region.col + region.cols].copy()
        rows, columns = _where(region)
        return np.ascontiguousarray(self.chip[region.space][rows, columns]).view(region.dtype.numpy)

    def put(self, region: Region, stored: Array) -> None:
        """Replace the stored elements of a region."""
        if region.space == "dram":
            tensor = self.dram[region.place.name]
            tensor[region.row : region.row + region.rows, region.col : region.col + region.cols] = stored
            return
        rows, columns = _where(region)
        data = np.ascontiguousarray(stored).astype(region.dtype.numpy).view(np.uint8)
        self.chip[region.space][rows, columns] = data.reshape(region.rows, -1)
        if region.space == "psum":
            self.written[rows, columns] = True

    def run(self, steps: Sequence[Step]) -> None:
        """All instructions, one after the other."""
        for step in steps:
            action = step.action
            if isinstance(action, Transfer):
                self.put(action.dst, self.get(action.src))
            elif isinstance(action, Move):
                self._move(action)
            elif isinstance(action, Multiply):
                self._multiply(action)
            elif isinstance(action, Quantise):
                self._quantise(action)
            elif isinstance(action, Accumulate):
                self._accumulate(action)
            else:
                assert isinstance(action, ReadOut)
                held = self.accumulator[action.dst.partition : action.dst.partition + action.dst.rows]
                self.put(action.dst, held.view(np.uint32))

    def tensor(self, place: Place) -> Array:
        """Stored elements of a tensor at the end."""
        return self.get(Region(place, 0, 0, place.rows, place.cols))

    # -- engines -----------------------------------------------------------------------------------------------------

    def _move(self, action: Move) -> None:
        first = action.sources[0]
        if action.keeps_bits:
            self.put(action.dst, self.get(first))
            return
        total = widen(self.get(first), first.dtype)
        for source in action.sources[1:]:
            with np.errstate(all="ignore"):
                total = canonical(total + widen(self.get(source), source.dtype))
        assert action.dst.dtype.element is not None
        self.put(action.dst, narrow(total, action.dst.dtype.element))

    def _accumulate(self, action: Accumulate) -> None:
        first, count = action.partitions
        for row in range(count):
            held: np.float32 | None = self.accumulator[first + row, 0]
            if action.command.loads:
                assert action.immediate is not None
                held = np.float32(action.immediate)
            elif action.command.zeroes:
                held = np.float32(0)
            elif action.fresh:
                held = None
            if action.command.reduces:
                assert action.src is not None
                for value in widen(self.get(action.src)[row : row + 1], action.src.dtype)[0]:
                    held = value if held is None else _alu(action.alu_op, held, value)
            assert held is not None
            self.accumulator[first + row, 0] = held

    def _quantise(self, action: Quantise) -> None:
        """Block after block: largest exponent, scale byte, and each element through an exact power of two."""
        src, dtype = action.src, action.data.dtype
        wide = widen(self.get(src), src.dtype)
        emax = EMAX[dtype.number - 2]
        emax = (emax - 1) % 256 if action.rule != "neuron" else emax
        floor = 0 if action.rule == "neuron_hw" else 1
        codes = np.zeros(wide.shape, np.uint8)
        slots = self.get(action.scales)
        for block_row in range(src.rows // BLOCK_ROWS):
            for block in range(src.cols // LANES):
                rows = slice(BLOCK_ROWS * block_row, BLOCK_ROWS * (block_row + 1))
                cols = slice(LANES * block, LANES * (block + 1))
                part = wide[rows, cols]
                largest = max((int(bits) >> 23) & 0xFF for bits in part.copy().view(np.uint32).reshape(-1))
                scale = max(max(largest - emax, 0), floor)
                slots[(block_row & 3) + 32 * (block_row >> 2), block] = scale
                codes[rows, cols] = _scaled_codes(part, scale, dtype, nan_max=action.nan_suppress)
        self.put(action.scales, slots)
        self.put(action.data, codes if dtype.lanes == 1 else _packed(codes, dtype, action.lanes))

    # -- the array ---------------------------------------------------------------------------------------------------

    def _multiply(self, action: Multiply) -> None:
        weights, ifmap = self._operand(action, weights=True), self._operand(action, weights=False)
        dst = action.dst
        if action.clear is not None:
            (first, length), (partition, count) = action.clear, action.partitions
            self.chip["psum"][partition : partition + count, first : first + length] = 0
            self.written[partition : partition + count, first : first + length] = True
        if action.transpose:
            self._transpose(action, weights, ifmap)
            return
        if action.tags is not None:
            product = _sparse(weights, ifmap, self.get(action.tags), action.ratio, action.n)
        else:
            product = _product(weights, ifmap)
        element = dst.dtype.element
        assert element is not None
        held = np.zeros((dst.rows, dst.cols), np.float32)
        if dst.space == "psum":
            rows, columns = _where(dst)
            written = self.written[rows, columns][:, :: dst.dtype.bytes]
            held = np.where(written, widen(self.get(dst), dst.dtype), held)
        with np.errstate(all="ignore"):
            self.put(dst, narrow(canonical(held + product), element))

    def _operand(self, action: Multiply, *, weights: bool) -> Array:
        """fp32 [K, columns]."""
        region = action.weights if weights else action.ifmap
        stored = self.get(region)
        if weights and action.gather is not None:
            stored = stored[[int(row) for row in self.get(action.gather)[:, 0]]]
        wide = _in_order(widen(stored, region.dtype), region.dtype, action.lanes)
        if action.opcode == 95:
            slots = self.get((action.weights_scales if weights else action.ifmap_scales) or region)
            return _mx_rows(wide, slots)
        if action.transpose:
            return wide  # the rest belongs to products
        if action.fp32r_bits is not None:
            wide = shorten(wide, action.fp32r_bits)
        if action.mode:
            wide = _doubled(wide, split=weights and action.mode == 4)
        zero = action.weights_zero if weights else action.ifmap_zero
        with np.errstate(all="ignore"):
            return wide if zero is None else wide - np.float32(zero)

    def _transpose(self, action: Multiply, weights: Array, ifmap: Array) -> None:
        """out[p, q] = sum over n of weights[p, n] x ifmap[q, n]; a weight row with a single one moves the bits."""
        stored = self.get(action.ifmap)
        out = np.zeros((action.dst.rows, action.dst.cols), stored.dtype)
        element = action.dst.dtype.element
        assert element is not None
        for p in range(action.dst.rows):
            ones = [n for n in range(weights.shape[1]) if weights[p, n] != 0]
            if len(ones) == 1 and weights[p, ones[0]] == 1:
                out[p] = stored[:, ones[0]]
                continue
            out[p] = narrow(_product(weights[p : p + 1].T, ifmap.T), element)[0]
        self.put(action.dst, out)


def _where(region: Region) -> tuple[slice, slice]:
    rows = slice(region.partition, region.partition + region.rows)
    return rows, slice(region.offset, region.offset + region.size)


def _product(weights: Array, ifmap: Array) -> Array:
    """fp32 [P, N] from weights [K, P] and ifmap [K, N]: k ascending from +0, every product and sum rounded."""
    total = np.zeros((weights.shape[1], ifmap.shape[1]), np.float32)
    with np.errstate(all="ignore"):
        for k in range(weights.shape[0]):
            total = total + weights[k][:, None] * ifmap[k][None, :]
    return canonical(total)


def _sparse(weights: Array, ifmap: Array, index: Array, ratio: int, columns: int) -> Array:
    """Active row 4 g + j of column p meets the dense row that nibble j of word [g, p] names inside group g."""
    dense = ifmap.reshape(-1, columns)
    out = np.zeros((weights.shape[1], columns), np.float32)
    with np.errstate(all="ignore"):
        for p in range(weights.shape[1]):
            for k in range(weights.shape[0]):
                group, j = divmod(k, 4)
                tag = int(index[group, p]) >> (4 * j) & 15
                out[p] = out[p] + weights[k, p] * dense[group * 4 * ratio + tag]
    return canonical(out)


def _mx_rows(wide: Array, slots: Array) -> Array:
    """[4 P, F] from [P, 4 F]: element (p, 4 f + l) times its block's power of two goes to row 4 p + l, column f."""
    partitions, elements = wide.shape
    out = np.zeros((LANES * partitions, elements // LANES), np.float32)
    with np.errstate(all="ignore"):
        for p in range(partitions):
            block_row = p // BLOCK_ROWS
            scales = slots[(block_row & 3) + 32 * (block_row >> 2)].astype(np.int32)
            for lane in range(LANES):
                out[LANES * p + lane] = np.ldexp(wide[p, lane::LANES], scales - 127)
    return canonical(out)


def _doubled(wide: Array, *, split: bool) -> Array:
    """[2P, F] from [P, 2F]: the halves of a partition as rows; ``split``: even columns first."""
    rows, cols = wide.shape
    half = cols // 2
    out = np.zeros((2 * rows, half), np.float32)
    for p in range(rows):
        for c in range(half):
            out[2 * p, c] = wide[p, 2 * c if split else c]
            out[2 * p + 1, c] = wide[p, 2 * c + 1 if split else half + c]
    return out


def _order(count: int, lanes: tuple[int, int]) -> list[int]:
    """Stored place -> element: reversed inside each window of 2 x stride, neighbours exchanged for odd parity."""
    stride, parity = max(1, lanes[0]), lanes[1]
    window = 2 * stride
    return [place - place % window + ((window - 1 - place % window) ^ parity) for place in range(count)]


def _in_order(wide: Array, dtype: NeuronDtype, lanes: tuple[int, int] | None) -> Array:
    """Elements in logical order, from the stored one."""
    if lanes is None or dtype.lanes == 1:
        return wide
    out = np.empty_like(wide)
    for place, element in enumerate(_order(wide.shape[1], lanes)):
        out[:, element] = wide[:, place]
    return out


def _packed(codes: Array, dtype: NeuronDtype, lanes: tuple[int, int] | None) -> Array:
    """Containers of codes: the element at stored place 4 c + l takes the l-th lowest bits."""
    bits = 8 * dtype.bytes // LANES
    order = range(codes.shape[1]) if lanes is None else _order(codes.shape[1], lanes)
    out = np.zeros((codes.shape[0], codes.shape[1] // LANES), dtype.numpy)
    for place, element in enumerate(order):
        out[:, place // LANES] |= codes[:, element].astype(out.dtype) << out.dtype.type(bits * (place % LANES))
    return out


def _scaled_codes(part: Array, scale: int, dtype: NeuronDtype, *, nan_max: bool) -> Array:
    """Codes of a block times the fp32 pattern (254 - scale) << 23: 2^(127 - scale), +0 for 254, -Inf for 255."""
    factor = np.array([(254 - scale) << 23 & 0xFFFFFFFF], np.uint32).view(np.float32)[0]
    if scale == 255:
        factor = np.float32("-inf")
    assert dtype.element is not None
    with np.errstate(all="ignore"):
        product = part * factor
    product = np.where(np.isnan(product), np.copysign(np.float32("nan"), part), product)
    return narrow(product.astype(np.float32), dtype.element, nan_max=nan_max)


def _alu(op: str, a: np.float32, b: np.float32) -> np.float32:
    if np.isnan(a) or np.isnan(b):
        return np.float32("nan")
    with np.errstate(all="ignore"):
        if op == "add":
            result = np.float32(a + b)
        elif op == "mult":
            result = np.float32(a * b)
        elif op == "max":
            result = np.maximum(a, b)
        else:
            result = np.minimum(a, b)
    return np.float32("nan") if np.isnan(result) else result
