"""Programs for a NeuronCore put together in Python, and what they leave behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from hwmodel.config.overrides import parse_overrides
from hwmodel.config.reader import read_text
from hwmodel.errors import InputError
from hwmodel.experiment import Prepared, prepare, run
from hwmodel.machine import Machine
from hwmodel.result import Result
from hwmodel.scenario import Scenario, build
from hwmodel.units.storage import Array

ARCHS: dict[Any, Any] = {}
"""Machines that were read before."""
TRN1, TRN2, TRN3 = "neuron_trn1", "neuron_trn2", "neuron_trn3"


def sbuf(dtype: str | int, *shape: int, init: Any = None, **rest: Any) -> dict[str, Any]:
    """A tensor in SBUF; ``init`` is an array of values, or an entry as in a scenario."""
    return tensor("sbuf", dtype, *shape, init=init, **rest)


def psum(*shape: int, dtype: str = "float32", init: Any = None, **rest: Any) -> dict[str, Any]:
    """A tensor in PSUM."""
    return tensor("psum", dtype, *shape, init=init, **rest)


def tensor(space: str, dtype: str | int, *shape: int, init: Any = None, **rest: Any) -> dict[str, Any]:
    """A tensor."""
    entry = {"space": space, "dtype": dtype, "shape": list(shape), **rest}
    if init is not None:
        entry["init"] = init if isinstance(init, dict) else values(init)
    return entry


def values(array: Any) -> dict[str, Any]:
    """Contents from numbers."""
    return {"kind": "values", "data": np.asarray(array).tolist()}


def codes(array: Any) -> dict[str, Any]:
    """Contents from stored elements."""
    return {"kind": "codes", "data": np.asarray(array).tolist()}


def normal(seed: int, **rest: Any) -> dict[str, Any]:
    """Normally distributed contents."""
    return {"kind": "normal", "seed": seed, **rest}


def integers(seed: int, low: int = -4, high: int = 5) -> dict[str, Any]:
    """Small whole numbers, whose sums are exact in any order."""
    return {"kind": "integers", "low": low, "high": high, "seed": seed}


def scenario(
    tensors: dict[str, Any],
    instructions: list[dict[str, Any]],
    arch: str = TRN3,
    *,
    overrides: dict[str, Any] | None = None,
    base: Path = Path(),
    **program: Any,
) -> Scenario:
    """A scenario with this program; ``program`` are its further fields (legality, preset, attributes)."""
    data = {"name": "test", "arch": arch, "program": {"tensors": tensors, "instructions": instructions, **program}}
    text = json.dumps(data)
    for json_name, yaml_name in (("NaN", ".nan"), ("-Infinity", "-.inf"), ("Infinity", ".inf")):
        text = text.replace(json_name, yaml_name)
    return build(read_text(text, "program"), base, parse_overrides(overrides), ARCHS)


def ready(*args: Any, **how: Any) -> Prepared:
    """A program, checked and lowered."""
    return prepare(scenario(*args, **how))


def result(*args: Any, **how: Any) -> Result:
    """A run, compared with the program in order."""
    return run(ready(*args, **how))


def left(*args: Any, **how: Any) -> dict[str, Array]:
    """Stored elements of every tensor at the end; the machine and the reference agree on all of them."""
    prepared = ready(*args, **how)
    listing = prepared.listing
    assert listing is not None
    assert prepared.hazards() == ()
    memory = listing.memory()
    machine = Machine(prepared.scenario.arch, listing.program, memory)
    machine.run()
    found = listing.found(memory, machine.storages[0])
    for name, expected in listing.expected().items():
        assert np.array_equal(found[name], expected.view(found[name].dtype)), name
    return found


def fp32(stored: Array) -> Array:
    """Numbers of a float32 tensor."""
    return stored.view(np.float32)


def refused(*args: Any, **how: Any) -> str:
    """The text of the refusal of a program."""
    try:
        ready(*args, **how)
    except InputError as error:
        return str(error)
    raise AssertionError("the program was not refused")


def chain(weights: Array, ifmap: Array) -> Array:
    """fp32 [P, N] of weights [K, P] and ifmap [K, N]: one scalar at a time, k ascending from +0."""
    out = np.zeros((weights.shape[1], ifmap.shape[1]), np.float32)
    for p in range(out.shape[0]):
        for n in range(out.shape[1]):
            total = np.float32(0)
            for k in range(weights.shape[0]):
                total = np.float32(total + np.float32(weights[k, p] * ifmap[k, n]))
            out[p, n] = total
    return out


def dense(k: int, p: int, n: int, *, dtype: str = "bfloat16", seed: int = 1, **rest: Any) -> dict[str, Any]:
    """Tensors x [k, n], w [k, p] and acc [p, n] of a dense matmul."""
    return {
        "x": sbuf(dtype, k, n, init=normal(seed)),
        "w": sbuf(dtype, k, p, init=normal(seed + 1)),
        "acc": psum(p, n),
        **rest,
    }


def matmult(**rest: Any) -> dict[str, Any]:
    """acc = x and w."""
    return {"op": "matmult", "ifmap": "x", "weights": "w", "dst": "acc", "start": True, **rest}
