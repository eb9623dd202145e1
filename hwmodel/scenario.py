"""A scenario: what is asked of which machine, read from a YAML file and frozen."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, Union

from pydantic import Field, model_validator

from hwmodel import __version__
from hwmodel import numerics as nm
from hwmodel.arch import Arch
from hwmodel.config.arch import load_arch
from hwmodel.config.dump import dump
from hwmodel.config.files import digest, file_names, made_absolute, made_relative, with_names
from hwmodel.config.overrides import Override, Overrides, apply, in_order, parse_overrides
from hwmodel.config.paths import FieldPath, parse_path
from hwmodel.config.plain import plain
from hwmodel.config.positions import FileLayer, Positions, SetLayer
from hwmodel.config.reader import Document, read_file, read_text
from hwmodel.config.resources import find_scenario, shown_path
from hwmodel.config.sourced import put_together
from hwmodel.config.validate import show, validate
from hwmodel.errors import ConfigError, InputError, did_you_mean
from hwmodel.inputs import NEURON_RULES, Inputs, InputSource, PackedInput
from hwmodel.problem import Accumulate, MatmulProblem, Problem, QuantizeProblem, constant_scale_run
from hwmodel.tiling import TILINGS
from hwmodel.units.base import Spec
from hwmodel.units.cube import CubeSpec

HASH_DIGITS = 12
NAME_LENGTH = 120


class GoldenFile(Spec):
    """A file of expected bytes, or a ``.npy`` of values."""

    path: str = Field(min_length=1, description="relative to the scenario file")


class Expect(Spec):
    """What must come out; a run that differs exits with 1."""

    values: Literal["bit_exact"] | None = Field(default=None, description="against the whole-matrix reference")
    out: GoldenFile | None = Field(default=None, description="golden output: raw bytes of its dtype, or .npy")
    scales: GoldenFile | None = Field(default=None, description="golden scales of a quantize problem")
    cycles: Annotated[int, Field(ge=0)] | None = None


_PARAMS = tuple(tiling.params for tiling in TILINGS.values())
TilingUnion: TypeAlias = (  # one entry of a union needs no discriminator, and pydantic allows none
    Annotated[Union[_PARAMS], Field(discriminator="kind")] if len(_PARAMS) > 1 else _PARAMS[0]  # type: ignore[valid-type]  # noqa: UP007
)


class ScenarioModel(Spec):
    """The scenario file, apart from its machine."""

    schema_version: Literal[1] = 1
    name: str = Field(min_length=1, description="names the run folder")
    question: str = Field(default="", description="what this scenario answers")
    problem: Problem | None = None
    tiling: TilingUnion | None = None
    program: dict[str, Any] | None = Field(default=None, description="instructions, instead of problem and tiling")
    inputs: Inputs = Field(default_factory=Inputs)
    accumulate: Accumulate = Field(default_factory=Accumulate)
    expect: Expect = Field(default_factory=Expect)

    @model_validator(mode="after")
    def _consistent(self) -> ScenarioModel:
        for fault in _faults(self):
            raise ValueError(fault)
        return self


def _faults(model: ScenarioModel) -> Iterator[str]:
    """What no single field can tell, as ``field: problem``."""
    if not _good_name(model.name):
        yield f"name: expected a name that a folder can have, not {show(model.name)}"
    problem, given = model.problem, model.model_fields_set
    if problem is None and model.program is None:
        yield "problem: expected a problem or a program, but it is missing"
    if model.program is not None:
        for name in ("problem", "tiling", "inputs"):
            if name in given and getattr(model, name) is not None:
                yield f"{name}: expected either a program or a problem with tiling and inputs, not both"
        return
    if isinstance(problem, QuantizeProblem):
        if model.tiling is not None:
            yield "tiling: expected none, as a quantize problem is not tiled"
        if "inputs" in given and "b" in model.inputs.model_fields_set:
            yield "inputs.b: expected only inputs.a, as a quantize problem has one operand"
        yield from _operand_faults("inputs.a", model.inputs.a, problem.source, problem.to)
    elif isinstance(problem, MatmulProblem):
        if model.tiling is None:
            yield f"tiling: expected a tiling of kind {', '.join(TILINGS)}, but it is missing"
        if model.expect.scales is not None:
            yield "expect.scales: expected only out, as a matmul has no output scales"
        if model.accumulate.order == "group" and not constant_scale_run(problem.a, problem.b):
            yield f"accumulate.order: expected seq, f64 or blas, as {problem.a} x {problem.b} has no block scales"
        yield from _operand_faults("inputs.a", model.inputs.a, problem.a, problem.a)
        yield from _operand_faults("inputs.b", model.inputs.b, problem.b, problem.b)


def _operand_faults(name: str, source: InputSource, dtype: str, quantised: str) -> Iterator[str]:
    """``dtype`` is what the operand is stored in, ``quantised`` what a rule applies to."""
    record = nm.DTYPES[dtype]
    if isinstance(source, PackedInput):
        if record.block is not None and source.scales is None:
            yield f"{name}.scales: expected a file of scale cells, as {dtype} has block scales, but it is missing"
        if record.block is None and source.scales is not None and record.storage_bits != 16:
            yield f"{name}.scales: expected none, as {dtype} has no block scales"
        return
    block = nm.DTYPES[quantised].block
    known = [rule.name for rule in nm.RULES.values() if quantised in rule.dtypes]
    if source.rule is not None and block is None:
        yield f"{name}.rule: expected none, as {quantised} has no block scales"
    elif source.rule is not None and source.rule not in known:
        near = did_you_mean(source.rule, known)
        yield f"{name}.rule: expected one of {', '.join(known)} for {quantised}, not {source.rule!r}{near}"


def _good_name(name: str) -> bool:
    whole = name.isprintable() and len(name) <= NAME_LENGTH and not set(name) & set('/\\:*?"<>|')
    return whole and name[:1] not in (".", "-", " ") and name[-1:] not in (".", " ")


@dataclass(frozen=True)
class Scenario:
    """A validated scenario with its machine. Equal scenarios ask the same question of the same machine.

    Paths in ``model`` are absolute. ``origin`` is the file as people know it, ``base`` the folder its paths were
    relative to.
    """

    model: ScenarioModel
    arch: Arch
    base: Path = field(compare=False)
    origin: str = field(compare=False)
    positions: Positions = field(compare=False, repr=False)

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return self.model.name

    @property
    def question(self) -> str:
        """What the scenario answers."""
        return self.model.question

    @property
    def problem(self) -> MatmulProblem | QuantizeProblem | None:
        """What is computed; None where the scenario holds a program."""
        return self.model.problem

    @property
    def tiling(self) -> Any:
        """Parameters of the tiling (``.kind`` is its name in ``TILINGS``); None where there is none."""
        return self.model.tiling

    @property
    def program(self) -> dict[str, Any] | None:
        """The program as the file states it."""
        return self.model.program

    @property
    def inputs(self) -> Inputs:
        """Where the operands come from."""
        return self.model.inputs

    @property
    def accumulate(self) -> Accumulate:
        """In which order products are added."""
        return self.model.accumulate

    @property
    def expect(self) -> Expect:
        """What must come out."""
        return self.model.expect

    def error(self, path: str, problem: str) -> ConfigError:
        """The error to raise for a field (``tiling.tile_n``), with the line where it was set."""
        return self.positions.error(parse_path(path) or (), problem)

    def locate(self, error: InputError, path: str = "") -> InputError:
        """The same error with the line of the field it is about.

        That is the field named at the start of its text (``tiling.tile_n: expected ...``), else ``path``.
        """
        if isinstance(error, ConfigError):
            return error
        text = str(error)
        name, colon, problem = text.partition(": ")
        steps = parse_path(name) if colon and " " not in name else None
        if steps is not None and steps[0] in ScenarioModel.model_fields:
            return self.positions.error(steps, problem)
        return self.positions.error(parse_path(path) or (), text)

    def files(self) -> list[Path]:
        """Every file that a run reads, in a fixed order."""
        return [Path(name) for _, name in file_names(_stated(self.model))]

    @cached_property
    def _hash(self) -> str:
        content = with_names(_stated(self.model), self._digest)
        whole = {"version": __version__, "scenario": content, "arch": self._arch()}
        text = json.dumps(whole, sort_keys=True, separators=(",", ":"), allow_nan=True)
        return hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]

    def hash(self) -> str:
        """Hex digest of all that decides the result: scenario, machine, bytes of the input files, version.

        Raises ConfigError for an input file that cannot be read.
        """
        return self._hash

    def resolved(self, folder: Path | None = None) -> str:
        """YAML text of everything that is simulated, defaults and machine included.

        File paths are relative to ``folder``, absolute where it is None. Reading the text from a file in that folder
        gives an equal scenario.
        """
        content = _stated(self.model)
        if folder is not None:
            content = made_relative(content, folder)
        arch = {"arch": self._arch()}
        head = {name: content.pop(name) for name in ("schema_version", "name", "question")}
        return dump({**head, **content, **arch})

    def _digest(self, field: FieldPath, name: str) -> str:
        try:
            return digest(Path(name))
        except OSError as error:
            problem = f"expected a file, but {shown_path(Path(name))} cannot be read ({error.strerror or error})"
            raise self.positions.error(field, problem) from None

    def _arch(self) -> Any:
        return put_together(plain(self.arch.spec), self.arch.sources)


def load(path: str | os.PathLike[str], overrides: Overrides = None) -> Scenario:
    """Read a scenario: a path, or the name of one that ships. Nothing is planned and no input file is read yet.

    ``overrides`` replace fields: ``{"problem.m": 256}`` or ``["problem.m=256"]``. Raises InputError.
    """
    file = find_scenario(path)
    return build(read_file(file, shown_path(file)), file.parent, parse_overrides(overrides))


def loads(text: str, base: Path, *, overrides: Overrides = None, origin: str = "scenario") -> Scenario:
    """Read a scenario from text; its paths are relative to ``base``."""
    return build(read_text(text, origin), base, parse_overrides(overrides))


def build(
    document: Document, base: Path, overrides: list[Override], archs: dict[tuple[Any, ...], Arch] | None = None
) -> Scenario:
    """The scenario of a document that was read. ``archs`` remembers machines for the next one built from it."""
    positions = Positions((FileLayer(document),))
    data = document.data
    if not isinstance(data, dict):
        problem = f"expected a mapping with name, arch, problem and tiling, not {show(data)}"
        raise ConfigError(document.file, "", problem)
    own: list[Override] = []
    of_arch: list[Override] = []
    for override in in_order(overrides):
        (of_arch if override.path[0] == "arch" and len(override.path) > 1 else own).append(override)
    for override in own:
        data, positions = _apply(data, override, positions)
    reference = data.get("arch")
    data = made_absolute({name: value for name, value in data.items() if name != "arch"}, base, positions)
    model = validate(ScenarioModel, data, positions, beside=("arch",))
    arch = _arch_of(reference, base, positions, of_arch, {} if archs is None else archs)
    for path, problem in _rate_faults(model, arch):
        raise positions.error(path, problem)
    return Scenario(_settled(model, arch), arch, base, document.file, positions)


def _arch_of(
    reference: Any, base: Path, positions: Positions, overrides: list[Override], known: dict[tuple[Any, ...], Arch]
) -> Arch:
    key = (repr(reference), positions.is_set(("arch",)), repr(overrides))
    if key not in known:
        known[key] = load_arch(reference, base, positions=positions, overrides=overrides)
    return known[key]


def _rate_faults(model: ScenarioModel, arch: Arch) -> Iterator[tuple[FieldPath, str]]:
    """Operands of a legal pair that the machine's Cube has no rate for."""
    problem = model.problem
    cube = next((unit for unit in arch.spec.units.values() if isinstance(unit, CubeSpec)), None)
    pairs = arch.spec.operand_pairs
    if cube is None or not isinstance(problem, MatmulProblem):
        return
    if (problem.a, problem.b) in (*pairs.mx, *pairs.plain):
        for name, dtype in (("a", problem.a), ("b", problem.b)):
            if dtype not in cube.fractals:
                known = f"units.cube.fractals of {arch.name} has rates for {', '.join(cube.fractals) or 'none'}"
                yield ("problem", name), f"expected a dtype that the Cube has a rate for, not {dtype} ({known})"


def _settled(model: ScenarioModel, arch: Arch) -> ScenarioModel:
    """With the quantiser rule of each operand that has block scales, and without scale files that nobody reads."""
    problem = model.problem
    if problem is None:
        return model
    dtypes = {"a": problem.to} if isinstance(problem, QuantizeProblem) else {"a": problem.a, "b": problem.b}
    changed = {}
    for name, dtype in dtypes.items():
        source, block = getattr(model.inputs, name), nm.DTYPES[dtype].block
        if isinstance(source, PackedInput):
            if block is None and source.scales is not None:
                changed[name] = source.model_copy(update={"scales": None})
        elif block is not None and source.rule is None:
            eight_by_four = arch.spec.family == "neuron" and dtype in nm.RULES[NEURON_RULES].dtypes
            rule = NEURON_RULES if eight_by_four else block.default_rule
            changed[name] = source.model_copy(update={"rule": rule})
    return model.model_copy(update={"inputs": model.inputs.model_copy(update=changed)}) if changed else model


def _apply(data: dict[str, Any], override: Override, positions: Positions) -> tuple[Any, Positions]:
    if override.path == ("arch",):
        return {**data, "arch": override.value}, positions.over(SetLayer(override.path, override.value))
    before = data.get("problem")
    data, positions = apply(ScenarioModel, data, override, positions)
    changed = override.path == ("problem", "op") and isinstance(before, dict) and before.get("op") != override.value
    return _only_quantize(data) if changed and override.value == "quantize" else data, positions


def _only_quantize(data: dict[str, Any]) -> dict[str, Any]:
    """Drop what only a matmul has, as changing a ``kind`` does."""
    kept = {name: value for name, value in data.items() if name not in ("tiling", "accumulate")}
    if isinstance(kept.get("inputs"), dict):
        kept["inputs"] = {name: value for name, value in kept["inputs"].items() if name != "b"}
    return kept


def _stated(model: ScenarioModel) -> dict[str, Any]:
    """The model as plain data, without what its kind of problem does not have."""
    data: dict[str, Any] = plain(model)
    unused = ["program"] if model.program is None else ["problem", "tiling", "inputs"]
    if isinstance(model.problem, QuantizeProblem):
        unused += ["tiling", "accumulate"]
        del data["inputs"]["b"]
    return {name: value for name, value in data.items() if name not in unused}


__all__ = ["Expect", "GoldenFile", "Scenario", "ScenarioModel", "build", "load", "loads"]
