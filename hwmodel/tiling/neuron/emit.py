"""Instructions of a GEMM loop, put together with the flags that order them.

A place in a buffer (`Slot`) is filled, used, and filled again. Who fills it waits until its last user is done, and the
first user waits until it is full. The last user is known only when the next filling comes, so its flag is added then:
no flag is left set at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hwmodel.neuron_mx import BLOCK_ROWS
from hwmodel.problem import Accumulate, order_of
from hwmodel.program.instructions import Cast, Instruction, Matmul, Order, Signal, Wait
from hwmodel.program.memory import Operand, Part, Tile, Window, whole
from hwmodel.program.neuron import Access, Evacuate, Transfer, Weights, Work
from hwmodel.quantities import ceil_div
from hwmodel.tiling.neuron.geometry import PARTITIONS, SUM_BYTES, TILE_M, Geometry, Span
from hwmodel.units.neuron.evacuate_values import MoveValues
from hwmodel.units.neuron.matmul import MatmultValues, WeightsValues

LHS_QUEUE, RHS_QUEUE, OUT_QUEUE = "DMA0", "DMA1", "DMA2"
ENGINES = {"vector": "DVE", "scalar": "ACT"}
COPIES = 2
"""Copies of the weights in the array: one is loaded while the other is used."""
BANK_BYTES = 2048


@dataclass(slots=True)
class Slot:
    """A place that is filled and used in turns. ``offset`` is its first byte in each partition."""

    name: str
    offset: int
    filled: bool = False
    """Filled, and nobody has waited for it yet."""
    last_user: int = -1
    """Instruction that used it last."""


class Emitter:
    """Collects the instructions of one core."""

    def __init__(self, geometry: Geometry, accumulate: Accumulate, arch_banks: int, matmuls: int) -> None:
        self.geometry = geometry
        problem = geometry.problem
        self.instructions: list[Instruction] = []
        self.order: Order = order_of(problem, accumulate)
        self.cast = Cast(problem.out)
        self.matmuls = matmuls
        self.multiplied = 0
        self.banks = [Slot(f"psum{bank}", bank * BANK_BYTES) for bank in range(arch_banks)]
        self.copies = [Slot(f"weights{copy}", copy * TILE_M * SUM_BYTES) for copy in range(COPIES)]
        self._tile = lru_cache(None)(self._make_tile)
        self._params = lru_cache(None)(Matmul)
        self._work = lru_cache(None)(Evacuate)
        self._flags = lru_cache(None)(lambda name: ((Wait(name),), (Signal(name),)))
        self._multiply_values = (
            MatmultValues(order=self.order, start=True, scaled=geometry.scaled),
            MatmultValues(order=self.order, start=False, scaled=geometry.scaled),
        )

    # -- flags -------------------------------------------------------------------------------------------------------

    def _add_set(self, index: int, name: str) -> None:
        instruction = self.instructions[index]
        self.instructions[index] = instruction._replace(sets=instruction.sets + self._flags(name)[1])

    def fill(self, slot: Slot) -> tuple[Wait, ...]:
        """Waits of the instruction that fills a slot: until the last user is done."""
        slot.filled = True
        if slot.last_user < 0:
            return ()
        name = f"free {slot.name}"
        self._add_set(slot.last_user, name)
        slot.last_user = -1
        return self._flags(name)[0]

    def full(self, slot: Slot) -> tuple[Signal, ...]:
        """What the filling instruction sets."""
        return self._flags(f"full {slot.name}")[1]

    def use(self, slot: Slot) -> tuple[Wait, ...]:
        """Waits of an instruction (the next one) that uses a slot: until it is full, the first time."""
        slot.last_user = len(self.instructions)
        if not slot.filled:
            return ()
        slot.filled = False
        return self._flags(f"full {slot.name}")[0]

    def emit(self, op: str, engine: str, params: Any, reads: tuple[Operand, ...], write: Operand, **rest: Any) -> None:
        """Append one instruction."""
        self.instructions.append(Instruction(len(self.instructions), op, engine, params, reads, (write,), **rest))

    # -- tiles -------------------------------------------------------------------------------------------------------

    def _make_tile(self, space: str, offset: int, rows: int, cols: int, dtype: str, size: int) -> Part:
        kind = "acc" if space == "psum" else "data"
        return whole(Tile(space, offset, cols * size, dtype, rows, cols, "ND", kind, (rows, cols)))

    def sbuf(self, offset: int, rows: int, cols: int, dtype: str, size: int) -> Part:
        """A tile in SBUF, as an operand."""
        return self._tile("sbuf", offset, rows, cols, dtype, size)

    def bank(self, slot: Slot, m: int, n: int) -> Part:
        """Sums [m, n] in a PSUM bank."""
        return self._tile("psum", slot.offset, m, n, "float32", SUM_BYTES)

    # -- transfers ---------------------------------------------------------------------------------------------------

    def load(self, name: str, slot: Slot, k: Span, col: int, cols: int, label: Any) -> Part:
        """Load rows of K and some columns of an operand, with its scales; returns the data in SBUF."""
        geometry = self.geometry
        dtype = geometry.lhs if name == "a" else geometry.rhs
        queue = LHS_QUEUE if name == "a" else RHS_QUEUE
        partitions, row = geometry.partitions(k), geometry.row(k)
        data = self.sbuf(slot.offset, partitions, cols, dtype.name, dtype.bytes)
        waits, sets = self.fill(slot), self.full(slot)
        window = Window(name, row, col, partitions, cols)
        row_bytes = cols * dtype.bytes
        params = Transfer(partitions, row_bytes, partitions * row_bytes, 0)
        if not geometry.scaled:
            self.emit("load", queue, params, (window,), data.tile, waits=waits, sets=sets, label=label)
            return data
        scales = self.scales_of(data)
        self.emit("load", queue, params, (window,), data.tile, waits=waits, label=label)
        used = ceil_div(partitions, BLOCK_ROWS)
        params = Transfer(used, cols, used * cols, 0)
        window = window._replace(tensor=f"{name}_scale")
        self.emit("load", queue, params, (window,), scales.tile, sets=sets, label=label)
        return data

    def scales_of(self, data: Part) -> Part:
        """Where the scale slots of an MX tile lie: right behind its data."""
        return self.sbuf(data.offset + data.size, data.rows, data.cols, "uint8", 1)

    def store(self, slot: Slot, row: Span, col: int, cols: int, label: Any) -> None:
        """Store finished rows of the output."""
        out = self.geometry.out
        row_bytes = cols * out.bytes
        source = self.sbuf(slot.offset, row.size, cols, out.name, out.bytes)
        params = Transfer(row.size, row_bytes, 0, row.size * row_bytes)
        waits = self.use(slot)
        target = Window("out", row.start, col, row.size, cols)
        self.emit("store", OUT_QUEUE, params, (source,), target, waits=waits, label=label)

    # -- products ----------------------------------------------------------------------------------------------------

    def multiply(
        self, lhs: Part, lhs_slot: Slot, rhs: Part, rhs_slot: Slot, bank: Slot, k: int, *, start: bool, label: Any
    ) -> None:
        """Load weights, then multiply into a bank; ``start`` clears it first."""
        geometry, problem = self.geometry, self.geometry.problem
        copy = self.copies[self.multiplied % COPIES]
        m, n = lhs.cols, rhs.cols
        weights = self._tile("weights", copy.offset, lhs.rows, m, geometry.lhs.name, geometry.lhs.bytes)
        reads: tuple[Operand, ...] = (lhs, self._scales_part(lhs)) if geometry.scaled else (lhs,)
        waits = self.use(lhs_slot)
        if self.multiplied >= COPIES:
            waits += self._flags(f"free {copy.name}")[0]
        ready = self._flags(f"full {copy.name}")
        self.emit(
            "load_weights", "PEW", Weights(lhs.rows, m, problem.a), reads, weights.tile,
            waits=waits, sets=ready[1], label=label, values=WeightsValues(scales=geometry.scaled),
        )  # fmt: skip
        waits = ready[0] + self.use(rhs_slot)
        if start:
            waits += self.fill(bank)
        values = self._multiply_values[not start]
        if start:
            values = values._replace(clear=(bank.offset, BANK_BYTES), partitions=(0, m))
        frees = self._flags(f"free {copy.name}")[1] if self.multiplied + COPIES < self.matmuls else ()
        reads = (weights, rhs, self._scales_part(rhs)) if geometry.scaled else (weights, rhs)
        op = "matmult_mx" if geometry.scaled else "matmult"
        self.emit(
            op, "PE", self._params(m, k, n, problem.a, problem.b, not start), reads, self.bank(bank, m, n).tile,
            waits=waits, label=label, values=values, frees=frees,
        )  # fmt: skip
        self.multiplied += 1

    def _scales_part(self, data: Part) -> Part:
        tile = data.tile
        scales = self.sbuf(tile.offset + tile.size, tile.rows, tile.cols, "uint8", 1)
        if data.cols == tile.cols:
            return scales
        return columns(scales, data.col, data.cols, 1)

    def finish(self, bank: Slot) -> None:
        """The last matmul into a bank was emitted: it sets the bank's flag."""
        self._add_set(len(self.instructions) - 1, f"full {bank.name}")

    # -- evacuation --------------------------------------------------------------------------------------------------

    def evacuate(
        self, bank: Slot, m: int, n: int, target: Part, *, engine: str, add: Part | None = None, cast: bool = True,
        waits: tuple[Wait, ...] = (), sets: tuple[Signal, ...] = (), label: Any = (),
    ) -> None:  # fmt: skip
        """Copy a bank to SBUF, or add it to what lies there; with the cast to the output's dtype or as fp32."""
        reads: tuple[Operand, ...] = (self.bank(bank, m, n),)
        if add is not None:
            reads = (add, *reads)
        waits = self.use(bank) + waits
        what: Work = "copy" if add is None else "add"
        inputs = tuple(Access(part.tile.space, part.tile.dtype) for part in reads if isinstance(part, Part))
        params = self._work(what, n, inputs, Access(target.tile.space, target.tile.dtype))
        values = MoveValues(self.cast if cast else None)
        self.emit(
            what, ENGINES[engine], params, reads, target.tile,
            waits=waits, sets=sets, values=values, label=label,
        )  # fmt: skip


def columns(part: Part, col: int, cols: int, size: int) -> Part:
    """Columns [col, col + cols) of a whole tile whose elements have ``size`` bytes."""
    return Part(part.tile, 0, col, part.rows, cols, part.offset + col * size, cols * size)


__all__ = ["BANK_BYTES", "PARTITIONS", "Emitter", "Slot", "columns"]
