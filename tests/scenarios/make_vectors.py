"""Makes ``vectors/*.npz`` from the scalar reference, one exact number at a time.

Run as ``python tests/scenarios/make_vectors.py``.

Bytes are laid out here with plain loops, so that neither the array code nor its layouts take part. The files have the
names and fields of the vendor's (see ``test_vectors.py``) and are frozen: a test makes the smallest again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hwmodel.numerics.hif4 import PROFILES
from hwmodel.numerics.reference import blocks, codec, sums

FOLDER = Path(__file__).with_name("vectors")
MATMULS = {
    "matmul_hif4_hif4_20x128x24": ("hif4", "hif4", 20, 128, 24),
    "matmul_e4m3_e2m1_17x96x18": ("e4m3", "e2m1", 17, 96, 18),
    "matmul_e1m2_e2m1_16x70x16": ("e1m2", "e2m1", 16, 70, 16),
    "matmul_bf16_hif4_1x64x10": ("bf16", "hif4", 1, 64, 10),
}
ELEMENTS = {"e4m3": "fp8_e4m3", "e1m2": "fp4_e1m2", "e2m1": "fp4_e2m1"}
BITS = {"hif4": 4, "e1m2": 4, "e2m1": 4, "e4m3": 8, "bf16": 16}
Array = np.ndarray[Any, Any]


def packed(rows: list[list[int]], bits: int) -> Array:
    """Row-major bytes; 4-bit codes two to a byte, first in the low nibble, each row on a byte of its own."""
    out: list[int] = []
    for row in rows:
        if bits == 4:
            padded = [*row, 0] if len(row) % 2 else row
            out += [padded[i] | padded[i + 1] << 4 for i in range(0, len(padded), 2)]
        else:
            out += [code >> shift & 0xFF for code in row for shift in range(0, bits, 8)]
    return np.array(out, np.uint8)


class Operand:
    """Random codes and scales of ``outer`` rows (A) or columns (B), K along each."""

    def __init__(self, name: str, outer: int, k: int, stream: np.random.RandomState) -> None:
        self.name, self.outer, self.k = name, outer, k
        finite = {"bf16": range(0x3F00, 0x4080), "e4m3": range(0x7F)}.get(name, range(8))
        sign = 1 << (BITS[name] - 1)
        self.codes = [
            [int(finite[stream.randint(len(finite))]) | sign * int(stream.randint(2)) for _ in range(k)]
            for _ in range(outer)
        ]
        groups = -(-k // 64) if name == "hif4" else -(-k // 32)
        pick = lambda low, high: [[int(stream.randint(low, high)) for _ in range(groups)] for _ in range(outer)]  # noqa: E731
        if name == "hif4":
            self.scales = [pick(0xB8, 0xC8), pick(0, 256), pick(0, 65536)]
        else:
            self.scales = [] if name == "bf16" else [pick(122, 131)]

    def value(self, row: int, k: int) -> float:
        code = self.codes[row][k]
        if self.name == "bf16":
            return sums.to_float(codec.decode(code, "bf16"))
        if self.name == "hif4":
            ea, eb, ec = (plane[row][k // 64] for plane in self.scales)
            return sums.to_float(blocks.hif4_value(code, ea, eb, ec, k % 64))
        return sums.to_float(blocks.mx_value(code, ELEMENTS[self.name], self.scales[0][row][k // 32]))

    def cells(self) -> Array:
        """Cells of 16 rows x 64 of K, row fractals first: (Ea, Eb) x 16 then (Ec low, high) x 16, or two E8M0 a row."""
        out: list[int] = []
        for first in range(0, self.outer, 16):
            for cell in range(-(-self.k // 64)):
                rows = [row if row < self.outer else None for row in range(first, first + 16)]
                if self.name == "hif4":
                    ea, eb, ec = self.scales
                    out += [b for r in rows for b in ((0, 0) if r is None else (ea[r][cell], eb[r][cell]))]
                    out += [b for r in rows for b in ((0, 0) if r is None else (ec[r][cell] & 255, ec[r][cell] >> 8))]
                else:
                    (plane,) = self.scales
                    out += [
                        0 if r is None or g >= len(plane[r]) else plane[r][g]
                        for r in rows
                        for g in (2 * cell, 2 * cell + 1)
                    ]
        return np.array(out, np.uint8)


def matmul(name: str) -> dict[str, Any]:
    """Operands and golden of one product: fp32 sums in ascending k, then bf16."""
    left, right, m, k, n = MATMULS[name]
    stream = np.random.RandomState(sum(name.encode()))
    a, b = Operand(left, m, k, stream), Operand(right, n, k, stream)
    rows = [[a.value(i, at) for at in range(k)] for i in range(m)]
    columns = [[b.value(j, at) for at in range(k)] for j in range(n)]
    golden = [
        [codec.encode(codec.from_float(sums.sequential(row, column)), "bf16", "ieee") for column in columns]
        for row in rows
    ]
    transposed = [[b.codes[j][at] for j in range(n)] for at in range(k)]
    found = {
        "a_data": packed(a.codes, BITS[left]),
        "b_data": packed(transposed, BITS[right]),
        "b_scale": b.cells(),
        "golden": np.array(golden, np.uint16),
        "m": np.int64(m),
        "k": np.int64(k),
        "n": np.int64(n),
    }
    return {**found, "a_scale": a.cells()} if a.scales else found


def quantise() -> dict[str, Any]:
    """bf16 patterns of four rows of 128, and what HiF4 (rule a6) makes of them."""
    stream = np.random.RandomState(64)
    source = stream.randint(0x3C00, 0x4400, (4, 128)) | stream.randint(2, size=(4, 128)) << 15
    source[1, :64] = 0
    codes: list[list[int]] = []
    b = Operand("hif4", 4, 128, stream)
    for row in range(4):
        codes.append([])
        for group in range(2):
            values = [codec.decode(int(code), "bf16") for code in source[row, 64 * group : 64 * group + 64]]
            block = blocks.hif4_quantize(values, PROFILES["a6"])
            codes[row] += block.codes
            for plane, scale in zip(b.scales, block.scales, strict=True):
                plane[row][group] = scale
    return {"input1": source.astype(np.uint16), "fp4": packed(codes, 4), "exp_dst": b.cells()}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in MATMULS:
        np.savez(FOLDER / f"{name}.npz", **matmul(name))
    np.savez(FOLDER / "quantise_hif4_4x128.npz", **quantise())


if __name__ == "__main__":
    main()
