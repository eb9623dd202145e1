"""Tiles and windows of an Ascend program: where its tensors lie, and the rectangles that instructions touch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hwmodel import numerics as nm
from hwmodel.arch import Arch
from hwmodel.errors import InputError, unknown_name
from hwmodel.listing.ascend.model import RegionModel, TensorModel
from hwmodel.program.memory import Part, Tensor, Tile, Window, whole
from hwmodel.quantities import round_up
from hwmodel.tiling import operands as sizes

SCALE_SPACES = ("l0a_mx", "l0b_mx")


@dataclass(frozen=True)
class Place:
    """A tensor with its tile (None in GM) and the sizes of its dtype."""

    name: str
    model: TensorModel
    kind: sizes.OperandKind
    tile: Tile | None

    @property
    def rows(self) -> int:
        """Rows in elements."""
        return self.model.shape[0]

    @property
    def cols(self) -> int:
        """Columns in elements."""
        return self.model.shape[1]

    @property
    def tensor(self) -> Tensor:
        """As a tensor in GM."""
        return Tensor(self.name, self.model.dtype, self.rows, self.cols, self.model.stored, self.model.kind)


def place_all(models: dict[str, TensorModel], arch: Arch) -> dict[str, Place]:
    """Give every tensor its place. Raises InputError, its text beginning with the field."""
    used: dict[str, int] = {}
    found = {}
    for name, model in models.items():
        if model.dtype not in nm.DTYPES:
            raise InputError(f"tensors.{name}.dtype: {unknown_name('dtype', model.dtype, nm.DTYPES)}")
        record = nm.DTYPES[model.dtype]
        mx = record.block is not None if model.mx is None else model.mx
        kind = sizes.operand_kind(model.dtype, mx=mx)
        scale = model.kind == "scale"
        if scale and not kind.cell_bytes:
            raise InputError(f"tensors.{name}.kind: expected data, as {model.dtype} has no block scales")
        if scale != (model.space in SCALE_SPACES) and model.space in (*SCALE_SPACES, "l0a", "l0b", "l0c"):
            legal = "l0a_mx or l0b_mx" if scale else "l0a, l0b or l0c"
            raise InputError(f"tensors.{name}.space: expected {legal} for {model.kind}, not {model.space}")
        tile = None
        if model.space != "gm":
            if model.init is not None:
                raise InputError(f"tensors.{name}.init: expected none, as only GM has contents at the start")
            if model.space not in arch.spec.buffers:
                raise InputError(f"tensors.{name}.space: {unknown_name('buffer', model.space, arch.spec.buffers)}")
            unit = arch.spec.buffers[model.space].allocation_bytes
            offset = round_up(used.get(model.space, 0), unit) if model.offset is None else model.offset
            tile = _tile(model, kind, offset, arch)
            used[model.space] = max(used.get(model.space, 0), tile.offset + tile.size)
        elif model.offset is not None:
            raise InputError(f"tensors.{name}.offset: expected none, as the tensor lies in GM")
        found[name] = Place(name, model, kind, tile)
    return found


def _tile(model: TensorModel, kind: sizes.OperandKind, offset: int, arch: Arch) -> Tile:
    rows, cols = model.shape
    if model.kind == "scale":
        return sizes.scale_tile(kind, model.space, offset, rows, cols, "ZZ" if model.side == "a" else "NN")
    if model.space == "l1":
        return sizes.l1_tile(kind, offset, rows, cols, k_axis=1 if model.side == "a" else 0)
    if model.space == "l0c":
        return sizes.acc_tile(offset, rows, cols, model.dtype)
    return sizes.l0_tile(kind, model.space, offset, rows, cols, arch.spec.l0a_layout if model.space == "l0a" else "ZN")


def find(given: Any, places: dict[str, Place], field: str, *spaces: str) -> tuple[Place, tuple[int, int, int, int]]:
    """The tensor that an operand names and (row, col, rows, cols) of it; it must lie in one of ``spaces``."""
    model = given if isinstance(given, RegionModel) else RegionModel(tensor=given)
    if model.tensor not in places:
        raise InputError(f"{field}: {unknown_name('tensor', model.tensor, places)}")
    place = places[model.tensor]
    if place.model.space not in spaces:
        raise InputError(
            f"{field}: expected a tensor in {' or '.join(spaces)}, not {place.name} in {place.model.space}"
        )
    row, rows = model.rows or (0, place.rows)
    col, cols = model.cols or (0, place.cols)
    for what, first, count, there in (("rows", row, rows, place.rows), ("cols", col, cols, place.cols)):
        if first + count > there:
            raise InputError(f"{field}.{what}: expected at most {there} of {place.name}, not {first} + {count}")
    return place, (row, col, rows, cols)


def window(place: Place, rect: tuple[int, int, int, int]) -> Window:
    """A rectangle of a tensor in GM."""
    return Window(place.name, *rect)


def part(place: Place, rect: tuple[int, int, int, int], field: str) -> Part:
    """A rectangle of a tile; the bytes are those of the whole fractals and cells that it touches."""
    row, col, rows, cols = rect
    tile = place.tile
    assert tile is not None
    if (row, col, rows, cols) == (0, 0, place.rows, place.cols):
        return whole(tile)
    if place.model.kind == "scale":
        if row % sizes.CELL_ROWS or col % sizes.CELL_K:
            raise InputError(f"{field}: expected whole scale cells of {sizes.CELL_ROWS} x {sizes.CELL_K}")
        if cols == place.cols:
            return sizes.scale_rows(tile, place.kind, row, rows)
        return sizes.scale_columns(tile, place.kind, col, cols)._replace(row=row, rows=rows)
    if row == 0 and rows == place.rows:
        return sizes.columns(tile, place.kind, col, cols)
    if col == 0 and cols == place.cols and place.model.space == "l1":
        return sizes.rows(tile, place.kind, row, rows)
    return Part(tile, row, col, rows, cols, tile.offset, tile.size)
