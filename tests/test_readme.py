"""The READMEs are executed: every command but that of the tests, in a copy of the checkout, and every number is real.

``pytest tests/test_readme.py --rewrite-golden`` writes the output that README.md shows and draws its picture.
"""

# ``env=dict(os.environ)``: readline, which pytest imports, leaves COLUMNS where children see it and Python does not.

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from hwmodel.validation.table import OPTIONAL, REQUIRED

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PICTURE = ROOT / "reports" / "pictures" / "hif4_512x128x512.png"
SCENARIO = "scenarios/hif4_512x128x512.yaml"
BEGIN, END = "<!-- output: begin (tests/test_readme.py checks it) -->", "<!-- output: end -->"
PAGES = (
    "README.md", "hwmodel/README.md", "hwmodel/numerics/README.md", "configs/README.md", "reports/README.md",
    "scenarios/README.md",
)  # fmt: skip
HWMODEL = Path(sys.executable).with_name("hwmodel")


def text() -> str:
    return README.read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text(), re.MULTILINE | re.DOTALL)


def shown() -> str:
    """The output that the README shows."""
    return text().split(BEGIN)[1].split(END)[0].strip().removeprefix("```text\n").removesuffix("\n```")


def commands() -> list[str]:
    return [line for block in blocks("sh") for line in block.splitlines()]


def command_of_the_tests() -> str:
    (found,) = [command for command in commands() if "pytest" in command]
    return found


@pytest.fixture(scope="module", autouse=True)
def _rewrite(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    if not request.config.getoption("--rewrite-golden"):
        return
    folder = tmp_path_factory.mktemp("shown")
    shutil.copytree(ROOT / "scenarios", folder / "scenarios")
    done = subprocess.run(
        [HWMODEL, "run", SCENARIO], cwd=folder, env=dict(os.environ), capture_output=True, text=True, check=True
    )
    head, rest = text().split(BEGIN)
    output = f"\n\n```text\n{done.stdout.rstrip()}\n```\n\n"
    README.write_text(head + BEGIN + output + END + rest.split(END)[1], encoding="utf-8")
    (run,) = (folder / "reports" / "runs").iterdir()
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(run / "timeline.png", PICTURE)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a clone of this checkout would hold, without its history."""
    folder = tmp_path_factory.mktemp("clone") / "hwmodel"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True,
        check=True,
    ).stdout.splitlines()  # fmt: skip
    for name in listed:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    return folder


def bash(command: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_every_command_but_that_of_the_tests_runs(copy: Path) -> None:
    """On a new clone: the first command installs and runs, and prints what the README shows."""
    others = [command for command in commands() if command != command_of_the_tests()]
    assert len(others) == len(commands()) - 1
    assert others[0].startswith("python3 -m venv .venv && ")
    assert bash(others[0], copy).rstrip() == shown()
    (run,) = (copy / "reports" / "runs").iterdir()
    assert (run / "timeline.png").read_bytes() == PICTURE.read_bytes()
    for command in others[1:]:
        assert bash(command, copy).strip(), command
    for block in blocks("python"):
        program = copy / "example.py"
        program.write_text(block, encoding="utf-8")
        assert bash(".venv/bin/python example.py", copy).strip()


def test_the_first_two_installing_commands_are_all_there_is_to_set_up() -> None:
    installing = [command for command in commands() if "pip install" in command]
    assert len(installing) == 2
    assert installing[0].endswith(f".venv/bin/hwmodel run {SCENARIO}")
    assert installing[1] == command_of_the_tests()
    assert all("-c constraints.txt" in command for command in installing)


def test_the_gate_calls_exactly_the_command_of_the_tests() -> None:
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert command_of_the_tests() in [line.strip() for line in gate.splitlines()]


def test_the_output_shown_is_that_of_today() -> None:
    """Quick: without a new environment. The numbers of the README are written by the tool."""
    done = subprocess.run(
        [HWMODEL, "run", SCENARIO, "--write", "none"],
        cwd=ROOT,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=True,
    )
    lines = shown().splitlines()
    assert done.stdout.splitlines() == lines[:-1]
    assert lines[-1].startswith("  wrote      reports/runs/hif4_512x128x512-")


@pytest.mark.parametrize("name", PAGES)
def test_links_and_paths_lead_somewhere(name: str) -> None:
    page = ROOT / name
    content = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", content):
        assert (page.parent / target).exists(), target
    for path in re.findall(r"`((?:hwmodel|configs|scenarios|tests|reports)/[\w./]+)`", content):
        assert (ROOT / path).exists() or path in ("reports/runs/",), path


def test_the_page_of_machines_names_every_machine() -> None:
    content = (ROOT / "configs" / "README.md").read_text(encoding="utf-8")
    for path in (ROOT / "configs" / "arch").glob("*.yaml"):
        assert f"`{path.stem}`" in content


def test_the_variant_that_the_page_of_machines_shows_is_one(tmp_path: Path) -> None:
    from hwmodel.config.arch import load_arch

    content = (ROOT / "configs" / "README.md").read_text(encoding="utf-8")
    (variant,) = re.findall(r"^```yaml\n(.*?)^```$", content, re.MULTILINE | re.DOTALL)
    (tmp_path / "mine.yaml").write_text(variant, encoding="utf-8")
    arch = load_arch("mine.yaml", tmp_path)
    assert (arch.name, arch.buffer_bytes("l0c")) == ("mine", 524288)
    assert arch.sources["units.fixpipe.bytes_per_cycle"].source == "what if"
    assert arch.sources["clock_mhz"].source == "override"


def test_what_the_page_of_machines_says_of_measurements_runs(tmp_path: Path) -> None:
    """Its table, and its three commands one after the other: the last one runs on what the second one fitted."""
    pytest.importorskip("scipy")
    content = (ROOT / "configs" / "README.md").read_text(encoding="utf-8")
    (rows,) = re.findall(r"^```csv\n(.*?)^```$", content, re.MULTILINE | re.DOTALL)
    (lines,) = re.findall(r"^```sh\n(.*?)^```$", content, re.MULTILINE | re.DOTALL)
    (tmp_path / "mine.csv").write_text(rows, encoding="utf-8")
    for command in lines.splitlines():
        assert command.startswith("hwmodel ")
        printed = bash(f"{HWMODEL}{command.removeprefix('hwmodel')}", tmp_path)
    assert "machine    ascend_a5_fit, " in printed
    header = rows.splitlines()[0].split(",")
    assert set(REQUIRED) <= set(header) <= {*REQUIRED, *OPTIONAL}
    assert f"`{', '.join(REQUIRED)}` are needed" in content


def test_the_example_of_the_numerics_page_runs(tmp_path: Path) -> None:
    content = (ROOT / "hwmodel" / "numerics" / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```$", content, re.MULTILINE | re.DOTALL)
    (tmp_path / "example.py").write_text(block, encoding="utf-8")
    assert "float32" in bash(f"{sys.executable} example.py", tmp_path)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_constraints_pin_everything_exactly() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert all(re.fullmatch(r"[\w.!+]+", version) for version in pins.values())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    for extra in project["project"]["optional-dependencies"].values():
        wanted += extra
    names = {normal(re.split(r"[<>=!~\[; ]", requirement)[0]) for requirement in wanted}
    assert names <= {normal(name) for name in pins}


def test_nothing_committed_names_a_machine_or_a_registry() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    words = re.compile("|".join(["/ho" + "me/", "/ro" + "ot/", r"pypi\.o" + "rg", "pythonho" + "sted"]))
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix in (".md", ".py", ".yaml", ".toml", ".txt", ".json", ".csv", "") and path.is_file():
            found = words.search(path.read_text(encoding="utf-8", errors="replace"))
            assert found is None, f"{name}: {found}"
