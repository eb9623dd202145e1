"""Steps to instructions: engines, parameters, and semaphores that keep program order where it matters.

Without semaphores of the user's own, each instruction waits for the earlier ones whose bytes it needs: every engine
counts what has ended in a semaphore, and a wait is for the count at which the last such instruction of an engine has
ended. A matmul becomes a weight load and a multiply; a copy of the weights is free as soon as its matmul has streamed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hwmodel.arch import Arch
from hwmodel.listing.neuron.places import Region
from hwmodel.listing.neuron.steps import Accumulate, Move, Multiply, Quantise, ReadOut, Step, Transfer
from hwmodel.program import neuron as params
from hwmodel.program.instructions import Cast, Instruction, Matmul, Signal, Wait
from hwmodel.program.memory import Operand, Tile, Window, whole
from hwmodel.program.neuron_dtypes import NeuronDtype
from hwmodel.program.regions import partitions_of
from hwmodel.units.neuron.evacuate_values import AccumulateValues, MoveValues, QuantiseValues
from hwmodel.units.neuron.matmul import MatmultValues, WeightsValues

ENGINES = {"vector": "DVE", "scalar": "ACT"}
COPY_BYTES = 512
ACCUMULATOR = "accumulator"
STREAMED = "PE streamed"
"""Counts matmuls whose weights are not needed any more."""
WIDE = "bf16"
ONE_ZERO = "_onezero"
"""Ends the name of the rate at which the array takes operands of which one holds only 0 and 1."""
"""Operand whose rate is taken where the machine has none for a dtype (``legality: off``)."""


class _Draft(NamedTuple):
    """An instruction before it is ordered."""

    op: str
    engine: str
    params: Any
    reads: tuple[Operand, ...]
    writes: tuple[Operand, ...]
    values: Any
    step: Step
    first: bool = True
    """The first instruction of its step: it takes the user's waits."""
    last: bool = True
    """The last one: it takes the user's sets."""


def own_signals(arch: Arch) -> set[str]:
    """Semaphores that keep program order, which no user may set."""
    return {_ended(engine) for engine in arch.units} | {STREAMED}


def _ended(engine: str) -> str:
    return f"{engine} ended"


def lower(steps: Sequence[Step], arch: Arch) -> tuple[Instruction, ...]:
    """Instructions of one core."""
    drafts: list[_Draft] = []
    multiplied = 0
    for step in steps:
        if isinstance(step.action, Multiply):
            drafts += _multiply(step, step.action, multiplied % 2, arch)
            multiplied += 1
        else:
            drafts.append(_other(step))
    explicit = any(step.waits or step.sets for step in steps)
    return _ordered(drafts, explicit=explicit)


def _operand(region: Region) -> Operand:
    return region.window if region.space == "dram" else region.part


def _target(region: Region) -> Operand:
    return region.window if region.space == "dram" else region.tile


def _other(step: Step) -> _Draft:
    action = step.action
    what: params.Parameters
    values: NamedTuple
    if isinstance(action, Transfer):
        size = action.src.size * action.src.rows
        load = action.src.space == "dram"
        what = params.Transfer(action.src.rows, action.src.size, size if load else 0, 0 if load else size)
        engine = f"DMA{action.queue}"
        return _Draft(step.op, engine, what, (_operand(action.src),), (_target(action.dst),), None, step)
    if isinstance(action, Move):
        reads = tuple(_operand(source) for source in action.sources)
        what = _work("copy" if len(action.sources) == 1 else "add", action.dst.cols, action.sources, action.dst)
        values = MoveValues(_cast(action))
        return _Draft(step.op, ENGINES[action.engine], what, reads, (_target(action.dst),), values, step)
    if isinstance(action, Quantise):
        what = _work("quantize", action.src.cols, (action.src,), action.data)
        values = QuantiseValues(action.rule, action.nan_suppress, action.lanes)
        writes = (action.data.tile, action.scales.tile)
        return _Draft(step.op, "DVE", what, (action.src.part,), writes, values, step)
    if isinstance(action, Accumulate):
        return _accumulate(step, action)
    assert isinstance(action, ReadOut)
    held = _accumulator(action.dst.partition, action.dst.rows)
    what = _work("read_accumulator", 1, (), action.dst)
    return _Draft(step.op, "ACT", what, (whole(held),), (_target(action.dst),), MoveValues(None), step)


def _work(what: params.Work, elements: int, inputs: tuple[Region, ...], output: Region | None) -> params.Evacuate:
    found = tuple(params.Access(region.space, region.dtype.name) for region in inputs)
    return params.Evacuate(what, elements, found, output and params.Access(output.space, output.dtype.name))


def _accumulator(partition: int, rows: int) -> Tile:
    return Tile(ACCUMULATOR, 0, 4, "float32", rows, 1, "ND", "acc", (rows, 1), partition)


def _accumulate(step: Step, action: Accumulate) -> _Draft:
    held = _accumulator(*action.partitions)
    reduced = action.src if action.command.reduces else None
    reads: tuple[Operand, ...] = () if action.fresh else (whole(held),)
    if reduced is not None:
        reads = (reduced.part, *reads)
    begin = action.immediate if action.command.loads else 0.0 if action.command.zeroes else None
    values = AccumulateValues(action.alu_op, begin, action.command.reduces, not action.fresh)
    what = _work("reset", 1, (), None) if reduced is None else _work("accumulate", reduced.cols, (reduced,), None)
    return _Draft(step.op, "ACT", what, reads, (held,), values, step)


def _cast(action: Move) -> Cast | None:
    """None where the bits are moved as they are."""
    if action.keeps_bits:
        return None
    assert action.dst.dtype.element is not None
    return Cast(action.dst.dtype.element)


def _rate(dtype: NeuronDtype, arch: Arch) -> str:
    return dtype.operand if dtype.operand in arch.unit("pe").operands else WIDE


def _multiply(step: Step, action: Multiply, copy: int, arch: Arch) -> tuple[_Draft, _Draft]:
    weights, ifmap, dst = action.weights, action.ifmap, action.dst
    rows = action.gather.rows if action.gather is not None else weights.rows
    columns = min(action.k if action.transpose else action.p, 128)
    held = Tile(
        "weights", copy * COPY_BYTES, COPY_BYTES, weights.dtype.name, rows, weights.cols, "ND", "data",
        (rows, weights.cols), 0,
    )  # fmt: skip
    reads: list[Operand] = [weights.part]
    reads += [region.part for region in (action.weights_scales, action.gather) if region is not None]
    how = WeightsValues(scales=action.weights_scales is not None, gather=action.gather is not None)
    a, b = _rate(weights.dtype, arch), _rate(ifmap.dtype, arch)
    if any(action.onezero):
        a, b = a + ONE_ZERO, b + ONE_ZERO
    held_as = params.Weights(rows, columns, a, action.transpose)
    load = _Draft("load_weights", "PEW", held_as, tuple(reads), (held,), how, step, last=False)
    reads = [whole(held), ifmap.part]
    reads += [region.part for region in (action.ifmap_scales, action.tags) if region is not None]
    values = MatmultValues(
        start=action.clear is not None,
        clear=action.clear or (0, 0),
        partitions=action.partitions,
        weights_zero=action.weights_zero,
        ifmap_zero=action.ifmap_zero,
        mode=action.mode,
        transpose=action.transpose,
        onezero=action.onezero,
        sparse_ratio=action.ratio,
        fp32r_bits=action.fp32r_bits,
        scaled=action.opcode == 95,
        lanes=action.lanes,
    )
    writes: tuple[Operand, ...] = (dst.tile,)
    if action.clear is not None:
        (first, length), (partition, count) = action.clear, action.partitions
        if (first, length, partition, count) != (dst.offset, dst.size, dst.partition, dst.rows):
            size = (count, length // 4)
            writes += (Tile("psum", first, length, "float32", *size, "ND", "acc", size, partition),)
    what: Matmul | params.Transpose = Matmul(action.p, action.k, action.n, a, b, action.adds)
    if action.transpose:
        what = params.Transpose(action.n, action.k, a, b)
    return load, _Draft(step.op, "PE", what, tuple(reads), writes, values, step, first=False)


# -- order -------------------------------------------------------------------------------------------------------------


class _Touch(NamedTuple):
    """An access to a rectangle of a space: partitions and bytes, or rows and columns of a tensor."""

    number: int
    writes: bool
    first: int
    last: int
    begin: int
    end: int


def _ordered(drafts: list[_Draft], *, explicit: bool) -> tuple[Instruction, ...]:
    """Add semaphores. With the user's own ones (``explicit``) only weights and their matmuls are tied together."""
    places: dict[str, int] = {}
    positions = []
    for draft in drafts:
        positions.append(places.get(draft.engine, 0))
        places[draft.engine] = positions[-1] + 1
    history: dict[str, list[_Touch]] = {}
    needed: list[dict[str, int]] = []
    for index, draft in enumerate(drafts):
        waits: dict[str, int] = {}
        for operand, writes in (*((o, False) for o in draft.reads), *((o, True) for o in draft.writes)):
            space, touch = _touch(index, operand, writes)
            if explicit and space != "weights":
                continue
            for other in history.get(space, []):
                if (writes or other.writes) and _meet(touch, other) and other.number != index:
                    before = drafts[other.number]
                    if before.engine == draft.engine and writes:
                        continue  # an engine reads in order and ends in order; PE adds to PSUM when it ends
                    early = before.engine == "PE" and draft.engine == "PEW" and space == "weights"
                    signal = STREAMED if early else _ended(before.engine)
                    waits[signal] = max(waits.get(signal, 0), positions[other.number] + 1)
            seen = history.setdefault(space, [])
            if writes:
                seen[:] = [old for old in seen if not _covers(touch, old)]
            seen.append(touch)
        needed.append(waits)
    return tuple(_instruction(index, draft, needed[index]) for index, draft in enumerate(drafts))


def _touch(index: int, operand: Operand, writes: bool) -> tuple[str, _Touch]:
    if isinstance(operand, Window):
        last, end = operand.row + operand.rows, operand.col + operand.cols
        return f"dram.{operand.tensor}", _Touch(index, writes, operand.row, last, operand.col, end)
    space, first, last = partitions_of(operand)
    return space, _Touch(index, writes, first, last, operand.offset, operand.offset + operand.size)


def _meet(a: _Touch, b: _Touch) -> bool:
    return a.first < b.last and b.first < a.last and a.begin < b.end and b.begin < a.end


def _covers(new: _Touch, old: _Touch) -> bool:
    return new.first <= old.first and old.last <= new.last and new.begin <= old.begin and old.end <= new.end


def _instruction(index: int, draft: _Draft, needed: dict[str, int]) -> Instruction:
    waits = tuple(Wait(signal, count) for signal, count in sorted(needed.items()))
    sets: tuple[Signal, ...] = (Signal(_ended(draft.engine)),)
    if draft.first:
        waits = tuple(Wait(name, count) for name, count in draft.step.waits) + waits
    if draft.last:
        sets += tuple(Signal(name, amount) for name, amount in draft.step.sets)
    frees = (Signal(STREAMED),) if draft.engine == "PE" else ()
    return Instruction(
        index, draft.op, draft.engine, draft.params, draft.reads, draft.writes, waits, sets, draft.values,
        (("i", draft.step.number),), frees, (draft.step.number, draft.step.op),
    )  # fmt: skip
