"""What lies in a tensor of a program before it starts: values, integers or codes, generated, listed or from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import Field

from hwmodel import numerics as nm
from hwmodel.errors import InputError, counted
from hwmodel.inputs import ConstantInput, IntegersInput, NormalInput, NpyInput, UniformInput, make_values, read_bytes
from hwmodel.units.base import Spec

Array = np.ndarray[Any, Any]
Number = int | float


class ListedValues(Spec):
    """Values row by row, as numbers (``.nan``, ``.inf`` too); one number fills a row."""

    kind: Literal["values"]
    data: tuple[tuple[Number, ...] | Number, ...]


class ListedCodes(Spec):
    """Stored elements row by row, as unsigned integers; one number fills a row."""

    kind: Literal["codes"]
    data: tuple[tuple[int, ...] | int, ...]


class BytesFile(Spec):
    """The bytes as the device has them, row-major, little-endian."""

    kind: Literal["bytes"]
    data: str = Field(min_length=1, description="relative to the scenario file")


class Identity(Spec):
    """Ones on the diagonal."""

    kind: Literal["identity"]


Contents: TypeAlias = Annotated[
    NormalInput
    | UniformInput
    | IntegersInput
    | ConstantInput
    | NpyInput
    | ListedValues
    | ListedCodes
    | BytesFile
    | Identity,
    Field(discriminator="kind"),
]


def stored_elements(
    source: Any, element: str | None, numpy_dtype: str, shape: tuple[int, int], lanes: int, base: Path, field: str
) -> Array:
    """Stored elements [rows, cols]. Values of an x4 dtype are [rows, 4 cols], packed four to a container.

    Raises InputError, its text beginning with ``field``.
    """
    rows, cols = shape
    if isinstance(source, BytesFile):
        return _from_file(base / source.data, numpy_dtype, shape, f"{field}.data")
    if isinstance(source, ListedCodes):
        codes = _listed(source.data, shape, f"{field}.data")
        bits = 8 * np.dtype(numpy_dtype).itemsize
        if element is not None and lanes == 1:
            bits = nm.DTYPES[element].storage_bits
        _refuse_beyond(codes, 0, (1 << bits) - 1, f"{field}.data", "codes")
        return codes.astype(numpy_dtype)
    wide = (rows, cols * lanes)
    if isinstance(source, Identity):
        values = np.eye(*wide, dtype=np.float32)
    elif isinstance(source, ListedValues):
        values = _listed(source.data, wide, f"{field}.data")
    else:
        values = make_values(source, wide, base=base, field=field)
    if element is None:
        return _integers(values, numpy_dtype, field)
    try:
        codes = _encode(np.asarray(values), element)
    except OverflowError:
        raise InputError(f"{field}.data: expected numbers that a double holds (up to 1.8e308)") from None
    if lanes > 1:
        codes = nm.pack_x4(codes, element)
    return np.ascontiguousarray(codes).astype(numpy_dtype, copy=False)


def _encode(values: Array, element: str) -> Array:
    """Nearest codes; what is not finite keeps its meaning where the format has it."""
    wide = values.astype(np.float64) if values.dtype != np.float32 else values
    with np.errstate(over="ignore"):
        codes = nm.encode(wide, element)
    infinite = np.isinf(wide)
    if infinite.any():
        codes[infinite] = nm.encode(wide[infinite], element, "ieee")
    return codes


def _integers(values: Array, numpy_dtype: str, field: str) -> Array:
    """Integers as the bits that the type stores: two's complement below zero."""
    exact = values
    if values.dtype != np.object_:
        whole = np.asarray(values, np.float64)
        if not (np.isfinite(whole).all() and np.array_equal(whole, np.rint(whole))):
            raise InputError(f"{field}: expected whole numbers, as the tensor holds integers")
        fits = bool((np.abs(whole) < 2.0**63).all())
        exact = whole.astype(np.int64) if fits else np.vectorize(int, otypes=[np.object_])(whole)
    bits = 8 * np.dtype(numpy_dtype).itemsize
    _refuse_beyond(exact, -(1 << bits - 1), (1 << bits) - 1, field, "integers")
    if exact.dtype == np.object_:
        exact = np.array(exact % (1 << bits))
    return exact.astype(numpy_dtype)


def _refuse_beyond(numbers: Array, low: int, high: int, field: str, what: str) -> None:
    """InputError for the first of some whole numbers [rows, cols] that a stored element has no room for."""
    wrong = np.argwhere((numbers < low) | (numbers > high))
    if len(wrong):
        row, col = (int(index) for index in wrong[0])
        raise InputError(f"{field}: expected {what} from {low} to {high}, not {numbers[row, col]} at [{row}, {col}]")


def _listed(data: tuple[Any, ...], shape: tuple[int, int], field: str) -> Array:
    """Numbers [rows, cols]: floats where one of them is, else exact integers of any size."""
    rows, cols = shape
    if len(data) != rows:
        raise InputError(f"{field}: expected {counted(rows, 'row')}, not {len(data)}")
    out = np.empty(shape, np.float64 if any(_has_float(row) for row in data) else np.object_)
    for index, row in enumerate(data):
        if isinstance(row, tuple) and len(row) != cols:
            raise InputError(f"{field}[{index}]: expected {counted(cols, 'element')}, not {len(row)}")
        out[index] = row
    return out


def _has_float(row: Any) -> bool:
    return any(isinstance(value, float) for value in (row if isinstance(row, tuple) else (row,)))


def _from_file(path: Path, numpy_dtype: str, shape: tuple[int, int], field: str) -> Array:
    dtype = np.dtype(numpy_dtype)
    data = read_bytes(path, shape[0] * shape[1] * dtype.itemsize, f"{shape[0]} x {shape[1]} {dtype}", field)
    return data.view(dtype).reshape(shape)
