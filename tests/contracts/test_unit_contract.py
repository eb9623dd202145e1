"""What every unit promises, whatever machine it is in: a pure, whole, monotone cost, and a strict specification.

A new unit adds its sample parameters to ``GROWING``; everything else is found in the tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, ValidationError

from hwmodel.arch import Arch, Unit
from hwmodel.config.arch import load_arch
from hwmodel.config.resources import shipped_archs
from hwmodel.program import Extract, Load, Matmul, Store
from hwmodel.program.neuron import Access, Evacuate, Transfer, Transpose, Weights
from hwmodel.trace import KINDS
from hwmodel.units import STORAGES, UNITS

SIZES = (1, 2, 7, 16, 31, 64, 100, 128)


def growing(kind: str, spec: Any) -> list[list[NamedTuple]]:
    """Lists of parameters, each list growing in one size and equal in the rest."""
    dtypes = list(getattr(spec, "fractals", None) or getattr(spec, "operands", None) or ())
    cube = [
        [Matmul(*[size if at == axis else 48 for at in range(3)], dtype, dtype, accumulate) for size in SIZES]
        for dtype in dtypes
        for axis in range(3)
        for accumulate in (False, True)
    ]
    engine = [
        [Evacuate(what, s * scale, (Access(first, dtype), *rest), Access(output, dtype)) for s in SIZES]
        for what in (getattr(spec, "elements_per_cycle", ()) if kind in ("vector", "scalar") else ())
        for scale in (1, 16)
        for first in ("sbuf", "psum")
        for output in ("sbuf", "psum")
        for dtype in ("float32", "bfloat16", "float8e5")
        for rest in ((), (Access("sbuf", dtype),))
    ]
    return {
        "tload": [[Load(64 * s, 1, 64 * s, 0) for s in SIZES], [Load(8192, 1, 8192, 8192 - 64 * s) for s in SIZES]],
        "textract": [[Extract(64 * s, target) for s in SIZES] for target in getattr(spec, "bytes_per_cycle", ())]
        if kind == "textract"
        else [],
        "cube": cube,
        "fixpipe": [
            [Store(s, 64, 2, 128, 0) for s in SIZES],
            [Store(16, s, 2, 512, 0) for s in SIZES],
            [Store(16, 32, size, 512, 0) for size in (1, 2, 4)],
        ],
        "dma": [
            [Transfer(s, 512, 512 * s, 0) for s in SIZES],
            [Transfer(64, 32 * s, 2048 * s, 0) for s in SIZES],
            [Transfer(128, 64 * s, 0, 8192 * s) for s in SIZES],
        ],
        "pe": cube
        + [[Weights(s, s, dtype, transpose) for s in SIZES] for dtype in dtypes for transpose in (False, True)]
        + [[Transpose(s, 48, dtype, dtype) for s in SIZES] for dtype in dtypes]
        + [[Transpose(48, s, dtype, dtype) for s in SIZES] for dtype in dtypes],
        "vector": engine,
        "scalar": engine,
    }[kind]


@cache
def machines() -> dict[str, Arch]:
    return {name: load_arch(name) for name in shipped_archs()}


INSTALLED = [(name, unit.name, engine) for name, arch in machines().items() for engine, unit in arch.units.items()]


@pytest.fixture(params=sorted({(name, unit) for name, unit, _ in INSTALLED}), ids="-".join)
def unit(request: pytest.FixtureRequest) -> Unit:
    """Every unit of every shipped machine."""
    name, wanted = request.param
    return next(each for each in machines()[name].units.values() if each.name == wanted)


def test_every_unit_is_in_a_shipped_machine() -> None:
    assert {unit.kind.kind for arch in machines().values() for unit in arch.units.values()} == set(UNITS)


def test_cycles_are_whole_not_negative_and_the_same_again(unit: Unit) -> None:
    samples = growing(unit.kind.kind, unit.spec)
    assert samples
    for params in (each for line in samples for each in line):
        found = unit.kind.cycles(unit.spec, params)
        assert type(found) is int
        assert found >= 0
        assert unit.kind.cycles(unit.spec, params) == found
        if unit.kind.timing is not None:
            timing = unit.kind.timing(unit.spec, params)
            assert min(timing) >= 0
            assert all(type(part) is int for part in timing)
            assert timing.before + timing.work + timing.after == found


def test_more_work_never_takes_less_time(unit: Unit) -> None:
    for line in growing(unit.kind.kind, unit.spec):
        cycles = [unit.kind.cycles(unit.spec, params) for params in line]
        if isinstance(line[0], Store) and line[0].rows == line[-1].rows:
            continue  # rows that fill whole granules are faster than shorter ones: see the next test
        assert cycles == sorted(cycles), line


def test_whole_granules_never_take_less_for_more(unit: Unit) -> None:
    if unit.kind.kind != "fixpipe":
        return
    granule = unit.spec.granule_bytes
    cycles = [unit.kind.cycles(unit.spec, Store(16, s * granule // 2, 2, 8 * granule, 0)) for s in range(1, 8)]
    assert cycles == sorted(cycles)


def test_bytes_and_work_are_whole_and_not_negative(unit: Unit) -> None:
    for params in (each for line in growing(unit.kind.kind, unit.spec) for each in line):
        read, written = unit.kind.gm_bytes(params)
        assert min(read, written, unit.kind.macs(params)) >= 0
        for move in unit.kind.traffic(unit.spec, params):
            assert 0 < move.size <= read + written


def numbers(model: BaseModel, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int | Fraction]]:
    for name in type(model).model_fields:
        yield from _numbers(getattr(model, name), (*path, name))


def _numbers(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int | Fraction]]:
    if isinstance(value, BaseModel):
        yield from numbers(value, path)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _numbers(inner, (*path, key))
    elif isinstance(value, int | Fraction) and not isinstance(value, bool):
        yield path, value


def changed(spec: BaseModel, path: tuple[str, ...], value: Any) -> Any:
    data: Any = spec.model_dump()
    node = data
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = value
    return type(spec).model_validate(data)


def direction(path: tuple[str, ...]) -> int:
    """+1: more of it takes longer; -1: takes less; 0: no such promise."""
    rates = any("_per_cycle" in step for step in path) or path[-1] == "k_per_fractal"
    more = path[-1].endswith("_cycles") or path[-1] in (
        "passes",
        "transpose_passes",
        "partial_granule_factor",
        "min_elements",
    )
    return -1 if rates else 1 if more and "throttle" not in path else 0


def test_every_latency_slows_and_every_rate_speeds_up(unit: Unit) -> None:
    acted = set()
    for path, value in numbers(unit.spec):
        way = direction(path)
        if not way:
            continue
        spec = changed(unit.spec, path, value * 3 if isinstance(value, int) else float(value * 3))
        for params in (each for line in growing(unit.kind.kind, unit.spec) for each in line):
            before, after = (_time(unit, each, params) for each in (unit.spec, spec))
            assert (after - before) * way >= 0, (path, params)
            if after != before:
                acted.add(path)
    assert acted


def _time(unit: Unit, spec: Any, params: Any) -> int:
    """Cycles, and the cycles until the next one where instructions overlap."""
    total = unit.kind.cycles(spec, params)
    return total + unit.kind.timing(spec, params).issue if unit.kind.timing is not None else total


def test_specifications_are_frozen_and_strict_and_described(unit: Unit) -> None:
    model = type(unit.spec)
    assert issubclass(model, unit.kind.spec)
    with pytest.raises(ValidationError, match="frozen"):
        unit.spec.kind = "other"
    with pytest.raises(ValidationError, match="extra"):
        model.model_validate({**unit.spec.model_dump(), "no_such_field": 1})
    for name, field in model.model_fields.items():
        assert field.description or name in ("kind", "throttle"), f"{model.__name__}.{name} has no description"
    assert unit.spec.kind == unit.kind.kind
    again = model.model_validate(unit.spec.model_dump())
    assert again == unit.spec


def test_negative_latencies_and_rates_of_zero_are_refused(unit: Unit) -> None:
    for path, _ in numbers(unit.spec):
        if direction(path) > 0 and path[-1].endswith("_cycles"):
            with pytest.raises(ValidationError):
                changed(unit.spec, path, -1)
        if direction(path) < 0:
            with pytest.raises(ValidationError):
                changed(unit.spec, path, 0)


def test_entries_of_the_table_are_complete() -> None:
    for name, kind in UNITS.items():
        assert kind.kind == name
        assert kind.summary
        assert kind.operations
        assert all(isinstance(stage, int) and stage >= 0 for stage in kind.operations.values())
        assert kind.spaces


def test_no_two_engines_of_a_machine_have_one_name() -> None:
    for name, arch in machines().items():
        engines = [engine for spec in arch.spec.units.values() for engine in UNITS[spec.kind].engines_of(spec)]
        assert len(engines) == len(set(engines)), name
        assert arch.spec.family in STORAGES


def test_kinds_of_time() -> None:
    assert KINDS == ("busy", "wait_input", "wait_space", "idle")
