"""What tests share: machines with round numbers, scenarios from keywords, programs put together by hand, timelines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hwmodel import numerics as nm
from hwmodel.arch import Arch
from hwmodel.config.arch import load_arch
from hwmodel.config.overrides import parse_overrides
from hwmodel.experiment import Prepared, limits_of, prepare, run
from hwmodel.machine import Machine
from hwmodel.program import CoreProgram, Instruction, Program, Signal, Tensor, Wait
from hwmodel.program.hazards import BufferLimits, Hazard, find_hazards
from hwmodel.program.instructions import Sync
from hwmodel.program.memory import Operand
from hwmodel.result import Result
from hwmodel.scenario import Scenario, loads
from hwmodel.trace import Trace

ROUND = {
    "arch.links.hbm.bytes_per_cycle": 640,
    "arch.links.hbm.core_bytes_per_cycle": 64,
    "arch.units.tload.startup_cycles": 100,
    "arch.units.tload.bytes_per_cycle": 64,
    "arch.units.textract.startup_cycles": 10,
    "arch.units.textract.bytes_per_cycle": {"l0a": 256, "l0b": 128, "l0a_mx": 64, "l0b_mx": 32},
    "arch.units.cube.startup_cycles": 5,
    "arch.units.fixpipe.startup_cycles": 50,
    "arch.units.fixpipe.bytes_per_cycle": 64,
    "arch.units.fixpipe.row_floor_cycles": 4.5,
    "arch.units.fixpipe.granule_bytes": 128,
    "arch.units.fixpipe.partial_granule_factor": 2,
}
"""Rates of `machine`: A6 with numbers that can be reckoned with on paper. The shipped ones may change, these do not."""


def machine(overrides: dict[str, Any] | None = None, name: str = "ascend_a6", *, shipped: bool = False) -> Arch:
    """An arch with the rates of ``ROUND`` (``shipped``: its own) and ``overrides`` of it (``units.cube...``)."""
    own = {f"arch.{path}": value for path, value in (overrides or {}).items()}
    return load_arch(name, overrides=parse_overrides({**({} if shipped else ROUND), **own}))


def scenario(
    m: int = 64,
    k: int = 64,
    n: int = 64,
    a: str = "hif4",
    b: str = "hif4",
    out: str = "bf16",
    *,
    tiling: dict[str, Any] | None = None,
    arch: str = "ascend_a6",
    base: Path = Path(),
    shipped: bool = False,
    **rest: Any,
) -> Scenario:
    """A matmul on the machine with round numbers (``shipped``, or another ``arch``: with its own).

    ``rest`` are further fields, or overrides (``arch__cores=2``).
    """
    overrides = {path.replace("__", "."): rest.pop(path) for path in list(rest) if "__" in path}
    uniform = {"kind": "uniform", "low": -1.0, "high": 1.0}
    data = {
        "name": "test",
        "arch": arch,
        "problem": {"op": "matmul", "m": m, "k": k, "n": n, "a": a, "b": b, "out": out, **rest.pop("problem", {})},
        "tiling": tiling or {"kind": "n_split"},
        "inputs": {"a": {**uniform, "seed": 1}, "b": {**uniform, "seed": 2}},
        **rest,
    }
    rates = ROUND if arch == "ascend_a6" and not shipped else {}
    return loads(json.dumps(data), base, overrides={**rates, **overrides})


def simulated(*extents: int, **fields: Any) -> Result:
    """The result of `scenario`, values checked."""
    return run(prepare(scenario(*extents, **fields)))


def prepared(*extents: int, **fields: Any) -> Prepared:
    """`scenario`, planned and lowered."""
    return prepare(scenario(*extents, **fields))


def hazards_of(ready: Prepared, program: Program | None = None) -> tuple[Hazard, ...]:
    """Hazards of a prepared scenario, or of another program on its machine."""
    units = ready.scenario.arch.units.items()
    overlapped = {engine for engine, unit in units if unit.kind.timing is not None}
    return find_hazards(program or program_of(ready), limits_of(ready.scenario), overlapped=overlapped)


def program_of(ready: Prepared) -> Program:
    """The program, which a matmul always has."""
    assert ready.program is not None
    return ready.program


def limits(arch: Arch) -> dict[str, BufferLimits]:
    """Capacity and allocation unit of each buffer."""
    return {name: BufferLimits(each.capacity_bytes, each.allocation_bytes) for name, each in arch.spec.buffers.items()}


@dataclass
class Script:
    """A program put together by hand: ``add`` numbers the instructions. Waits and sets are names separated by blanks.

    ``"done>=3"`` waits for a semaphore, ``"done+2"`` adds to one.
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)
    instructions: list[Instruction] = field(default_factory=list)

    def add(
        self,
        engine: str,
        params: Any,
        reads: Iterable[Operand] | Operand = (),
        writes: Iterable[Operand] | Operand = (),
        *,
        op: str = "",
        wait: str = "",
        sets: str = "",
        values: Any = None,
    ) -> Instruction:
        """Append one instruction."""
        names = {"MTE2": "tload", "MTE1": "textract", "M": "tmatmul_mx", "FIX": "tstore"}
        made = Instruction(
            len(self.instructions),
            op or ("set_flag" if isinstance(params, Sync) else names.get(engine, "op")),
            engine,
            params,
            _operands(reads),
            _operands(writes),
            waits(wait),
            signals(sets),
            values,
        )
        self.instructions.append(made)
        return made

    def tensor(self, name: str, dtype: str, rows: int, cols: int, **rest: str) -> Tensor:
        """Declare a tensor in GM."""
        self.tensors[name] = Tensor(name, dtype, rows, cols, **rest)
        return self.tensors[name]

    def program(self, cores: int = 1) -> Program:
        """The program, the same on every core."""
        instructions = tuple(self.instructions)
        return Program(self.tensors, tuple(CoreProgram(core, instructions) for core in range(cores)))


def _operands(given: Iterable[Operand] | Operand) -> tuple[Operand, ...]:
    """One operand or several: an operand is a tuple itself, of a class with fields."""
    return (given,) if hasattr(given, "_fields") else tuple(given)  # type: ignore[return-value, arg-type]


def waits(text: str) -> tuple[Wait, ...]:
    """Waits from names separated by blanks; ``name>=3`` waits for a semaphore."""
    parts = [name.partition(">=") for name in text.split()]
    return tuple(Wait(name, int(count or 0)) for name, _, count in parts)


def signals(text: str) -> tuple[Signal, ...]:
    """Signals from names separated by blanks; ``name+2`` adds 2 to a semaphore."""
    parts = [name.partition("+") for name in text.split()]
    return tuple(Signal(name, int(amount or 1)) for name, _, amount in parts)


def timeline(trace: Trace, unit: str | None = None) -> list[tuple[str, int, int]]:
    """(operation and tile, start, end) in the order of instruction numbers; of one unit, or of all."""
    rows = trace.rows if unit is None else trace.rows_of(unit)
    found = [
        (instruction.number, name_of(instruction), start, end)
        for row in rows
        for instruction, start, end in zip(row.instructions, row.starts, row.ends, strict=True)
    ]
    return [entry[1:] for entry in sorted(found)]


def name_of(instruction: Instruction) -> str:
    """``tload a``, ``textract l0b n1``, ``tmatmul_mx n1``, ``tstore n1``: operation, what it moves, tile."""
    parts = [instruction.op]
    if instruction.op == "tload":
        parts += [operand.tensor for operand in instruction.reads if hasattr(operand, "tensor")]
    if instruction.op == "textract":
        parts += [operand.space for operand in instruction.writes if hasattr(operand, "space")]
    return " ".join([*parts, *(f"{name}{index}" for name, index in instruction.label)])


def without(program: Program, number: int, wait: Wait) -> Program:
    """The program with one wait of one instruction left out, on every core that runs it."""
    return _changed(program, number, lambda i: i._replace(waits=tuple(w for w in i.waits if w != wait)))


def without_set(program: Program, number: int, signal: Signal) -> Program:
    """The program with one set of one instruction left out."""
    return _changed(program, number, lambda i: i._replace(sets=tuple(s for s in i.sets if s != signal)))


def _changed(program: Program, number: int, change: Any) -> Program:
    cores = []
    for core in program.cores:
        instructions = tuple(change(i) if i.number == number else i for i in core.instructions)
        cores.append(replace(core, instructions=instructions))
    return Program(program.tensors, tuple(cores))


def waits_of(program: Program) -> Iterator[tuple[int, Wait]]:
    """Every wait of the first core's instructions."""
    for instruction in program.cores[0].instructions:
        for wait in instruction.waits:
            yield instruction.number, wait


def traced(arch: Arch, program: Program, gm: dict[str, Any] | None = None, **how: Any) -> Trace:
    """Run a program."""
    return Machine(arch, program, gm, **how).run()


def ends(trace: Trace) -> dict[tuple[int, str], list[tuple[int, int]]]:
    """(start, end) of every instruction, by core and engine."""
    return {(row.core, row.engine): list(zip(row.starts, row.ends, strict=True)) for row in trace.rows}


def write_packed(folder: Path, operand: Any, dtype: str, name: str, *, transposed: bool = False) -> dict[str, str]:
    """Write an operand as the device sees it; returns what a scenario says under ``inputs``."""
    codes = operand.codes.T if transposed else operand.codes
    nm.pack_rows(np.ascontiguousarray(codes), dtype).tofile(folder / f"{name}_data.bin")
    entry = {"kind": "packed", "data": f"{name}_data.bin"}
    if operand.cells is not None:
        operand.cells.tofile(folder / f"{name}_scales.bin")
        entry["scales"] = f"{name}_scales.bin"
    return entry
