"""Run folders appear whole, replace earlier runs only, and survive interrupts and each other."""

from __future__ import annotations

import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from hwmodel.config.runfolder import (
    MARKER,
    OF_A_RUN,
    check_parent,
    check_replaceable,
    check_writable,
    is_run,
    written_aside,
)
from hwmodel.errors import InputError
from hwmodel.writers import WRITERS


def write(folder: Path, text: str = "x", extra: str = "out.bin") -> None:
    with written_aside(folder) as aside:
        (aside / MARKER).write_text(text)
        (aside / extra).write_text(text)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_folder_with_folders_above_it(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b" / "run")
    assert names(tmp_path / "a" / "b" / "run") == ["out.bin", MARKER]
    assert names(tmp_path / "a" / "b") == ["run"]
    assert is_run(tmp_path / "a" / "b" / "run")


def test_the_folder_has_the_usual_rights(tmp_path: Path) -> None:
    write(tmp_path / "run")
    (tmp_path / "plain").mkdir()
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("run", "plain")]
    assert modes[0] == modes[1]


def test_an_earlier_run_is_replaced_whole(tmp_path: Path) -> None:
    write(tmp_path / "run", extra="out.old.bin")
    write(tmp_path / "run", "y")
    assert names(tmp_path / "run") == ["out.bin", MARKER]
    assert (tmp_path / "run" / MARKER).read_text() == "y"
    assert names(tmp_path) == ["run"]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    write(tmp_path / "run")
    assert is_run(tmp_path / "run")


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert is_run(tmp_path / "real")


def test_the_current_folder_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    before = Path.cwd().stat().st_ino
    write(Path())
    write(Path(), "y", "other.bin")
    assert names(tmp_path / "run") == ["other.bin", MARKER]
    assert Path.cwd().stat().st_ino == before
    assert names(tmp_path) == ["run"]


def test_other_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match=r"not one that holds thesis.txt"):
        write(tmp_path)
    with pytest.raises(InputError, match=r"thesis.txt: expected a folder for the run, not a file"):
        write(tmp_path / "thesis.txt")
    with pytest.raises(InputError, match=r"not one that holds thesis.txt"):
        check_parent(tmp_path)
    with pytest.raises(InputError, match="expected a folder for the run, not a file"):
        check_parent(tmp_path / "thesis.txt")
    with pytest.raises(InputError, match="cannot write the run folder"):
        check_writable(tmp_path / "thesis.txt" / "run")
    assert names(tmp_path) == ["thesis.txt"]


@pytest.mark.parametrize("name", ["notes.txt", "sub/out.bin", "out.bin/x"])
def test_what_lies_beside_a_run_is_not_lost(tmp_path: Path, name: str) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / MARKER).write_text("earlier")
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).write_text("mine")
    with pytest.raises(InputError, match=f"not one that holds {name.split('/')[0]}"):
        write(run)
    assert (run / name).read_text() == "mine"


def test_every_file_of_a_writer_is_part_of_a_run() -> None:
    for name in [*(writer.filename for writer in WRITERS.values()), "out.npy", "out.scales.bin"]:
        assert OF_A_RUN.fullmatch(name), name


def test_a_folder_of_runs(tmp_path: Path) -> None:
    check_parent(tmp_path / "new")
    write(tmp_path / "one")
    check_parent(tmp_path)
    with pytest.raises(InputError, match="not one that holds one"):
        check_replaceable(tmp_path)


def stop_in_the_middle(folder: Path, error: type[BaseException]) -> None:
    with written_aside(folder) as aside:
        (aside / MARKER).write_text("half")
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit])
def test_nothing_is_left_when_writing_stops_in_the_middle(tmp_path: Path, error: type[BaseException]) -> None:
    write(tmp_path / "run")
    for name in ("run", "new"):
        with pytest.raises(error):
            stop_in_the_middle(tmp_path / name, error)
    assert names(tmp_path) == ["run"]
    assert (tmp_path / "run" / MARKER).read_text() == "x"


def test_a_full_disk_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"run: cannot write the run folder \(No space left"):  # noqa: SIM117
        with written_aside(tmp_path / "run"):
            raise OSError(28, "No space left on device")
    assert names(tmp_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_unwritable_folders(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o555)
    with pytest.raises(InputError, match="cannot write the run folder"):
        check_writable(tmp_path / "locked" / "run")


def write_often(folder: str, text: str) -> None:
    for _ in range(30):
        write(Path(folder), text * 1000)


def test_two_processes_may_write_the_same_folder(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    jobs = [context.Process(target=write_often, args=(str(tmp_path / "run"), text)) for text in "ab"]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
        assert job.exitcode == 0
    assert names(tmp_path) == ["run"]
    assert (tmp_path / "run" / MARKER).read_text() == (tmp_path / "run" / "out.bin").read_text()
