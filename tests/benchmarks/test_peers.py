"""SCALE-Sim and ZigZag from PyPI beside us, in a venv of their own: ``pytest -m benchmark -s`` this file.

Each is one whole process for one GEMM of n^3 on a 128 x 128 array: SCALE-Sim cycle by cycle (output stationary), ZigZag
by formula with a search of loop orders; ours is one core of A3 with every instruction simulated, timing only. Skipped
where the peers cannot be installed.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest
from process_cost import cost_of

pytestmark = pytest.mark.benchmark

HERE = Path(__file__).parent / "peers"
PACKAGES = ("numpy<2", "six", "scalesim==3.0.0", "zigzag-dse==3.9.1")
SIZES = {"SCALE-Sim 3.0.0": (256, 512), "ZigZag 3.9.1": (1024, 4096), "hwmodel": (512, 1024, 4096)}


@pytest.fixture(scope="module")
def python(request: pytest.FixtureRequest) -> Path:
    """Interpreter with the peers; made once and kept beside pytest's cache."""
    folder = Path(str(request.config.cache.mkdir("peers"))) / "venv"  # type: ignore[union-attr]
    found = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        done = subprocess.run([found, "-m", "pip", "install", "-q", *PACKAGES], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"the peers cannot be installed: {done.stderr.strip()[-200:]}")
        (folder / "ready").touch()
    return found


def test_peers(python: Path, tmp_path: Path) -> None:
    scripts = {"SCALE-Sim 3.0.0": "scale_sim.py", "ZigZag 3.9.1": "zigzag_gemm.py"}
    lines = [f"{'one GEMM of n^3, whole process':32s} {'n':>5s} {'seconds':>8s} {'MB':>6s}"]
    seconds: dict[tuple[str, int], float] = {}
    for name, sizes in SIZES.items():
        for n in sizes:
            folder = tmp_path / f"{name.split()[0]}-{n}"
            folder.mkdir()
            if name in scripts:
                command = [str(python), str(HERE / scripts[name]), str(n), str(folder)]
            else:
                extents = [f"--set=problem.{side}={n}" for side in "mkn"]
                command = [sys.executable, "-m", "hwmodel", "run", "silicon/a3_gemm_1536", *extents]
                command += ["--set=tiling.core_grid=[1,1]", "--values=skip", "--write=result", "-q", "-o", "run"]
            cost = cost_of(command, folder)
            seconds[name.split()[0], n] = cost.seconds
            lines.append(f"{name:32s} {n:5d} {cost.seconds:8.2f} {cost.megabytes:6.0f}")
    print("\n" + "\n".join(lines))
    assert seconds["hwmodel", 512] < seconds["SCALE-Sim", 512]
    assert seconds["hwmodel", 4096] < 2 * seconds["ZigZag", 4096]
