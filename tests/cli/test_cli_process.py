"""The command line as a process: entry points, what it imports, Ctrl-C, closed pipes, shipped names elsewhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hwmodel.config.resources import shipped_scenarios

HWMODEL = [sys.executable, "-m", "hwmodel"]
HEAVY = ("matplotlib", "polars", "numba", "ml_dtypes", "rich", "scipy", "optuna", "distributed", "PIL")


def test_the_fast_path_imports_nothing_heavy(here: Path) -> None:
    code = (
        "import sys; from hwmodel.cli import main\n"
        "code = main(['run', 'small.yaml', '--values', 'skip', '--json', '--write', 'none'])\n"
        f"print(code, sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "0 []\n"


def test_module_and_script(here: Path) -> None:
    for command in (HWMODEL, [str(Path(sys.executable).with_name("hwmodel"))]):
        done = subprocess.run([*command, "check", "small.yaml"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("small: ")
    done = subprocess.run([*HWMODEL, "check", "none.yaml"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_shipped_names_work_from_anywhere(here: Path) -> None:
    name = next(iter(shipped_scenarios()))
    done = subprocess.run([*HWMODEL, "check", name], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_pipe_is_no_error(here: Path) -> None:
    process = subprocess.Popen([*HWMODEL, "list", "arch", "ascend_a6"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0


SLOW = """\
import sys
from pathlib import Path
from hwmodel import experiment
from hwmodel.cli import main
from hwmodel.writers import json_

def write(result, path):
    path.write_text("{")
    print("writing", flush=True)
    import time
    time.sleep(60)

json_.write = write
sys.exit(main(["run", "small.yaml", "-o", "runs/x", "-q"]))
"""


def test_ctrl_c_leaves_no_half_written_folder(here: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=here
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    assert any(path.name.startswith(".hwmodel-") for path in (here / "runs").iterdir())
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "interrupted\n")
    assert list((here / "runs").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_process_that_is_told_to_end_leaves_no_file_aside(here: Path, number: signal.Signals) -> None:
    script = SLOW.replace("sys.exit(main(", "sys.argv[1:] = (").replace('"-q"]))', '"-q"])\nsys.exit(main())')
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=here
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (128 + number, "terminated\n")
    assert list((here / "runs").iterdir()) == []


def test_what_a_killed_process_left_aside_is_removed_by_the_next_one(here: Path) -> None:
    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", SLOW], stdout=subprocess.PIPE, text=True, cwd=here)
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        return process

    runs = here / "runs"
    killed = start()
    (left,) = runs.iterdir()
    killed.kill()
    killed.communicate(timeout=30)
    assert list(runs.iterdir()) == [left]
    (runs / ".hwmodel-of-somebody-else").mkdir()
    alive = start()
    try:
        assert not left.exists()
        (written,) = set(runs.iterdir()) - {runs / ".hwmodel-of-somebody-else"}
        done = subprocess.run([*HWMODEL, "run", "small.yaml", "-o", "runs/y", "-q"], check=False)
        assert done.returncode == 0
        assert written.is_dir()  # its process lives
    finally:
        alive.send_signal(signal.SIGINT)
        alive.communicate(timeout=30)
    assert {path.name for path in runs.iterdir()} == {".hwmodel-of-somebody-else", "y"}


READY = """\
import sys
from hwmodel.cli import main
from hwmodel.cli.interrupt import interrupts
interrupts.listen()
print("ready", flush=True)
sys.exit(main())
"""
"""The entry point, which says when it has begun: what Python does before is not ours."""


def interrupted(command: str, delay: float, folder: Path) -> tuple[int, str]:
    """Exit code and stderr of a command whose whole process group gets Ctrl-C, as from a terminal."""
    process = subprocess.Popen(
        [sys.executable, "-c", READY, *command.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(delay)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


@pytest.mark.parametrize(
    ("command", "step"),
    [
        ("run small.yaml -q", 0.02),  # imports numpy, pydantic and, to write, matplotlib
        ("list", 0.05),
        ("sweep small.yaml --vary problem.k=64,128,192,256 -j 2 -o out --json", 0.1),  # starts processes
    ],
)
def test_ctrl_c_at_any_time_is_130_and_one_line(here: Path, command: str, step: float) -> None:
    ends = [interrupted(command, step * count, here) for count in range(round(0.6 / step) + 1)]
    assert ends[0] == (130, "interrupted\n")
    assert set(ends) <= {(130, "interrupted\n"), (0, "")}
    runs = here / "reports" / "runs"
    assert not runs.exists() or not any(path.name.startswith(".") for path in runs.iterdir())


SWALLOWED = """\
import signal, sys
from hwmodel.cli import main

class Deaf:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

def prepare(*arguments, **flags):
    try:
        if {place!r} == "import":
            import noisy
        elif {place!r} == "destructor":
            Deaf()
            import time
            time.sleep(30)
        else:
            signal.raise_signal(signal.SIGINT)
    except BaseException as error:
        raise ImportError("initialization failed") from error
    import time
    time.sleep(30)

from hwmodel import experiment
experiment.prepare = prepare
sys.argv[1:] = ["run", "small.yaml"]
sys.exit(main())
"""


@pytest.mark.parametrize("place", ["import", "destructor", "here"])
def test_ctrl_c_is_not_taken_for_something_else(here: Path, place: str) -> None:
    (here / "noisy.py").write_text(
        "import signal\ntry:\n    signal.raise_signal(signal.SIGINT)\nexcept BaseException:\n    raise ImportError\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(here)}
    script = SWALLOWED.format(place=place)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=environment, timeout=20
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_two_processes_may_run_the_same_scenario(here: Path) -> None:
    command = [*HWMODEL, "run", "small.yaml", "-q", "--write", "result,out"]
    jobs = [subprocess.Popen(command, stderr=subprocess.PIPE, cwd=here, env=os.environ) for _ in range(2)]
    assert [(job.communicate()[1], job.returncode) for job in jobs] == [(b"", 0), (b"", 0)]
    (folder,) = (here / "reports" / "runs").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == [
        "out.bin", "out.npy", "result.json", "scenario.resolved.yaml"
    ]  # fmt: skip


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", [["list"], ["schema"], ["check", "small.yaml"], ["--help"]])
def test_a_full_stdout_is_one_line(here: Path, arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*HWMODEL, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert (done.returncode, done.stderr) == (2, "stdout: cannot be written (No space left on device)\n")
        done = subprocess.run([*HWMODEL, "check", "none.yaml"], stderr=full, check=False)
        assert done.returncode == 2


@pytest.mark.skipif(os.name != "posix", reason="closes streams in a shell")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error(here: Path, closed: str) -> None:
    command = f"{sys.executable} -m hwmodel run small.yaml -o x {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (here / "x" / "out.bin").stat().st_size == 32 * 64 * 2
    assert subprocess.run(["sh", "-c", f"{sys.executable} -m hwmodel run no {closed}"], check=False).returncode == 2


@pytest.mark.skipif(os.name != "posix", reason="removes the folder it is in")
def test_a_current_folder_that_is_gone(here: Path) -> None:
    command = f"mkdir gone && cd gone && rmdir ../gone && {sys.executable} -m hwmodel list arch"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (2, "expected a current folder, but No such file or directory\n")


@pytest.mark.parametrize(
    "arguments",
    [["run", "none.yaml"], ["run", "small.yaml", "--bogus"], ["check", "none.yaml", "x"], ["list", "x"]],
)
def test_json_is_one_document_also_when_it_fails(here: Path, arguments: list[str]) -> None:
    done = subprocess.run([*HWMODEL, *arguments, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert json.loads(done.stdout) == {"schema_version": 1, "error": "; ".join(done.stderr.splitlines())}
