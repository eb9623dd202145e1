"""Where the tensors of a Neuron program lie, and the rectangles that its instructions touch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from hwmodel.arch import Arch
from hwmodel.errors import CapacityError, InputError, unknown_name
from hwmodel.listing.neuron.model import RegionModel, TensorModel
from hwmodel.program.memory import Part, Tile, Window
from hwmodel.program.neuron_dtypes import NeuronDtype, neuron_dtype

BANK_BYTES = 2048
BANKS = 8
MOST_DRAM_BYTES = 1 << 32
"""Of a tensor in DRAM: its values are held in memory here."""


@dataclass(frozen=True)
class Place:
    """A tensor with its place: ``offset`` counts bytes of each partition, for DRAM it is 0."""

    name: str
    space: str
    dtype: NeuronDtype
    rows: int
    cols: int
    partition: int
    offset: int
    model: TensorModel

    @property
    def tile(self) -> Tile:
        """The tensor as an on-chip tile."""
        kind = "acc" if self.space == "psum" else "data"
        size = self.cols * self.dtype.bytes
        shape = (self.rows, self.cols)
        return Tile(self.space, self.offset, size, self.dtype.name, *shape, "ND", kind, shape, self.partition)


class Region(NamedTuple):
    """A rectangle of a tensor, ``row`` and ``col`` counted in the tensor."""

    place: Place
    row: int
    col: int
    rows: int
    cols: int

    @property
    def space(self) -> str:
        """Where it lies."""
        return self.place.space

    @property
    def dtype(self) -> NeuronDtype:
        """What is stored."""
        return self.place.dtype

    @property
    def partition(self) -> int:
        """First partition."""
        return self.place.partition + self.row

    @property
    def offset(self) -> int:
        """First byte in each partition."""
        return self.place.offset + self.col * self.dtype.bytes

    @property
    def size(self) -> int:
        """Bytes in each partition."""
        return self.cols * self.dtype.bytes

    @property
    def window(self) -> Window:
        """As a rectangle of a tensor in DRAM."""
        return Window(self.place.name, self.row, self.col, self.rows, self.cols)

    @property
    def part(self) -> Part:
        """As something that is read on chip."""
        return Part(self.place.tile, self.row, self.col, self.rows, self.cols, self.offset, self.size)

    @property
    def tile(self) -> Tile:
        """As something that is written on chip."""
        shape = (self.rows, self.cols)
        kind = "acc" if self.space == "psum" else "data"
        return Tile(self.space, self.offset, self.size, self.dtype.name, *shape, "ND", kind, shape, self.partition)

    def __str__(self) -> str:
        """For people: ``acc [128, 512] float32 in psum``."""
        whole = (self.rows, self.cols) == (self.place.rows, self.place.cols)
        part = "" if whole else f"[{self.row}:{self.row + self.rows}, {self.col}:{self.col + self.cols}]"
        return f"{self.place.name}{part} [{self.rows}, {self.cols}] {self.dtype.name} in {self.space}"


def whole_of(place: Place) -> Region:
    """All of a tensor."""
    return Region(place, 0, 0, place.rows, place.cols)


def place_all(models: dict[str, TensorModel], arch: Arch) -> dict[str, Place]:
    """Give every tensor its place; what fits nowhere is refused.

    Raises InputError, its text beginning with the field (``tensors.NAME``).
    """
    used = {"sbuf": 0, "psum": 0}
    found: dict[str, Place] = {}
    for name, model in models.items():
        try:
            dtype = neuron_dtype(model.dtype)
        except InputError as error:
            raise InputError(f"tensors.{name}.dtype: {error}") from None
        rows, cols = model.shape
        if model.space == "dram":
            _refuse_place(name, model)
            if rows * cols * dtype.bytes > MOST_DRAM_BYTES:
                came = f"{rows * cols * dtype.bytes:,} bytes for {rows} x {cols} of {dtype.name}"
                raise InputError(f"tensors.{name}.shape: expected at most {MOST_DRAM_BYTES:,} bytes, not {came}")
            found[name] = Place(name, "dram", dtype, rows, cols, 0, 0, model)
            continue
        offset = _offset(name, model, used[model.space])
        size = cols * dtype.bytes
        used[model.space] = max(used[model.space], offset + size)
        _fit(name, model, arch, offset, size)
        found[name] = Place(name, model.space, dtype, rows, cols, model.partition, offset, model)
    return found


def _refuse_place(name: str, model: TensorModel) -> None:
    for field in ("offset", "bank"):
        if getattr(model, field) is not None:
            raise InputError(f"tensors.{name}.{field}: expected none, as the tensor lies in DRAM")
    if model.partition:
        raise InputError(f"tensors.{name}.partition: expected none, as the tensor lies in DRAM")


def _offset(name: str, model: TensorModel, used: int) -> int:
    if model.space == "sbuf":
        if model.bank is not None:
            raise InputError(f"tensors.{name}.bank: expected none, as SBUF has no banks")
        return used if model.offset is None else model.offset
    if model.bank is not None:
        return model.bank * BANK_BYTES + (model.offset or 0)
    return -(-used // BANK_BYTES) * BANK_BYTES if model.offset is None else model.offset


def _fit(name: str, model: TensorModel, arch: Arch, offset: int, size: int) -> None:
    """Refuse what does not fit; banks that are not there are told where an instruction uses them."""
    partitions = arch.spec.buffers[model.space].partitions
    if model.partition + model.shape[0] > partitions:
        last = model.partition + model.shape[0] - 1
        raise InputError(f"tensors.{name}: expected partitions 0 to {partitions - 1}, not up to {last}")
    there = arch.buffer_bytes(model.space)
    if model.space == "sbuf" and offset + size > there:
        error = CapacityError("sbuf (each partition)", offset + size, there, f"tensor {name}")
        raise InputError(f"tensors.{name}: {error}")


def region_of(given: Any, places: dict[str, Place], field: str) -> Region:
    """The rectangle that an operand names; InputError, its text beginning with the field."""
    model = given if isinstance(given, RegionModel) else RegionModel(tensor=given)
    if model.tensor not in places:
        raise InputError(f"{field}: {unknown_name('tensor', model.tensor, places)}")
    place = places[model.tensor]
    row, rows = model.rows or (0, place.rows)
    col, cols = model.cols or (0, place.cols)
    for what, first, count, there in (("rows", row, rows, place.rows), ("cols", col, cols, place.cols)):
        if first + count > there:
            raise InputError(f"{field}.{what}: expected at most {there} of {place.name}, not {first} + {count}")
    return Region(place, row, col, rows, cols)
