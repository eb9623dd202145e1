"""Goes through a Neuron program in order: builds each instruction, decides its flags, and refuses what is wrong.

Kept on the way: which bytes were written (the NaN guard), which accumulation groups are open, and whether the
accumulator was read out. Every refusal names the instruction by its number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hwmodel.arch import Arch
from hwmodel.config.positions import Positions
from hwmodel.config.validate import validate
from hwmodel.errors import ConfigError, InputError, ProgramError
from hwmodel.listing.neuron import model as m
from hwmodel.listing.neuron import rules
from hwmodel.listing.neuron.build import build
from hwmodel.listing.neuron.groups import Groups
from hwmodel.listing.neuron.isa import Operation, operation
from hwmodel.listing.neuron.lower import own_signals
from hwmodel.listing.neuron.places import BANK_BYTES, Region, place_all, whole_of
from hwmodel.listing.neuron.steps import Accumulate, Multiply, Quantise, ReadOut, Step
from hwmodel.numerics import scale_slots
from hwmodel.units.neuron.operands import BLOCK_ROWS

PARTITIONS = 128
OPCODE_FIELDS = ("op", "opcode")


class Walk:
    """A program that was read, with everything settled: ``places`` and ``steps``."""

    def __init__(self, program: m.ProgramModel, arch: Arch, positions: Positions) -> None:
        self.program = program
        self.arch = arch
        self.strict = program.legality == "arch"
        self.places = place_all(program.tensors, arch)
        self.positions = positions
        self.steps: list[Step] = []
        self._written = {name: np.zeros((PARTITIONS, self._used(name)), np.bool_) for name in ("sbuf", "psum")}
        for place in self.places.values():
            if place.space == "dram":
                self._written[f"dram.{place.name}"] = np.zeros((place.rows, place.cols * place.dtype.bytes), np.bool_)
            if place.model.init is not None:
                self._mark(whole_of(place))
        self._groups = Groups()
        self._by_engine = np.zeros_like(self._written["psum"])
        """Bytes of PSUM that an engine wrote last, not a matmul."""
        self._own_signals = own_signals(arch)
        self._fresh = set(range(PARTITIONS))
        self._accumulated: set[int] = set()
        for number, given in enumerate(program.instructions):
            self._step(number, dict(given))
        self._ends()
        for place in self.places.values():  # those that no instruction uses
            try:
                self._inside(whole_of(place))
            except InputError as error:
                raise InputError(f"tensors.{place.name}: {error}") from None

    def _used(self, space: str) -> int:
        """Bytes of each partition that tensors reach, of those that are there: a buffer may be of any size."""
        ends = (place.offset + place.tile.size for place in self.places.values() if place.space == space)
        return min(max((0, *ends)), self.arch.buffer_bytes(space))

    # -- one instruction ---------------------------------------------------------------------------------------------

    def _step(self, number: int, given: dict[str, Any]) -> None:
        path = ("instructions", number)
        named = [given.pop(field) for field in OPCODE_FIELDS if field in given]
        if len(named) != 1:
            wrong = "not both op and opcode" if named else "but it is missing"
            raise self.positions.error(path, f"expected op, a name or an opcode number, {wrong}")
        try:
            found: Operation = operation(named[0])
        except InputError as error:
            raise ProgramError(number, str(named[0]), str(error)) from None
        fields = validate(m.MODELS[found.name], given, self.positions.below(path), beside=("op",))
        try:
            self._one(number, found, fields)
        except (ConfigError, ProgramError):
            raise
        except InputError as error:
            raise ProgramError(number, found.name, str(error)) from None

    def _one(self, number: int, found: Operation, fields: m.InstructionModel) -> None:
        if not isinstance(fields, m.MatmulModel) and (fields.start or fields.accumulate):
            raise InputError(
                "only the matmul family (opcodes 7, 8, 9, 95) may reset PSUM or add to it (isa<InstMatmultBase>); "
                "any other instruction replaces what it writes"
            )
        action = build(found.name, fields, self.places, self.program.preset, self._fresh)
        rules.check_engine(action, self.arch)
        if self.strict:
            rules.check(action, self.arch)
        for region in _regions(action):
            self._inside(region)
        if isinstance(action, Multiply):
            assert isinstance(fields, m.MatmulModel)
            action = self._psum(number, action, fields)
            for region in (*action.operands, action.dst):
                if region.space == "dram":
                    raise InputError(f"{region}: the PE array does not reach DRAM; load and store move to and from it")
        elif self.strict:
            for region in Step(number, "", action).reads:
                self._groups.check_read(region)
            for region in Step(number, "", action).writes:
                self._groups.check_write(region)
        waits = tuple((wait.semaphore, wait.at_least) for wait in fields.waits)
        sets = tuple((each.semaphore, each.amount) for each in fields.sets)
        for name, _ in (*waits, *sets):
            if name in self._own_signals:
                raise InputError(f"semaphore {name!r} is one that the machine sets itself: expected another name")
        step = Step(number, found.name, action, waits, sets)
        for region in step.reads:
            self._was_written(region, action)
        self._after(step)
        self.steps.append(step)

    def _inside(self, region: Region) -> None:
        """What an instruction touches must be there: PSUM has eight banks."""
        if region.space != "psum":
            return
        there = self.arch.buffer_bytes("psum")
        if region.offset < 0 or region.offset + region.size > there:
            last = (region.offset if region.offset < 0 else region.offset + region.size - 1) // BANK_BYTES
            raise InputError(
                f"{region} reaches bank {last}: PSUM has banks 0 to {there // BANK_BYTES - 1} of {BANK_BYTES} bytes"
            )

    def _ends(self) -> None:
        """No group may wait for more when the program is over."""
        group = self._groups.left_open()
        if self.strict and group is not None:
            raise ProgramError(
                group.last,
                self.steps[group.last].op,
                f"the group that instruction {group.started} started in bank {group.bank} lacks its stop when the "
                "program ends: its last matmul says stop: true",
            )

    # -- PSUM --------------------------------------------------------------------------------------------------------

    def _psum(self, number: int, action: Multiply, fields: m.MatmulModel) -> Multiply:
        """Decide what the flags do, and check it."""
        forced = self.program.attributes.has_psum_accumulate_flag
        start = fields.start if forced is None else not forced
        dst = action.dst
        if start:
            self._may_start(dst)
            if fields.clear_banks_log2 and "psum_multibank" not in self.arch.spec.features:
                raise InputError(
                    f"{self.arch.name} do not support psum multibank: clear_banks_log2 must be 0 (one bank), "
                    f"not {fields.clear_banks_log2}"
                )
            action = self._cleared(action, fields)
            assert action.clear is not None
            self._groups.cleared(action.clear, action.partitions, strict=self.strict and forced is None)
        elif self.strict and forced is None and not self._all_written(dst):
            raise InputError(
                f"adds to {dst}, to which no start wrote: the first matmul of a group needs start: true"
                " (start clears the bank, accumulate adds to it)"
            )
        if not start:
            self._may_add(dst)
            there = self._bytes(dst) if dst.space == "psum" else np.zeros(1, np.bool_)
            action = action._replace(adds=bool(there.all()))
            if action.transpose and there.any():
                raise InputError(
                    f"adds to {dst}, where somebody wrote: a transpose moves data and adds nothing (start: true)"
                )
        self._groups.multiplied(number, dst, fields.stop)
        return action

    def _may_start(self, dst: Region) -> None:
        if dst.space != "psum":
            asserted = {"sbuf": "!curMemLoc.isSB()", "dram": "!curMemLoc.isDRAM()"}[dst.space]
            raise InputError(f"dst: a start must target PSUM ({asserted}), not {dst}")

    def _may_add(self, dst: Region) -> None:
        """A machine may have no sum with what an engine left in PSUM."""
        if not self.strict or dst.space != "psum" or "psum_add_to_engine" in self.arch.spec.features:
            return
        if self._by_engine[_bytes_of(dst)].any():
            raise InputError(
                f"adds to {dst}, which an engine wrote: what {self.arch.name} makes of that is undefined; "
                "start: true clears it, or add the two in SBUF"
            )

    def _cleared(self, action: Multiply, fields: m.MatmulModel) -> Multiply:
        dst = action.dst
        first = dst.offset // BANK_BYTES * BANK_BYTES
        length = BANK_BYTES << fields.clear_banks_log2
        there = self.arch.buffer_bytes("psum")
        partition = fields.base_partition or dst.partition
        if first + length > there or partition + dst.rows > PARTITIONS:
            raise InputError(
                f"clears bytes {first} to {first + length} of partitions {partition} to {partition + dst.rows - 1}: "
                f"start address {first}, length {length}, PSUM has {there} bytes in {PARTITIONS} partitions"
            )
        if self.strict and dst.offset + dst.size > first + length:
            raise InputError(
                f"dst: {dst} spans more than the {_banks(length)} that the start clears: "
                "clear_banks_log2 says how many (0, 1, 2, 3: 1, 2, 4, 8)"
            )
        return action._replace(clear=(first, length), partitions=(partition, dst.rows))

    # -- what was written --------------------------------------------------------------------------------------------

    def _bytes(self, region: Region) -> Any:
        if region.space == "dram":
            mask = self._written[f"dram.{region.place.name}"]
            size = region.dtype.bytes
            return mask[region.row : region.row + region.rows, region.col * size : (region.col + region.cols) * size]
        return self._written[region.space][_bytes_of(region)]

    def _mark(self, region: Region) -> None:
        self._bytes(region)[...] = True

    def _all_written(self, region: Region) -> bool:
        return bool(self._bytes(region).all())

    def _was_written(self, region: Region, action: Any) -> None:
        mask = self._bytes(region)
        if isinstance(action, Multiply) and region in (action.ifmap_scales, action.weights_scales):
            mask = mask[scale_slots(region.rows // BLOCK_ROWS)]
        if not mask.all():
            missing = int(mask.size - mask.sum())
            raise InputError(
                f"reads {region}, of which nobody wrote {missing} of {mask.size} bytes: an earlier instruction or the "
                "tensor's init must (NaN guard: canInstReadFromUninitMem)"
            )

    def _after(self, step: Step) -> None:
        action = step.action
        if isinstance(action, Multiply) and action.clear is not None:
            (first, length), (partition, count) = action.clear, action.partitions
            cleared = slice(partition, partition + count), slice(first, first + length)
            self._written["psum"][cleared] = True
            self._by_engine[cleared] = False
        if isinstance(action, Quantise):
            self._mark(action.data)
            self._bytes(action.scales)[scale_slots(action.scales.rows // BLOCK_ROWS)] = True
            return
        if isinstance(action, Accumulate):
            mine = set(range(action.partitions[0], sum(action.partitions)))
            self._fresh -= mine
            self._accumulated |= mine
        if isinstance(action, ReadOut):
            mine = set(range(action.dst.partition, action.dst.partition + action.dst.rows))
            if mine - self._accumulated:
                raise InputError(
                    f"reads the accumulator of partition {min(mine - self._accumulated)}, which nobody wrote "
                    "(NaN guard: canInstReadFromUninitMem)"
                )
            self._fresh |= mine
        for region in step.writes:
            self._mark(region)
            if region.space == "psum":
                self._by_engine[_bytes_of(region)] = not isinstance(action, Multiply)


def _bytes_of(region: Region) -> tuple[slice, slice]:
    """Its partitions and bytes on chip."""
    rows = slice(region.partition, region.partition + region.rows)
    return rows, slice(region.offset, region.offset + region.size)


def _banks(length: int) -> str:
    return "bank" if length == BANK_BYTES else f"{length // BANK_BYTES} banks"


def _regions(action: Any) -> tuple[Region, ...]:
    step = Step(0, "", action)
    return (*step.reads, *step.writes)
