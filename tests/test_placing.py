"""Files appear whole, and what is no file is never replaced by one."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from hwmodel.errors import InputError
from hwmodel.placing import replace_file


def test_a_file_is_replaced_and_nothing_is_left_aside(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b.txt"
    for text in ("one", "two"):
        assert replace_file(target, lambda path, text=text: path.write_text(text)) == target  # type: ignore[misc]
    assert target.read_text() == "two"
    assert [path.name for path in target.parent.iterdir()] == ["b.txt"]


def test_a_write_that_stops_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    target.write_text("old")

    def half(path: Path) -> None:
        path.write_text("ne")
        raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match=r"cannot be written \(No space left on device\)"):
        replace_file(target, half)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "link"
    link.symlink_to("elsewhere/file")
    for text in ("one", "two"):
        replace_file(link, lambda path, text=text: path.write_text(text))  # type: ignore[misc]
        assert link.is_symlink()
        assert (tmp_path / "elsewhere" / "file").read_text() == text


def test_a_pipe_gets_the_bytes_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    replace_file(pipe, lambda path: path.write_text("through"))
    reader.join(10)
    assert found == ["through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Is a directory"):
        replace_file(tmp_path, lambda path: path.write_text("x"))
