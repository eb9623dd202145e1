"""Operands: how a scenario states them, and the arrays that come out.

Generated values come from ``numpy.random.RandomState``, whose stream is frozen: the same seed gives the same bits with
every numpy. They are drawn in float64, row by row, and rounded to fp32 once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from hwmodel import neuron_mx
from hwmodel import numerics as nm
from hwmodel.errors import InputError
from hwmodel.units.base import Spec

F32 = NDArray[np.float32]
Codes = NDArray[Any]
CHUNK = 1 << 20
"""Values drawn at a time: no float64 temporary is larger."""

Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
FP32_MAX = float(np.finfo(np.float32).max)
Finite = Annotated[float, Field(ge=-FP32_MAX, le=FP32_MAX, allow_inf_nan=False)]


class _Quantised(Spec):
    rule: str | None = Field(default=None, description="quantiser rule (hwmodel list rules); default by dtype")


class NormalInput(_Quantised):
    """Normally distributed values."""

    kind: Literal["normal"]
    mean: Finite = 0.0
    std: Annotated[Finite, Field(ge=0)] = 1.0
    seed: Seed = Field(default=0, description="of numpy's RandomState; default 0 for a, 1 for b")


class UniformInput(_Quantised):
    """Uniformly distributed values in [low, high)."""

    kind: Literal["uniform"]
    low: Finite = 0.0
    high: Finite = 1.0
    seed: Seed = Field(default=0, description="of numpy's RandomState; default 0 for a, 1 for b")

    @model_validator(mode="after")
    def _ordered(self) -> UniformInput:
        if not self.low < self.high:
            raise ValueError(f"high: expected a number greater than low ({self.low}), not {self.high}")
        return self


class IntegersInput(_Quantised):
    """Whole numbers in [low, high), all equally likely."""

    kind: Literal["integers"]
    low: Annotated[int, Field(ge=-(2**63))]
    high: Annotated[int, Field(le=2**63)]
    seed: Seed = Field(default=0, description="of numpy's RandomState; default 0 for a, 1 for b")

    @model_validator(mode="after")
    def _ordered(self) -> IntegersInput:
        if not self.low < self.high:
            raise ValueError(f"high: expected an integer greater than low ({self.low}), not {self.high}")
        return self


class ConstantInput(_Quantised):
    """One value everywhere."""

    kind: Literal["constant"]
    value: Finite


class NpyInput(_Quantised):
    """Values from a ``.npy`` file, quantised on the way in."""

    kind: Literal["npy"]
    path: str = Field(min_length=1, description="relative to the scenario file")
    nonfinite: Literal["refuse", "keep"] = Field(default="refuse", description="what to do with NaN and Inf")


class PackedInput(Spec):
    """The bytes as the device sees them: packed codes and scale cells."""

    kind: Literal["packed"]
    data: str = Field(min_length=1, description="file of packed codes, relative to the scenario file")
    scales: str | None = Field(default=None, min_length=1, description="file of scale cells")


InputSource: TypeAlias = Annotated[
    NormalInput | UniformInput | IntegersInput | ConstantInput | NpyInput | PackedInput, Field(discriminator="kind")
]
SEEDED = ("normal", "uniform", "integers")
NEURON_RULES = "neuron"
"""How the names of the rules for 8 x 4 blocks begin."""


class Inputs(Spec):
    """Where the operands come from."""

    a: InputSource = Field(default_factory=lambda: NormalInput(kind="normal"))
    b: InputSource = Field(default_factory=lambda: NormalInput(kind="normal", seed=1))

    @model_validator(mode="before")
    @classmethod
    def _seed_of_b(cls, data: Any) -> Any:
        b = data.get("b") if isinstance(data, dict) else None
        if isinstance(b, dict) and b.get("kind") in SEEDED and "seed" not in b:
            return {**data, "b": {**b, "seed": 1}}
        return data


@dataclass(frozen=True, eq=False)
class Operand:
    """One operand, ready for global memory.

    ``codes`` has the logical shape ([M, K] or [K, N]), one element each. ``scales`` are its block scales (groups along
    ``axis``) and ``cells`` the same as bytes, row fractals first, then K, as they lie in GM; both None for a dtype
    without block scales. ``values`` fp32 is what was quantised, None where the codes were given. ``neuron`` operands
    are scaled as a NeuronCore does it and have no cells.
    """

    dtype: str
    axis: int
    codes: Codes
    values: F32 | None = None
    scales: nm.BlockScales | None = None
    cells: NDArray[np.uint8] | None = None
    neuron: bool = False

    def decoded(self) -> F32:
        """The values that the codes stand for, fp32."""
        if self.neuron and isinstance(self.scales, nm.MxScales):
            turned = self.axis == 1
            codes, scales = (self.codes.T, self.scales.e8m0.T) if turned else (self.codes, self.scales.e8m0)
            wide: F32 = neuron_mx.decoded(codes, np.ascontiguousarray(scales), self.dtype)
            return np.ascontiguousarray(wide.T) if turned else wide
        whole = self.tensor()
        return nm.dequantize(whole) if isinstance(whole, nm.BlockTensor) else whole

    def tensor(self) -> nm.BlockTensor | F32:
        """Codes and scales as a block tensor; the values of a dtype without block scales."""
        if self.scales is None:
            return nm.decode(self.codes, self.dtype)
        block = nm.DTYPES[self.dtype].block
        assert block is not None
        return nm.BlockTensor(self.codes, self.scales, self.dtype, self.axis, (1, block.group))


def make_operand(
    source: InputSource,
    dtype: str,
    shape: tuple[int, int],
    *,
    axis: int = 1,
    base: Path = Path(),
    transposed: bool = False,
    neuron: bool = False,
    field: str = "inputs.a",
) -> Operand:
    """Build an operand of ``dtype`` and ``shape``, with K along ``axis`` (1 for A [M, K], 0 for B [K, N]).

    ``transposed``: packed data lie with their rows and columns exchanged (B as [N, K]). ``neuron``: block scales are
    those of 8 x 4 blocks, packed ones lie in partition slots. Paths are relative to ``base``.

    InputError, its text beginning with ``field``, for a file that is missing, of the wrong size or shape, or that holds
    a NaN or Inf.
    """
    if isinstance(source, PackedInput):
        return _packed(source, dtype, shape, axis, base, transposed, neuron, field)
    values = make_values(source, shape, base=base, field=field)
    if nm.DTYPES[dtype].block is None:
        return Operand(dtype, axis, _encode(values, dtype), values)
    if str(source.rule).startswith(NEURON_RULES):
        if not neuron:
            raise InputError(f"{field}.rule: expected a rule for blocks along K on this machine, not {source.rule}")
        return _neuron_operand(values, dtype, axis, str(source.rule))
    tensor = nm.quantize(values, dtype, axis=axis, rule=source.rule)
    cells = None if neuron else nm.scale_cells(tensor.scales, dtype, axis)
    return Operand(dtype, axis, tensor.codes, values, tensor.scales, cells, neuron)


def _neuron_operand(values: F32, dtype: str, axis: int, rule: str) -> Operand:
    codes, scales = neuron_mx.quantize(values.T if axis == 1 else values, dtype, rule)
    if axis == 1:
        codes, scales = np.ascontiguousarray(codes.T), np.ascontiguousarray(scales.T)
    return Operand(dtype, axis, codes, values, nm.MxScales(scales), neuron=True)


def make_values(source: InputSource, shape: tuple[int, int], *, base: Path = Path(), field: str = "inputs.a") -> F32:
    """fp32 values of ``shape`` before they are quantised. InputError as for `make_operand`."""
    if isinstance(source, NpyInput):
        return _finite(source, read_values(base / source.path, shape, f"{field}.path"), f"{field}.path")
    if isinstance(source, ConstantInput):
        return np.full(shape, source.value, np.float32)
    if isinstance(source, PackedInput):
        raise InputError(f"{field}.kind: expected values, not packed codes")
    return _draw(source, shape)


def read_codes(path: Path, dtype: str, shape: tuple[int, int], field: str) -> Codes:
    """Codes [rows, cols] from a file of packed bytes, or from a ``.npy`` of values that ``dtype`` holds.

    numpy saves an array of ml_dtypes as raw items (``V2`` for bf16): of the dtype's own size they are its codes.
    """
    record = nm.DTYPES[dtype]
    if path.suffix == ".npy":
        array = _read_npy(path, shape, field)
        if array.dtype.kind == "V" and array.dtype.itemsize * 8 == record.storage_bits:
            return np.ascontiguousarray(array).view(record.numpy_dtype)
        if array.dtype.kind in "iu" and dtype == "int32":
            return _whole(array, path, field)
        return _encode(_as_fp32(array, path, field), dtype)
    size = shape[0] * -(-shape[1] * record.storage_bits // 8)
    data = read_bytes(path, size, f"{shape[0]} x {shape[1]} {dtype}", field)
    return nm.unpack_rows(data, *shape, dtype)


def read_cells(path: Path, dtype: str, rows: int, k: int, field: str) -> NDArray[np.uint8]:
    """Bytes of the scale cells of ``rows`` rows of A (columns of B) and ``k``."""
    size = nm.scale_cell_bytes(rows, k, dtype)
    return read_bytes(path, size, f"scale cells of {rows} rows x {k} {dtype}", field)


def read_slots(path: Path, rows: int, cols: int, field: str) -> NDArray[np.uint8]:
    """Scale bytes [rows, cols / 4] in the partition slots of 8 x 4 blocks."""
    shape = (rows, cols // neuron_mx.LANES)
    what = f"scale slots of {rows} partitions x {shape[1]}"
    return read_bytes(path, shape[0] * shape[1], what, field).reshape(shape)


def read_values(path: Path, shape: tuple[int, int], field: str) -> F32:
    """fp32 values from a ``.npy`` of floats or integers with exactly this shape."""
    return _as_fp32(_read_npy(path, shape, field), path, field)


def _as_fp32(array: NDArray[Any], path: Path, field: str) -> F32:
    if array.dtype.kind not in "fiu":
        raise InputError(f"{field}: {path}: expected floats or integers of at most 64 bits, not {array.dtype}")
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, dtype=np.float32)


def _whole(array: NDArray[Any], path: Path, field: str) -> Codes:
    """int32 codes of integers, each exactly: fp32 has room for 24 bits only."""
    limits = np.iinfo(np.int32)
    least, most = (int(array.min()), int(array.max())) if array.size else (0, 0)
    if least < limits.min or most > limits.max:
        raise InputError(f"{field}: {path}: expected int32 values, not {least if least < limits.min else most}")
    return array.astype(np.int32, order="C").view(np.uint32)


def _read_npy(path: Path, shape: tuple[int, int], field: str) -> NDArray[Any]:
    """The array of a ``.npy`` with exactly this shape, in its own dtype of at most 64 bits."""
    import tokenize

    from numpy.lib import format as npy

    _refuse_stream(path, field)
    try:
        with path.open("rb") as file:
            version = npy.read_magic(file)
            header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            found, fortran, dtype = header(file)
            start = file.tell()
    except OSError as error:
        raise _unreadable(path, field, error) from None
    except (ValueError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError):
        raise InputError(f"{field}: {path}: expected a .npy file, not one with this header") from None
    if dtype.kind not in "fiuV" or not 0 < dtype.itemsize <= 8:
        raise InputError(f"{field}: {path}: expected floats or integers of at most 64 bits, not {dtype}")
    if found != shape:
        raise InputError(f"{field}: {path}: expected shape [{_extents(shape)}], not [{_extents(found)}]")
    size = start + dtype.itemsize * shape[0] * shape[1]
    data = read_bytes(path, size, f"{shape[0]} x {shape[1]} {dtype}", field)[start:].view(dtype)
    return data.reshape(shape, order="F" if fortran else "C")


def _packed(
    source: PackedInput,
    dtype: str,
    shape: tuple[int, int],
    axis: int,
    base: Path,
    transposed: bool,
    neuron: bool,
    field: str,
) -> Operand:
    record = nm.DTYPES[dtype]
    stored = (shape[1], shape[0]) if transposed else shape
    size = stored[0] * -(-stored[1] * record.storage_bits // 8)
    what = f"{stored[0]} x {stored[1]} {dtype}"
    codes = nm.unpack_rows(read_bytes(base / source.data, size, what, f"{field}.data"), *stored, dtype)
    if transposed:
        codes = np.ascontiguousarray(codes.T)
    if record.block is None:
        return Operand(dtype, axis, codes)
    if source.scales is None:
        raise InputError(f"{field}.scales: expected a file of scale cells, but it is missing")
    rows, k = shape[1 - axis], shape[axis]
    if neuron:
        places = neuron_mx.rows_of(k)
        what = f"scale slots of {places} partitions x {rows} {dtype}"
        found = read_bytes(base / source.scales, places * rows, what, f"{field}.scales").reshape(places, rows)
        scales = neuron_mx.scales_of(found, k)
        return Operand(dtype, axis, codes, None, nm.MxScales(scales.T if axis == 1 else scales), neuron=True)
    cells = read_cells(base / source.scales, dtype, rows, k, f"{field}.scales")
    return Operand(dtype, axis, codes, None, nm.read_scale_cells(cells, rows, k, dtype, axis), cells)


def _draw(source: NormalInput | UniformInput | IntegersInput, shape: tuple[int, int]) -> F32:
    stream = np.random.RandomState(source.seed)
    draw: Callable[[int], NDArray[Any]]
    if isinstance(source, NormalInput):
        mean, std = source.mean, source.std
        draw = lambda count: stream.normal(mean, std, count)  # noqa: E731
    elif isinstance(source, UniformInput):
        low, high = source.low, source.high
        draw = lambda count: stream.uniform(low, high, count)  # noqa: E731
    else:
        first, last = source.low, source.high
        draw = lambda count: stream.randint(first, last, count, dtype=np.int64)  # noqa: E731
    values = np.empty(shape[0] * shape[1], np.float32)
    with np.errstate(over="ignore"):
        for start in range(0, values.size, CHUNK):
            part = values[start : start + CHUNK]
            part[...] = draw(part.size)
    return values.reshape(shape)


def _encode(values: F32, dtype: str) -> Codes:
    """Codes of a plain dtype; finite values saturate, an infinity stays one where the dtype has it."""
    codes = nm.encode(values, dtype)
    infinite = np.isinf(values)
    if infinite.any():
        codes[infinite] = nm.encode(values[infinite], dtype, overflow="ieee")
    return codes


def _finite(source: NpyInput, values: F32, field: str) -> F32:
    if source.nonfinite == "keep":
        return values
    good = np.isfinite(values)
    if good.all():
        return values
    row, col = (int(index) for index in np.argwhere(~good)[0])
    what = "NaN" if np.isnan(values[row, col]) else "Inf"
    raise InputError(
        f"{field}: {source.path}: expected finite fp32 values, not {what} at [{row}, {col}]"
        f" ({int(values.size - good.sum())} in all; nonfinite: keep lets them pass)"
    )


def read_bytes(path: Path, size: int, what: str, field: str) -> NDArray[np.uint8]:
    """All bytes of a file that holds ``what``. InputError where it cannot be read or has not ``size`` bytes."""
    _refuse_stream(path, field)
    try:
        found = path.stat().st_size
        if found == size:
            return np.fromfile(path, np.uint8, size)
    except OSError as error:
        raise _unreadable(path, field, error) from None
    raise InputError(f"{field}: {path}: expected {size:,} bytes ({what}), not {found:,}")


def _refuse_stream(path: Path, field: str) -> None:
    """A pipe would be waited for, a device has no size."""
    try:
        if path.is_file() or not path.exists():
            return
    except OSError as error:
        raise _unreadable(path, field, error) from None
    raise InputError(f"{field}: {path}: expected a file, not a {'folder' if path.is_dir() else 'device or pipe'}")


def _unreadable(path: Path, field: str, error: OSError) -> InputError:
    missing = isinstance(error, FileNotFoundError)
    problem = "there is none of that name" if missing else f"it cannot be read ({error.strerror or error})"
    return InputError(f"{field}: {path}: expected a file, but {problem}")


def _extents(shape: tuple[int, ...]) -> str:
    return ", ".join(str(extent) for extent in shape)
