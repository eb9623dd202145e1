"""What scenarios/README.md says of the fields: its example runs, and its table of instructions is the models'.

``pytest tests/scenarios --rewrite-golden`` writes the table.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hwmodel.experiment import prepare, run
from hwmodel.listing.ascend import model as ascend
from hwmodel.listing.neuron import model as neuron
from hwmodel.scenario import load
from hwmodel.units.base import Spec

README = Path(__file__).resolve().parents[2] / "scenarios" / "README.md"
BEGIN, END = "<!-- programs: begin (tests/scenarios/test_programs_page.py writes it) -->", "<!-- programs: end -->"
FAMILIES: dict[str, tuple[dict[str, type[Spec]], type[Spec] | None]] = {
    "Ascend": (dict(ascend.MODELS), None),
    "Neuron": (dict(neuron.MODELS), neuron.InstructionModel),
}
"""Models of each instruction, and the one whose fields all of them share."""
MATMULS = ("start", "accumulate")
"""Fields that the Neuron models share and only the matmul family takes."""

OPERANDS = ("ifmap", "weights", "ifmap_scales", "weights_scales", "index", "data", "scales")
"""Optional in the models only so that the program can say which instruction lacks them."""


def needed(name: str, model: type[Spec]) -> bool:
    return model.model_fields[name].is_required() or (issubclass(model, neuron.InstructionModel) and name in OPERANDS)


def table() -> str:
    lines = ["", "", "| family | `op` | fields; in brackets those that may be left out |", "| --- | --- | --- |"]
    for family, (models, shared) in FAMILIES.items():
        for op, model in models.items():
            common = set(shared.model_fields if shared else ())
            if shared and issubclass(model, neuron.MatmulModel):
                common -= set(MATMULS)
            fields = [name for name in model.model_fields if name not in common]
            always = [f"`{name}`" for name in fields if needed(name, model)]
            others = [f"`{name}`" for name in fields if not needed(name, model)]
            rest = [f"[{', '.join(others)}]"] if others else []
            lines.append(f"| {family} | `{op}` | {' '.join([', '.join(always), *rest]).strip()} |")
    return "\n".join([*lines, "", ""])


@pytest.fixture(scope="module", autouse=True)
def _rewrite(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--rewrite-golden"):
        head, rest = README.read_text(encoding="utf-8").split(BEGIN)
        README.write_text(head + BEGIN + table() + END + rest.split(END)[1], encoding="utf-8")


def test_the_table_of_instructions_is_true() -> None:
    assert README.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0] == table()


def test_the_example_of_a_scenario_runs(tmp_path: Path) -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "my_matmul.yaml").write_text(text, encoding="utf-8")
    result = run(prepare(load(tmp_path / "my_matmul.yaml")))
    assert result.values.status == "bit_exact"
    assert result.expect.status == "met"
    assert result.exit_code == 0
