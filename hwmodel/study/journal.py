"""A journal: one JSON line for each finished task, so that a killed study goes on where it was.

Every line goes to the system at once, in one write: a process that is killed loses what was under way and no more. A
torn last line is left out when it is read, and cut off before the next one is written. Each line carries a checksum: a
figure that a bad disk or an editor changed must not end up in a table.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from hwmodel.errors import InputError
from hwmodel.study.measure import Record

NAME = "journal.jsonl"
VERSION = 2


class Journal:
    """The records of a study by key. Use as a context; ``fresh`` forgets those of an earlier one."""

    def __init__(self, path: Path, *, fresh: bool) -> None:
        self.path = path
        self.records: dict[str, Record] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            whole = 0 if fresh else self._read()
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            os.ftruncate(self._file, whole)
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror or error})") from None

    def add(self, key: str, record: Record) -> None:
        """Append a record."""
        self.records[key] = record
        entry = {"version": VERSION, "key": key, **asdict(record)}
        line = json.dumps({**entry, "checksum": _checksum(entry)}, separators=(",", ":"))
        os.write(self._file, (line + "\n").encode())

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._file)

    def _read(self) -> int:
        """Read what is there; returns how many bytes are whole lines."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return 0
        whole = 0
        for line in text.splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break
            try:
                found = json.loads(line)
                if found["version"] == VERSION and found.pop("checksum") == _checksum(found):
                    self.records[found["key"]] = Record(found["columns"], found["problem"], found["code"])
            except (ValueError, LookupError, TypeError, AttributeError):
                pass  # not ours, or damaged: its point runs again
            whole += len(line)
        return whole


def _checksum(entry: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(entry, separators=(",", ":")).encode())
