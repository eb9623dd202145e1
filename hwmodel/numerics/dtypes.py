"""Every dtype and every quantiser rule a user can name: two explicit tables.

A dtype is an element format alone, or an element format with block scales along K. Adding a block dtype is one
record in ``_BLOCKS``; adding an element format is one record in ``formats.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hwmodel.errors import NumericsError, unknown_name
from hwmodel.numerics.formats import FORMATS, ElementFormat


@dataclass(frozen=True, slots=True)
class Rule:
    """One name of ``RULES``: a quantiser rule, the dtypes it serves, one line for people.

    ``block`` is the extent it works on: 1 x 32 or 1 x 64 along K for `quantize`, 8 x 4 for `quantize_neuron_mx`. The
    parameters of a rule are in the record of its name in ``mx.RULES``, ``hif4.PROFILES`` or ``neuron.PRESETS``.
    """

    name: str
    block: tuple[int, int]
    dtypes: tuple[str, ...]
    summary: str


_MX_DTYPES = ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp4_e2m1", "mxfp4_e1m2")
_NEURON_DTYPES = ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp4_e2m1")

RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("floor", (1, 32), _MX_DTYPES, "OCP: exponent of the block maximum less emax (default)"),
        Rule("rceil", (1, 32), _MX_DTYPES, "smallest scale under which the maximum does not saturate (NV)"),
        Rule("even", (1, 32), _MX_DTYPES, "floor after rounding the maximum to the element's mantissa"),
        Rule("ceil", (1, 32), _MX_DTYPES, "floor plus one unless the maximum is a power of two"),
        Rule(
            "golden",
            (1, 32),
            _MX_DTYPES,
            "rceil with zero blocks at 127: the vendor's matmul generator; refuses NaN and Inf",
        ),
        Rule("a6", (1, 64), ("hif4",), "bf16 arithmetic, half-even throughout, specials defined (default)"),
        Rule("vendor_golden", (1, 64), ("hif4",), "a6 with code 0x00 as zero; refuses tiny peaks, NaN and Inf"),
        Rule("paper", (1, 64), ("hif4",), "exact products, elements half away from zero"),
        Rule("paper_even", (1, 64), ("hif4",), "exact products, elements half-even"),
        Rule("cann", (1, 64), ("hif4",), "exact thresholds; 0xFF for zero, tiny, huge, NaN and Inf blocks"),
        Rule("half_up_scale", (1, 64), ("hif4",), "a6 with the level 1 scale rounded half up"),
        Rule("neuron", (8, 4), _NEURON_DTYPES, "8 x 4 blocks, exponent less EMAX, scale byte at least 1"),
        Rule("neuron_alt_emax", (8, 4), _NEURON_DTYPES, "8 x 4 blocks, neuron with EMAX - 1 (8-bit arithmetic)"),
        Rule("neuron_hw", (8, 4), ("mxfp8_e4m3", "mxfp8_e5m2"), "8 x 4 blocks, EMAX - 1, zero block 0, FP8 only"),
    )
}
"""Every quantiser rule by name."""


@dataclass(frozen=True, slots=True)
class Block:
    """Block scales of a dtype: ``group`` elements along K share them.

    ``scale_cell_bytes`` is the size of the Cube's cell for 16 rows x 64 of K (HiF4 64, E8M0 32), ``scales`` which
    record holds them. ``source`` is what the default quantiser does with wider input: cast to bf16, or take as it is.
    """

    group: int
    element: str
    scales: Literal["e8m0", "hif4"]
    scale_cell_bytes: int
    rules: tuple[str, ...]
    default_rule: str
    source: Literal["bf16", "native"]


@dataclass(frozen=True, slots=True)
class Dtype:
    """One name of ``DTYPES``. ``format`` is the element format's record; ``block`` is None without block scales."""

    name: str
    format: ElementFormat
    block: Block | None
    summary: str

    @property
    def element(self) -> str:
        """Name of the element format (the dtype's own name where there are no block scales)."""
        return self.format.name

    @property
    def storage_bits(self) -> int:
        """Bits of one packed element, scales not counted: 4, 8, 16 or 32."""
        return self.format.bits

    @property
    def group(self) -> int | None:
        """Elements along K that share a scale, or None."""
        return self.block.group if self.block else None

    @property
    def is_float(self) -> bool:
        """True for everything that is not an integer."""
        return self.format.is_float

    @property
    def is_integer(self) -> bool:
        """True for int4, int8, uint8 and int32."""
        return self.format.is_integer

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """Unsigned type of an array of codes."""
        return self.format.numpy_dtype


def _rules(dtype: str, group: int) -> tuple[str, ...]:
    """Rules of `quantize` for a dtype, the default first."""
    return tuple(rule.name for rule in RULES.values() if dtype in rule.dtypes and rule.block == (1, group))


def _mx(element: str) -> Block:
    rules = _rules(f"mx{element}", 32)
    return Block(32, element, "e8m0", 32, rules, rules[0], "native")


def _hif4() -> Block:
    rules = _rules("hif4", 64)
    return Block(64, "fp4_e1m2", "hif4", 64, rules, rules[0], "bf16")


_BLOCKS: dict[str, tuple[Block, str]] = {
    "mxfp8_e4m3": (_mx("fp8_e4m3"), "OCP MX: 32 x E4M3 and one E8M0"),
    "mxfp8_e5m2": (_mx("fp8_e5m2"), "OCP MX: 32 x E5M2 and one E8M0"),
    "mxfp4_e2m1": (_mx("fp4_e2m1"), "OCP MX: 32 x E2M1 and one E8M0"),
    "mxfp4_e1m2": (_mx("fp4_e1m2"), "32 x E1M2 and one E8M0"),
    "hif4": (_hif4(), "HiFloat4: 64 x S1P2, E6M2, 8 x E1_8, 16 x E1_16"),
}

DTYPES: dict[str, Dtype] = {name: Dtype(name, record, None, record.summary) for name, record in FORMATS.items()} | {
    name: Dtype(name, FORMATS[block.element], block, text) for name, (block, text) in _BLOCKS.items()
}
"""Every dtype by name: element formats first, then block formats."""


BLOCK_DTYPES = tuple(_BLOCKS)


def dtype_record(name: str, wanted: Iterable[str] = DTYPES) -> Dtype:
    """Return the record of a dtype; where there is none, NumericsError with the nearest name of those ``wanted``."""
    record = DTYPES.get(name) if isinstance(name, str) else None
    if record is None:
        raise NumericsError(unknown_name("dtype", name, wanted))
    return record


def block_record(name: str) -> tuple[Dtype, Block]:
    """Return dtype and block of a block dtype; NumericsError for an unknown name or one without block scales."""
    record = dtype_record(name, BLOCK_DTYPES)
    if record.block is None:
        raise NumericsError(f"dtype {name!r} has no block scales (those with: {', '.join(BLOCK_DTYPES)})")
    return record, record.block


def element_record(name: str) -> ElementFormat:
    """Return the element format of a plain dtype; a block dtype is refused, as its codes alone are no values."""
    record = dtype_record(name, FORMATS)
    if record.block is not None:
        raise NumericsError(
            f"dtype {name!r} has block scales: use quantize and dequantize, or its element dtype {record.element!r}"
        )
    return record.format
