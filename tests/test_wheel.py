"""The wheel: built, installed into an empty environment, and run away from the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = folder.glob("hwmodel-*.whl")
    return found


@pytest.fixture(scope="module")
def home(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds the wheel, and sees the other packages of this one (not its own hwmodel)."""
    folder = tmp_path_factory.mktemp("away")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "env")], check=True)
    python = folder / "env" / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, str(wheel)], check=True, capture_output=True)
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    purelib = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    Path(purelib, "others.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder


def away(home: Path, *command: str) -> str:
    """Run a program of the environment in an empty folder; returns what it printed."""
    work = home / "work"
    work.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    program = str(home / "env" / "bin" / command[0])
    done = subprocess.run(
        [program, *command[1:]], cwd=work, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_configs_and_scenarios_are_part_of_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        for folder in ("configs", "scenarios"):
            for path in (ROOT / folder).rglob("*"):
                if path.is_file():
                    name = f"hwmodel/data/{path.relative_to(ROOT).as_posix()}"
                    assert archive.read(name) == path.read_bytes()
        assert not [name for name in names if name.split("/")[0] in ("tests", "reports")]
        metadata = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    assert "License-Expression: Apache-2.0" in metadata
    assert str(ROOT) not in metadata


def test_the_package_runs_from_the_wheel_and_nowhere_else(home: Path) -> None:
    code = "import hwmodel; from hwmodel.config.resources import root; print(hwmodel.__file__); print(root())"
    package, data = away(home, "python", "-c", code).splitlines()
    assert Path(package).is_relative_to(home / "env")
    assert Path(data).is_relative_to(home / "env")


def test_a_shipped_scenario_runs_by_name(home: Path) -> None:
    document = json.loads(away(home, "hwmodel", "run", "hif4_64x64x64", "--json"))
    assert document["values"]["status"] == "bit_exact"
    assert document["expect"] == {"status": "met", "failures": []}
    (run,) = (home / "work" / "reports" / "runs").iterdir()
    assert run.name.startswith("hif4_64x64x64-")
    assert (run / "timeline.png").stat().st_size > 10_000
    golden = json.loads((ROOT / "tests" / "scenarios" / "golden.json").read_text(encoding="utf-8"))
    assert document["values"]["sha256"] == golden["scenarios"]["hif4_64x64x64"]["sha256"]


def test_a_scenario_that_reads_a_file_finds_it_in_the_wheel(home: Path) -> None:
    document = json.loads(away(home, "hwmodel", "run", "npy_operand", "--json", "--write", "none"))
    assert document["expect"]["status"] == "met"


def test_machines_and_scenarios_are_listed(home: Path) -> None:
    machines = away(home, "hwmodel", "list", "arch")
    for path in (ROOT / "configs" / "arch").glob("*.yaml"):
        assert path.stem in machines
    scenarios = away(home, "hwmodel", "list", "scenarios")
    for path in (ROOT / "scenarios").glob("*.yaml"):
        assert path.stem in scenarios


def test_a_scenario_of_the_users_own_names_a_shipped_machine(home: Path) -> None:
    (home / "work" / "mine.yaml").write_text(
        "name: mine\narch: ascend_a6\nproblem: {op: matmul, m: 16, k: 64, n: 16, a: hif4, b: hif4}\n"
        "tiling: {kind: n_split}\n",
        encoding="utf-8",
    )
    assert json.loads(away(home, "hwmodel", "run", "mine.yaml", "--json", "--write", "none"))["name"] == "mine"
