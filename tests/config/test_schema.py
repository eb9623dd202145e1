"""The JSON schemas accept what ships and refuse what the reader refuses."""

from __future__ import annotations

from typing import Any

import pytest

from hwmodel.config.reader import read_file, read_text
from hwmodel.config.resources import shipped_archs, shipped_scenarios
from hwmodel.config.schema import arch_schema, scenario_schema

TYPES: dict[str, Any] = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
    "null": type(None),
}  # fmt: skip


def faults(data: Any, schema: Any, root: dict[str, Any], where: str = "") -> list[str]:
    """What a small part of JSON schema, the part that we use, says against ``data``."""
    found: list[str] = []
    if "$ref" in schema:
        found += faults(data, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, where)
    if "anyOf" in schema and not any(not faults(data, part, root, where) for part in schema["anyOf"]):
        found.append(f"{where}: none of the alternatives")
    if "const" in schema and data != schema["const"]:
        found.append(f"{where}: not {schema['const']}")
    if "enum" in schema and data not in schema["enum"]:
        found.append(f"{where}: not one of {schema['enum']}")
    if "type" in schema:
        wanted = TYPES[schema["type"]]
        if not isinstance(data, wanted) or (isinstance(data, bool) and schema["type"] != "boolean"):
            return [*found, f"{where}: no {schema['type']}"]
    if "exclusiveMinimum" in schema and data <= schema["exclusiveMinimum"]:
        found.append(f"{where}: too small")
    if "minimum" in schema and data < schema["minimum"]:
        found.append(f"{where}: too small")
    if isinstance(data, list):
        items = schema.get("prefixItems", [schema.get("items", {})] * len(data))
        for index, (item, part) in enumerate(zip(data, items, strict=False)):
            found += faults(item, part, root, f"{where}[{index}]")
        if len(data) > schema.get("maxItems", len(data)) or len(data) < schema.get("minItems", 0):
            found.append(f"{where}: wrong length")
    if isinstance(data, dict):
        known = schema.get("properties", {})
        rest = schema.get("additionalProperties", True)
        found += [f"{where}: no {name}" for name in schema.get("required", []) if name not in data]
        for name, value in data.items():
            if name in known:
                found += faults(value, known[name], root, f"{where}.{name}")
            elif rest is False:
                found.append(f"{where}: unknown {name}")
            elif isinstance(rest, dict):
                found += faults(value, rest, root, f"{where}.{name}")
    return found


def against(schema: dict[str, Any], text: str) -> list[str]:
    return faults(read_text(text, "f").data, schema, schema)


@pytest.mark.parametrize("name", sorted(shipped_archs()))
def test_shipped_machines_fit(name: str) -> None:
    schema = arch_schema()
    assert faults(read_file(shipped_archs()[name]).data, schema, schema) == []


def test_shipped_scenarios_fit() -> None:
    schema = scenario_schema()
    for path in shipped_scenarios().values():
        assert faults(read_file(path).data, schema, schema) == [], path


SCENARIO = """\
name: small
arch: {base: ascend_a6, units: {fixpipe: {bytes_per_cycle: 64}}, cores: {value: 3, source: x, confidence: fit}}
problem: {op: matmul, m: 64, k: 128, n: 96, a: hif4, b: hif4}
tiling: {kind: n_split}
inputs: {a: {kind: constant, value: 1}}
"""


def test_a_scenario_fits() -> None:
    assert against(scenario_schema(), SCENARIO) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("name: small\n", ""), ("m: 64", "mm: 64"), ("m: 64", "m: 0"), ("m: 64", "m: x"), ("a: hif4", "a: hif5"),
        ("n_split", "nsplit"), ("kind: constant", "kind: const"), ("value: 1}", "value: x}"), ("name: small", "nam: x"),
        ("bytes_per_cycle: 64", "bytes_per_cycle: x"), ("confidence: fit", "confidence: sure"), (", source: x", ""),
    ],
)  # fmt: skip
def test_a_bad_scenario_does_not(old: str, new: str) -> None:
    assert old in SCENARIO
    assert against(scenario_schema(), SCENARIO.replace(old, new, 1)) != []


def test_variants_need_a_base_only() -> None:
    assert against(arch_schema(), "base: ascend_a6") == []
    assert against(arch_schema(), "base: ascend_a6\nclock_mhz: 1000.5") == []
    assert against(arch_schema(), "name: x") != []
    assert against(arch_schema(), "base: ascend_a6\nclock_mhz: -1") != []
    assert against(arch_schema(), "base: ascend_a6\nclok_mhz: 1") != []
