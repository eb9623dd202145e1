"""A machine at work: elaborates an arch and a program into engines, buffers and links, and runs them to the end."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any, NamedTuple

from hwmodel.arch import Arch, BufferSpec, LinkSpec, Unit
from hwmodel.errors import DeadlockError, InputError
from hwmodel.program.instructions import Instruction, Sync
from hwmodel.program.memory import Part, Tile, Window
from hwmodel.program.program import CoreProgram, Program
from hwmodel.sim import InOrderEngine, Kernel, Link, Overlap, OverlappedEngine, UsersLink
from hwmodel.sim.engine import Cost
from hwmodel.trace import Row, Trace
from hwmodel.units import STORAGES, UNITS, Memory
from hwmodel.units.decoded import Decoded
from hwmodel.units.storage import Array, Storage


class Executor:
    """Answers what an engine asks about its unit. Costs are remembered by parameters."""

    def __init__(
        self,
        unit: Unit,
        links: dict[str, UsersLink],
        banked: dict[str, BufferSpec],
        storage: Memory | None,
        engine: str,
    ) -> None:
        self.unit = unit
        pace = unit.kind.pace
        self.throttle = None if pace is None else pace(unit.spec, unit.ticks_per_cycle, engine)
        self._overlaps: dict[NamedTuple, Overlap] = {}
        self.links = links
        self.banked = {space: buffer for space, buffer in banked.items() if space in unit.kind.spaces}
        shared = [space for space, buffer in self.banked.items() if engine in buffer.one_at_a_time]
        self.ports: dict[str, tuple[Hashable, ...]] = {space: (f"{space}:port",) for space in shared}
        self.storage = storage
        self._costs: dict[NamedTuple, Cost] = {}
        self._banks: dict[int, tuple[Tile | Part, tuple[Hashable, ...]]] = {}
        """Banks by the identity of an operand, which programs share."""
        self.banks: Callable[[Instruction], tuple[Hashable, ...]] | None = self._banks_of if self.banked else None
        self.capture: Callable[[Instruction], Any] | None = None if storage is None else self._capture
        self.commit: Callable[[Instruction, Any], None] | None = None if storage is None else self._commit

    def cost(self, params: NamedTuple) -> Cost:
        """Ticks of the instruction alone, and what it moves over shared links."""
        found = self._costs.get(params)
        if found is None:
            found = self._costs[params] = self._cost(params)
        return found

    def _cost(self, params: NamedTuple) -> Cost:
        if isinstance(params, Sync):
            return Cost(0)
        unit = self.unit
        ticks = unit.kind.cycles(unit.spec, params) * unit.ticks_per_cycle
        flows = tuple((self.links[move.link], move.size) for move in unit.kind.traffic(unit.spec, params))
        return Cost(ticks, flows)

    def overlap(self, params: NamedTuple) -> Overlap:
        """Times of an instruction of an engine whose instructions overlap."""
        found = self._overlaps.get(params)
        if found is None:
            found = Overlap(0, 0, 0, 0)
            if not isinstance(params, Sync):
                assert self.unit.kind.timing is not None
                ticks = self.unit.ticks_per_cycle
                found = Overlap(*(cycles * ticks for cycles in self.unit.kind.timing(self.unit.spec, params)))
            self._overlaps[params] = found
        return found

    def _banks_of(self, instruction: Instruction) -> tuple[Hashable, ...]:
        banks: tuple[Hashable, ...] = ()
        for operands in (instruction.writes, instruction.reads):
            for operand in operands:
                if isinstance(operand, Window):
                    continue
                space = operand.tile.space if isinstance(operand, Part) else operand.space
                if space in self.banked:
                    known, found = self._banks.get(id(operand), (None, ()))
                    if known is not operand:
                        found = banks_of(operand, self.banked[space]) + self.ports.get(space, ())
                        self._banks[id(operand)] = (operand, found)
                    banks = found if not banks or banks == found else tuple(dict.fromkeys(banks + found))
        return banks

    def _capture(self, instruction: Instruction) -> Any:
        if isinstance(instruction.params, Sync):
            return None
        assert self.storage is not None
        return self.unit.kind.capture(instruction, self.storage)

    def _commit(self, instruction: Instruction, payload: Any) -> None:
        if isinstance(instruction.params, Sync):
            return
        assert self.storage is not None
        self.unit.kind.commit(instruction, self.storage, payload)


def banks_of(operand: Tile | Part, buffer: BufferSpec) -> tuple[Hashable, ...]:
    """Banks that an operand holds: the one of its tile, or the equal parts of the buffer that its bytes lie in."""
    tile = operand.tile if isinstance(operand, Part) else operand
    if buffer.banks == "per_tile":
        return (f"{tile.space}:{tile.offset}",)
    assert isinstance(buffer.banks, int)
    size = buffer.partition_bytes // buffer.banks
    last = min(buffer.banks - 1, (operand.offset + operand.size - 1) // size)
    return tuple(f"{tile.space}:{bank}" for bank in range(operand.offset // size, last + 1))


def _read_only_where_nobody_writes(program: Program, gm: dict[str, Array]) -> dict[str, Array]:
    """The tensors in global memory: those that no instruction writes as read-only views, which need no copies."""
    views = dict(gm)
    for name in gm.keys() - program.written:
        views[name] = gm[name].view()
        views[name].flags.writeable = False
    return views


class Machine:
    """An arch and a program, wired and ready: call `run` once."""

    def __init__(
        self,
        arch: Arch,
        program: Program,
        gm: dict[str, Array] | None = None,
        *,
        as_bytes: bool = False,
    ) -> None:
        """``gm`` holds the tensors' arrays; None runs without values. ``as_bytes`` renders every tile at once."""
        self.arch = arch
        self.program = program
        self.kernel = Kernel()
        self.units = arch.units
        self.ticks_per_cycle = arch.ticks_per_cycle
        self.links = {name: self._link(name, link) for name, link in arch.spec.links.items()}
        self.rows: list[Row] = []
        self.engines: list[dict[str, InOrderEngine]] = []
        self.storages: list[Memory | None] = []
        stages = {op: stage for kind in UNITS.values() for op, stage in kind.operations.items()}
        self._engine_stages = {name: min(unit.kind.operations.values()) for name, unit in self.units.items()}
        self._stages = stages
        self._gm = None if gm is None else _read_only_where_nobody_writes(program, gm)
        self._decoded = Decoded()
        self._as_bytes = as_bytes
        banked = {name: buffer for name, buffer in arch.spec.buffers.items() if buffer.banks != "none"}
        for core in program.cores:
            storage = None if gm is None else self._storage(core.origins)
            if storage is not None and gm is not None:
                for name, tile in program.initial:
                    storage.write(tile, gm[name])
            self.storages.append(storage)
            self._add_core(core, banked, storage)

    def _link(self, name: str, link: LinkSpec) -> Link:
        return Link(self.kernel, name, link.bytes_per_cycle / self.ticks_per_cycle, self.arch.core_link_rates[name])

    def _stage(self, instruction: Instruction) -> int:
        found = self._stages.get(instruction.op)
        return self._engine_stages.get(instruction.engine, 0) if found is None else found

    def _add_core(self, core: CoreProgram, banked: dict[str, BufferSpec], storage: Memory | None) -> None:
        streams: dict[str, list[Instruction]] = {engine: [] for engine in self.units}
        for instruction in core.instructions:
            streams[instruction.engine].append(instruction)
        engines: dict[str, InOrderEngine] = {}
        servers: dict[str, Link] = {}
        links = {name: link.on_behalf_of(core.stands_for) for name, link in self.links.items()}
        launch = self.arch.spec.launch_cycles * self.ticks_per_cycle
        for engine, unit in self.units.items():
            row = Row(core.core, engine, unit.name, tuple(streams[engine]), unit.kind.timing is not None)
            self.rows.append(row)
            executor = Executor(unit, links, banked, storage, engine)
            if row.parallel:
                server = servers.setdefault(unit.name, Link(self.kernel, unit.name, Fraction(1), Fraction(1)))
                engines[engine] = OverlappedEngine(self.kernel, row, executor, self._stage, engines, launch, server)
            else:
                engines[engine] = InOrderEngine(self.kernel, row, executor, self._stage, engines, launch)
        self.engines.append(engines)

    def run(self) -> Trace:
        """Simulate until every instruction has run.

        Raises:
            DeadlockError: nothing can happen any more and instructions are left; says who waits for whom.
            InputError: rates and latencies so extreme that time does not fit the 64 bits a trace has for it.
        """
        try:
            self.kernel.env.run()
        except OverflowError:
            most = f"{(1 << 63) // self.ticks_per_cycle:.1e} cycles"
            problem = f"expected rates and latencies that end within {most}, but {self.arch.name} takes longer"
            raise InputError(f"arch: {problem}") from None
        everyone = [engine for engines in self.engines for engine in engines.values()]
        stuck = [engine.describe() for engine in everyone if engine.process.is_alive]
        if stuck:
            raise DeadlockError(int(self.kernel.env.now) // self.ticks_per_cycle, tuple(stuck))
        end = max((max(row.ends) if row.parallel else row.ends[-1] for row in self.rows if row.ends), default=0)
        launch = self.arch.spec.launch_cycles * self.ticks_per_cycle
        folded = tuple(core.stands_for for core in self.program.cores)
        return Trace(self.rows, end, launch, self.ticks_per_cycle, folded)

    def replay_folded(self) -> None:
        """Compute the values of folded cores, in program order and without time, once the others have run.

        The core that stands for them went through the same instructions with the same flags, so what their order
        could do to values has been seen there.
        """
        if self._gm is None:
            return
        for core in self.program.cores:
            for origins in core.folded:
                storage = self._storage(origins)
                for instruction in core.instructions:
                    if isinstance(instruction.params, Sync):
                        continue
                    kind = self.units[instruction.engine].kind
                    kind.commit(instruction, storage, kind.capture(instruction, storage))

    def _storage(self, origins: dict[str, tuple[int, int]]) -> Memory:
        assert self._gm is not None
        capacities = {name: buffer.partition_bytes for name, buffer in self.arch.spec.buffers.items()}
        kind = STORAGES[self.arch.spec.family]
        storage = kind(capacities, self._gm, self.program.tensors, origins, as_bytes=self._as_bytes)
        if isinstance(storage, Storage):
            storage.decoded = self._decoded
        return storage
