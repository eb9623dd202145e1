"""Fields of Ascend instructions to instructions of the machine. Flags stand alone, as in a kernel."""

from __future__ import annotations

from typing import Any

from hwmodel import numerics as nm
from hwmodel.arch import Arch
from hwmodel.config.positions import Positions
from hwmodel.config.validate import validate
from hwmodel.errors import ConfigError, InputError, ProgramError, unknown_name
from hwmodel.listing.ascend import model as m
from hwmodel.listing.ascend.places import Place, find, part, window
from hwmodel.problem import Accumulate, constant_scale_run
from hwmodel.program.instructions import (
    GM_LINE_BYTES,
    Cast,
    Extract,
    Instruction,
    Load,
    Matmul,
    Order,
    Signal,
    Store,
    Sync,
    Wait,
)
from hwmodel.program.memory import Operand, whole
from hwmodel.tiling import operands as sizes

PIPES = ("MTE2", "MTE1", "M", "FIX")


class Lowering:
    """Instructions of one core, in program order."""

    def __init__(
        self,
        program: m.ProgramModel,
        places: dict[str, Place],
        arch: Arch,
        accumulate: Accumulate,
        positions: Positions,
    ) -> None:
        self.places = places
        self.arch = arch
        self.accumulate = accumulate
        self.instructions: list[Instruction] = []
        self.barriers = 0
        self._origin: tuple[int, str] | None = None
        for number, given in enumerate(program.instructions):
            self._step(number, dict(given), positions.below(("instructions", number)))

    def _step(self, number: int, given: dict[str, Any], positions: Positions) -> None:
        op = given.pop("op", None)
        if not isinstance(op, str) or op not in m.MODELS:
            raise ProgramError(number, str(op), unknown_name("operation", str(op), m.MODELS))
        fields = validate(m.MODELS[op], given, positions, beside=("op",))
        try:
            self._one(number, op, fields)
        except (ConfigError, ProgramError):
            raise
        except InputError as error:
            raise ProgramError(number, op, str(error)) from None

    def _one(self, number: int, op: str, fields: Any) -> None:
        self._origin = (number, op)
        label = (("i", number),)
        if isinstance(fields, m.TLoad):
            self._load(fields, label)
        elif isinstance(fields, m.TExtract):
            self._extract(fields, label)
        elif isinstance(fields, m.TMatmul | m.TMatmulMx):
            self._matmul(op, fields, label)
        elif isinstance(fields, m.TStore):
            self._store(fields, label)
        elif isinstance(fields, m.Flag):
            self._flag(op, fields, label)
        else:
            assert isinstance(fields, m.Barrier)
            self._barrier(fields, label)

    def _emit(self, op: str, engine: str, params: Any, **rest: Any) -> None:
        self.instructions.append(Instruction(len(self.instructions), op, engine, params, origin=self._origin, **rest))

    def _load(self, fields: m.TLoad, label: Any) -> None:
        source, rect = find(fields.src, self.places, "src", "gm")
        target, _ = find(fields.dst, self.places, "dst", "l1")
        self._alike(source, rect, target)
        assert target.tile is not None
        if target.model.kind == "scale":
            pieces, piece = 1, target.tile.size
        else:
            pieces, piece = sizes.row_bytes_in_gm(source.tensor, rect[2], rect[3], target.kind.bits)
        size = pieces * piece
        self._emit(
            "tload", "MTE2", Load(size, pieces, piece, size),
            reads=(window(source, rect),), writes=(target.tile,), label=label,
        )  # fmt: skip

    def _alike(self, source: Place, rect: tuple[int, int, int, int], target: Place) -> None:
        if (rect[2], rect[3]) != target.model.shape:
            shape = list(target.model.shape)
            raise InputError(f"dst: expected the shape of the source [{rect[2]}, {rect[3]}], not {target.name} {shape}")
        for name in ("dtype", "kind"):
            here, there = getattr(source.model, name), getattr(target.model, name)
            if here != there:
                raise InputError(f"dst: expected {name} {here} as in {source.name}, not {there} in {target.name}")

    def _extract(self, fields: m.TExtract, label: Any) -> None:
        source, rect = find(fields.src, self.places, "src", "l1")
        target, _ = find(fields.dst, self.places, "dst", "l0a", "l0b", "l0a_mx", "l0b_mx")
        self._alike(source, rect, target)
        assert target.tile is not None
        self._emit(
            "textract", "MTE1", Extract(target.tile.size, target.model.space),
            reads=(part(source, rect, "src"),), writes=(target.tile,), label=label,
        )  # fmt: skip

    def _matmul(self, op: str, fields: m.TMatmul | m.TMatmulMx, label: Any) -> None:
        a, _ = find(fields.a, self.places, "a", "l0a")
        b, _ = find(fields.b, self.places, "b", "l0b")
        sums, _ = find(fields.dst, self.places, "dst", "l0c")
        if a.cols != b.rows:
            raise InputError(f"invalid matrix product: a contracts {a.cols}, b {b.rows}; both must be the same")
        if sums.model.shape != (a.rows, b.cols):
            raise InputError(f"dst: expected [{a.rows}, {b.cols}], not {sums.name} {list(sums.model.shape)}")
        self._pair(op, a.model.dtype, b.model.dtype)
        wanted = "int32" if nm.DTYPES[a.model.dtype].is_integer else "fp32"
        if sums.model.dtype != wanted:
            raise InputError(f"dst: expected {wanted} sums, not {sums.model.dtype}")
        reads: list[Operand] = []
        for name, operand in (("a", a), ("b", b)):
            assert operand.tile is not None
            reads.append(whole(operand.tile))
            scale = getattr(fields, f"{name}_scale", None)
            if (op == "tmatmul_mx" and nm.DTYPES[operand.model.dtype].block is not None) != (scale is not None):
                wanted = "a scale tensor" if scale is None else "none"
                raise InputError(f"{name}_scale: expected {wanted} for an operand of {operand.model.dtype}")
            if scale is not None:
                reads.append(self._scale(name, scale, operand))
        assert sums.tile is not None
        pair = (a.model.dtype, b.model.dtype)
        order = Order(self.accumulate.order, constant_scale_run(*pair), self.accumulate.scale_on)
        params = Matmul(a.rows, a.cols, b.cols, *pair, fields.accumulate)
        self._emit(op, "M", params, reads=tuple(reads), writes=(sums.tile,), values=order, label=label)

    def _pair(self, op: str, a: str, b: str) -> None:
        pairs = self.arch.spec.operand_pairs
        legal = pairs.mx if op == "tmatmul_mx" else pairs.plain
        if (a, b) not in legal:
            known = ", ".join(f"{x} x {y}" for x, y in legal)
            raise InputError(f"{self.arch.name} has no {op} of {a} x {b}; legal pairs: {known}")

    def _scale(self, name: str, given: str, operand: Place) -> Operand:
        place, rect = find(given, self.places, f"{name}_scale", f"l0{name}_mx")
        rows, k = operand.model.shape if name == "a" else operand.model.shape[::-1]
        if place.model.shape != (rows, k):
            raise InputError(f"{name}_scale: expected [{rows}, {k}], not {place.name} {list(place.model.shape)}")
        return part(place, rect, f"{name}_scale")

    def _store(self, fields: m.TStore, label: Any) -> None:
        source, rect = find(fields.src, self.places, "src", "l0c")
        target, out = find(fields.dst, self.places, "dst", "gm")
        if rect[2:] != out[2:]:
            raise InputError(f"dst: expected the shape of the source [{rect[2]}, {rect[3]}], not [{out[2]}, {out[3]}]")
        element = target.kind.bits // 8
        stride = target.cols * element
        params = Store(rect[2], rect[3], element, stride, (out[0] * stride + out[1] * element) % GM_LINE_BYTES)
        cast = Cast(target.model.dtype, fields.relu, fields.saturate, fields.scale, fields.offset)
        self._emit(
            "tstore", "FIX", params,
            reads=(part(source, rect, "src"),), writes=(window(target, out),), values=cast, label=label,
        )  # fmt: skip

    def _flag(self, op: str, fields: m.Flag, label: Any) -> None:
        name = f"{fields.src}>{fields.dst}:{fields.id}"
        if op == "set_flag":
            self._emit(op, fields.src, Sync(f"{op} {name}"), sets=(Signal(name),), label=label)
        else:
            self._emit(op, fields.dst, Sync(f"{op} {name}"), waits=(Wait(name),), label=label)

    def _barrier(self, fields: m.Barrier, label: Any) -> None:
        """A pipe ends one instruction before it begins the next, so only a barrier of all pipes orders anything."""
        if fields.pipe != "all":
            self._emit("pipe_barrier", fields.pipe, Sync(f"pipe_barrier {fields.pipe}"), label=label)
            return
        name = f"barrier {self.barriers}"
        self.barriers += 1
        for pipe in PIPES:
            self._emit("pipe_barrier", pipe, Sync("pipe_barrier all"), sets=(Signal(name),), label=label)
        for pipe in PIPES:
            self._emit("pipe_barrier", pipe, Sync("pipe_barrier all"), waits=(Wait(name, len(PIPES)),), label=label)
