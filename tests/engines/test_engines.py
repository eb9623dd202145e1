"""Engines: one interface, and a cluster that loses a worker in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path

import pytest

from hwmodel.engines import ENGINES, check_engine, completed, default_jobs, open_engine
from hwmodel.engines.local import MOST_FOR_EACH_PROCESSOR
from hwmodel.errors import InputError, SimulationError
from hwmodel.study.points import Template, parse_axes
from hwmodel.study.pool import Workers
from hwmodel.study.sweep import sweep


def square(number: int) -> int:
    return number * number


def fail(number: int) -> int:
    raise ValueError(f"no {number}")


def process(_number: int) -> int:
    return os.getpid()


def test_one_job_runs_in_this_process_and_two_in_others() -> None:
    with open_engine("local", jobs=1) as executor:
        assert isinstance(executor, Executor)
        assert {pid for _, pid in completed(executor, process, range(3), width=2)} == {os.getpid()}
    with open_engine("local", jobs=2) as executor:
        found = dict(completed(executor, square, range(10), width=4))
        assert found == {number: number * number for number in range(10)}
        assert os.getpid() not in {pid for _, pid in completed(executor, process, range(4), width=4)}


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_of_a_task_is_raised(jobs: int) -> None:
    with pytest.raises(ValueError, match="no 7"), open_engine("local", jobs=jobs) as executor:
        list(completed(executor, fail, [7], width=2))


def test_tasks_are_taken_when_there_is_room() -> None:
    taken = []

    def tasks() -> Iterator[int]:
        for number in range(6):
            taken.append(number)
            yield number

    with open_engine("local", jobs=1) as executor:
        next(iter(completed(executor, square, tasks(), width=2)))
    assert len(taken) <= 3


@pytest.mark.parametrize(
    ("name", "settings", "part"),
    [
        ("loca", {}, "did you mean 'local'"),
        ("local", {"scheduler": "tcp://127.0.0.1:1"}, "--scheduler: expected together with --engine dask"),
        ("local", {"jobs": 0}, "--jobs: expected a number of at least 1, not 0"),
    ],
)
def test_settings_that_do_not_fit(name: str, settings: dict[str, object], part: str) -> None:
    with pytest.raises(InputError, match=part):
        check_engine(name, **settings)  # type: ignore[arg-type]


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    """Killed in the middle, the parent leaves no process behind."""
    script = tmp_path / "parent.py"
    script.write_text(
        "from hwmodel.engines import completed, open_engine\n"
        "from tasks import nap, pid\n"
        "with open_engine('local', jobs=2) as executor:\n"
        "    print(*{p for _, p in completed(executor, pid, range(8), width=8)}, flush=True)\n"
        "    list(completed(executor, nap, range(4), width=4))\n"
    )
    (tmp_path / "tasks.py").write_text(
        "import os, time\ndef nap(_):\n    time.sleep(60)\ndef pid(_):\n    time.sleep(0.2)\n    return os.getpid()\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        parent.send_signal(signal.SIGKILL)
    assert pids
    deadline = time.monotonic() + 10
    while any(_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_alive(pid) for pid in pids)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def kill_once(mark: str) -> str:
    """Ends its process the first time, as the system does when memory runs out."""
    if not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return mark


def kill_always(_number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def test_what_a_killed_process_was_at_runs_again(tmp_path: Path) -> None:
    marks = [str(tmp_path / name) for name in "ab"]
    with open_engine("local", jobs=2) as executor:
        assert dict(completed(executor, kill_once, marks, width=1)) == {mark: mark for mark in marks}
        assert dict(completed(executor, square, range(6), width=4)) == {number: number * number for number in range(6)}


def test_work_that_kills_every_process_ends_with_one_line() -> None:
    with pytest.raises(SimulationError, match="killed 3 times"), open_engine("local", jobs=2) as executor:
        list(completed(executor, kill_always, [1], width=2))


def test_more_jobs_than_pay_start_no_more_processes() -> None:
    with open_engine("local", jobs=1000) as executor:
        pids = {pid for _, pid in completed(executor, process, range(40), width=40)}
    assert len(pids) <= MOST_FOR_EACH_PROCESSOR * default_jobs()


@pytest.mark.parametrize("engine", ["local", "dask"])
def test_a_script_may_sweep_at_its_top_level(tmp_path: Path, engine: str) -> None:
    """Spawned processes would import the script again, and find no guard in it."""
    if engine == "dask":
        pytest.importorskip("distributed")
    script = tmp_path / "script.py"
    script.write_text(
        "import hwmodel\n"
        "print('once')\n"
        "scenario = hwmodel.load('hif4_64x64x64', overrides={'expect': {}})\n"
        f"table = hwmodel.sweep(scenario, {{'problem.m': [16, 32]}}, jobs=2, engine='{engine}')\n"
        "print(table.height)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("once\n2\n", 0), done.stderr


def test_every_engine_says_what_it_is() -> None:
    assert list(ENGINES) == ["local", "dask"]
    assert all(kind.summary for kind in ENGINES.values())


# -- dask --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Address, and a scheduler and two workers on loopback as processes of their own."""
    pytest.importorskip("distributed")
    import json

    file = tmp_path / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    started = [subprocess.Popen([*scheduler, "--no-dashboard", "--scheduler-file", str(file)], **quiet)]  # type: ignore[call-overload]
    try:
        started += [
            subprocess.Popen(  # type: ignore[call-overload]
                [*worker, "--host", "127.0.0.1", "--scheduler-file", str(file), "--name", f"w{number}"], **quiet
            )
            for number in range(2)
        ]
        deadline = time.monotonic() + 15
        while not file.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield json.loads(file.read_text())["address"], started
    finally:
        for each in reversed(started):
            each.kill()
        for each in started:
            each.wait(10)


def test_a_cluster_that_loses_a_worker_gives_the_same_table(
    cluster: tuple[str, list[subprocess.Popen[bytes]]],
) -> None:
    import distributed

    address, (_, *workers) = cluster
    with distributed.Client(address, timeout=10) as client:
        client.wait_for_workers(2, timeout=15)
    template = Template.read("hif4_512x128x512")
    axes = parse_axes({"tiling.tile_n": [64, 128], "arch.units.fixpipe.bytes_per_cycle": list(range(30, 50))})
    killed = []

    def progress(done: int) -> None:
        if done >= 8 and not killed:
            killed.append(done)
            workers[0].kill()

    found = sweep(template, axes, workers=Workers("dask", scheduler=address), progress=progress)
    assert killed
    assert workers[0].wait(5) != 0
    assert len(found.valid) == 40
    local = sweep(template, axes, workers=Workers("local", jobs=1))
    assert found.table().equals(local.table())


def test_a_scheduler_that_dies_ends_the_study_with_one_line(
    cluster: tuple[str, list[subprocess.Popen[bytes]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import distributed

    import hwmodel.engines.dask as engine

    monkeypatch.setattr(engine, "CONNECT_SECONDS", 3)
    address, (scheduler, *_) = cluster
    with distributed.Client(address, timeout=10) as client:
        client.wait_for_workers(2, timeout=15)

    def study() -> None:
        with open_engine("dask", scheduler=address) as executor:
            for number, _ in completed(executor, abs, range(10_000), width=4):
                if number == 20:
                    scheduler.kill()

    with pytest.raises(SimulationError, match=f"lost the scheduler of {address}"):
        study()


def test_workers_without_the_package_are_told_of(cluster: tuple[str, list[subprocess.Popen[bytes]]]) -> None:
    address, _ = cluster
    import distributed

    with distributed.Client(address, timeout=10) as client:
        client.wait_for_workers(2, timeout=15)
    with pytest.raises(SimulationError, match="same version of hwmodel"), open_engine("dask", scheduler=address) as it:
        list(completed(it, square, [1], width=1))  # this module is not there


def test_a_scheduler_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    import hwmodel.engines.dask as engine

    monkeypatch.setattr(engine, "CONNECT_SECONDS", 1)
    with (
        pytest.raises(InputError, match=r"cannot reach tcp://127\.0\.0\.1:9"),
        open_engine("dask", scheduler="tcp://127.0.0.1:9"),
    ):
        pass
