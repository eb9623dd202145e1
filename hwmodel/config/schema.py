"""JSON schema of the files, for editors. Made from the models; numbers of a machine may carry their source."""

from __future__ import annotations

from typing import Any

from hwmodel import numerics as nm
from hwmodel.arch import CONFIDENCES, ArchSpec
from hwmodel.problem import OUTPUTS
from hwmodel.scenario import ScenarioModel

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DTYPE_FIELDS = {
    "MatmulProblem": {"a": tuple(nm.DTYPES), "b": tuple(nm.DTYPES), "out": OUTPUTS},
    "QuantizeProblem": {"to": tuple(nm.DTYPES)},
}
_PREFIX = "arch_"


def scenario_schema() -> dict[str, Any]:
    """Schema of a scenario file."""
    schema = _tidy(ScenarioModel.model_json_schema(mode="validation"))
    for model, fields in _DTYPE_FIELDS.items():
        for name, known in fields.items():
            schema["$defs"][model]["properties"][name]["enum"] = list(known)
    machine = _prefixed(_arch())
    schema["$defs"] |= machine.pop("$defs")
    reference = {"type": "string", "description": "name of a machine that ships, or path relative to this file"}
    properties = schema.pop("properties")
    before = ("schema_version", "name", "question")
    schema["properties"] = {
        **{name: properties[name] for name in before},
        "arch": {"anyOf": [reference, machine]},
        **{name: value for name, value in properties.items() if name not in before},
    }
    schema["required"] = ["name", "arch"]
    return {"$schema": DIALECT, "title": "hwmodel scenario", **schema}


def arch_schema() -> dict[str, Any]:
    """Schema of an arch file."""
    return {"$schema": DIALECT, "title": "hwmodel arch", **_arch()}


def _arch() -> dict[str, Any]:
    """A machine, or a variant: a base and the fields that differ, so nothing below is required."""
    schema: dict[str, Any] = _sourced(_tidy(ArchSpec.model_json_schema(mode="validation")))
    required = schema.pop("required")
    _drop_required(schema.get("$defs", {}))
    schema["properties"] = {
        "base": {"type": "string", "description": "machine that this one is a variant of: a name or a path"},
        **schema["properties"],
    }
    schema["anyOf"] = [{"required": ["base"]}, {"required": required}]
    return schema


def _tidy(node: Any) -> Any:
    """Without titles; limits of exact fractions as JSON schema spells them; unions that need not be exclusive."""
    if isinstance(node, list):
        return [_tidy(item) for item in node]
    if not isinstance(node, dict):
        return node
    out = {}
    for name, value in node.items():
        if name == "properties":
            out[name] = {field: _tidy(part) for field, part in value.items()}
        elif name == "oneOf":
            out["anyOf"] = _tidy(value)
        elif name == "gt":
            out["exclusiveMinimum"] = value
        elif name not in ("title", "discriminator"):
            out[name] = _tidy(value)
    return out


def _sourced(node: Any) -> Any:
    """With ``{value, source, confidence}`` allowed wherever a number is."""
    if isinstance(node, list):
        return [_sourced(item) for item in node]
    if not isinstance(node, dict):
        return node
    branches = node.get("anyOf", [node])
    if any(_is_number(branch) for branch in branches):
        kept = {name: value for name, value in node.items() if name in ("description", "default")}
        plain = [{name: value for name, value in branch.items() if name not in kept} for branch in branches]
        value = plain[0] if len(plain) == 1 else {"anyOf": plain}
        return {**kept, "anyOf": [*plain, _with_source(value)]}
    return {name: _sourced(value) for name, value in node.items()}


def _with_source(value: dict[str, Any]) -> dict[str, Any]:
    properties = {"value": value, "source": {"type": "string"}, "confidence": {"enum": list(CONFIDENCES)}}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _is_number(node: Any) -> bool:
    return isinstance(node, dict) and node.get("type") in ("integer", "number") and "const" not in node


def _drop_required(definitions: dict[str, Any]) -> None:
    for definition in definitions.values():
        definition.pop("required", None)


def _prefixed(node: Any) -> Any:
    """With the names of definitions made different from those of a scenario."""
    if isinstance(node, list):
        return [_prefixed(item) for item in node]
    if not isinstance(node, dict):
        return node
    out = {}
    for name, value in node.items():
        if name == "$defs":
            out[name] = {_PREFIX + key: _prefixed(part) for key, part in value.items()}
        elif name == "$ref":
            out[name] = value.replace("#/$defs/", "#/$defs/" + _PREFIX)
        else:
            out[name] = _prefixed(value)
    return out
