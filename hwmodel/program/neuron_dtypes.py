"""The dtypes of Neuron programs: number, name, bytes of one stored element, and the element format behind it.

The numbers are those of the compiler (hardware facts 3); a program may use either. An x4 dtype stores four elements
of K in one container, which the dtype alone says: numbers 2, 8 and 9 multiply the extent by four, nothing else does.
"""

from __future__ import annotations

from typing import NamedTuple

from hwmodel.errors import InputError, unknown_name

LANES = 4


class NeuronDtype(NamedTuple):
    """One dtype. ``element`` is its format in ``numerics.DTYPES`` (None: an integer that is only moved)."""

    number: int
    name: str
    bytes: int
    element: str | None
    is_float: bool
    lanes: int = 1
    operand: str = ""
    """What the PE array calls it in the arch file; empty: no operand of a matmul."""

    @property
    def numpy(self) -> str:
        """Type of an array of stored elements."""
        return f"<u{self.bytes}"


_RECORDS = (
    NeuronDtype(0, "uint8", 1, "uint8", False, 1, "uint8"),
    NeuronDtype(1, "int8", 1, "int8", False),
    NeuronDtype(2, "float4_e2m1fn_x4", 2, "fp4_e2m1", True, LANES, "mxfp4_e2m1"),
    NeuronDtype(3, "float8e3", 1, "fp8_e3m4", True, 1, "fp8_e3m4"),
    NeuronDtype(4, "float8e4", 1, "fp8_e4m3_ieee", True, 1, "fp8_e4m3_ieee"),
    NeuronDtype(5, "float8_e4m3fn", 1, "fp8_e4m3", True, 1, "fp8_e4m3"),
    NeuronDtype(6, "float8_e8m0fnu", 1, "e8m0", True),
    NeuronDtype(7, "float8e5", 1, "fp8_e5m2", True, 1, "fp8_e5m2"),
    NeuronDtype(8, "float8_e4m3fn_x4", 4, "fp8_e4m3", True, LANES, "mxfp8_e4m3"),
    NeuronDtype(9, "float8_e5m2_x4", 4, "fp8_e5m2", True, LANES, "mxfp8_e5m2"),
    NeuronDtype(10, "uint16", 2, None, False),
    NeuronDtype(11, "int16", 2, None, False),
    NeuronDtype(12, "bfloat16", 2, "bf16", True, 1, "bf16"),
    NeuronDtype(13, "float16", 2, "fp16", True, 1, "fp16"),
    NeuronDtype(14, "uint32", 4, None, False),
    NeuronDtype(15, "int32", 4, "int32", False),
    NeuronDtype(16, "float32", 4, "fp32", True, 1, "fp32"),
    NeuronDtype(17, "float32r", 4, "fp32", True, 1, "fp32r"),
    NeuronDtype(18, "uint64", 8, None, False),
    NeuronDtype(19, "int64", 8, None, False),
)

NEURON_DTYPES: dict[str, NeuronDtype] = {record.name: record for record in _RECORDS}
"""By name, in the order of their numbers."""
BY_NUMBER: dict[int, NeuronDtype] = {record.number: record for record in _RECORDS}
OF_OPERAND: dict[str, NeuronDtype] = {record.operand: record for record in _RECORDS if record.operand}
"""By the name that the PE array and ``problem`` have for an operand (``bf16``, ``mxfp8_e4m3``)."""


def neuron_dtype(name: str | int) -> NeuronDtype:
    """The dtype of a number or name; InputError with the known ones otherwise."""
    if isinstance(name, int) and not isinstance(name, bool):
        found = BY_NUMBER.get(name)
        if found is None:
            known = ", ".join(f"{record.number} {record.name}" for record in _RECORDS)
            raise InputError(f"unknown dtype number {name} (known: {known})")
        return found
    if name in NEURON_DTYPES:
        return NEURON_DTYPES[str(name)]
    raise InputError(unknown_name("Neuron dtype", str(name), NEURON_DTYPES))
