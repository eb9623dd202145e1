"""Error classes keep their fields and text when SimPy rebuilds them and when they are pickled."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import pytest
import simpy

from hwmodel import errors
from hwmodel.errors import HwmodelError

CLASSES = [
    value
    for _, value in sorted(vars(errors).items())
    if isinstance(value, type) and issubclass(value, HwmodelError) and value is not HwmodelError
]
SAMPLES: dict[str, Any] = {
    "what": "a tile", "where": "s.yaml:3", "field": "problem.m", "problem": "expected 1", "buffer": "l0c",
    "needed_bytes": 262160, "there_bytes": 262144, "hint": "try 64", "index": 7, "instruction": "tload",
    "cycle": 224, "waiting": ("core 0 M waits for flag f before instruction 3 (tmatmul)",),
}  # fmt: skip


def made(kind: type[HwmodelError]) -> HwmodelError:
    return kind(*(SAMPLES[name] for name in inspect.signature(kind).parameters))


def test_every_class_is_here() -> None:
    assert {kind.__name__ for kind in CLASSES} >= {
        "InputError", "ConfigError", "CapacityError", "ProgramError", "NumericsError", "SimulationError",
        "DeadlockError",
    }  # fmt: skip


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_crossing_a_process_changes_nothing(kind: type[HwmodelError]) -> None:
    original = made(kind)
    env = simpy.Environment()

    def inner() -> Any:
        yield env.timeout(1)
        raise original

    def outer() -> Any:
        yield env.process(inner())

    env.process(outer())
    with pytest.raises(kind) as caught:
        env.run()
    assert str(caught.value) == str(original)
    assert vars(caught.value) == vars(original)
    assert caught.value.exit_code == original.exit_code


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_pickling_changes_nothing(kind: type[HwmodelError]) -> None:
    original = made(kind)
    copy = pickle.loads(pickle.dumps(original))
    assert type(copy) is kind
    assert str(copy) == str(original)
    assert vars(copy) == vars(original)


def test_texts_say_what_was_needed_and_what_is_there() -> None:
    assert str(made(errors.CapacityError)) == "l0c: a tile needs 262,160 bytes, 262,144 bytes are there; try 64"
    assert str(made(errors.ConfigError)) == "s.yaml:3: problem.m: expected 1"
    assert str(made(errors.ProgramError)) == "instruction 7 (tload): expected 1"
    assert str(made(errors.DeadlockError)).startswith("deadlock at cycle 224: core 0 M waits for flag f")


def test_exit_codes() -> None:
    codes = {kind.__name__: made(kind).exit_code for kind in CLASSES}
    assert codes["InputError"] == codes["ConfigError"] == codes["CapacityError"] == codes["ProgramError"] == 2
    assert codes["SimulationError"] == codes["DeadlockError"] == 3
