"""Accumulation groups in the banks of PSUM: who started each, whether its last matmul came, and what it wrote.

``stop`` is a matter of the user: true, the last matmul of a group; false, more of them follow; unsaid, nobody checks
it. A group that says that more follow is open until a matmul says stop: nobody else may read its bank or write its
sums, no start may clear them, and the program may not end.
"""

from __future__ import annotations

from collections.abc import Iterator

from hwmodel.errors import InputError
from hwmodel.listing.neuron.places import BANK_BYTES, Region


class Group:
    """A group in some partitions of a bank: the instructions that started it and went on with it last."""

    def __init__(self, number: int, bank: int, partition: int, rows: int) -> None:
        self.started = self.last = number
        self.bank = bank
        self.partition = partition
        self.rows = rows
        self.stop: bool | None = None
        self.written: set[tuple[int, int]] = set()
        """First byte and end of what its matmuls wrote, in each partition of PSUM."""

    @property
    def is_open(self) -> bool:
        """Whether it said that more matmuls follow."""
        return self.stop is False

    def wrote(self, region: Region) -> bool:
        """Whether the region overlaps its sums."""
        first, end = region.offset, region.offset + region.size
        return any(first < last and begin < end for begin, last in self.written)


class Groups:
    """All groups at one point of a program."""

    def __init__(self) -> None:
        self._groups: list[Group] = []

    def multiplied(self, number: int, dst: Region, stop: bool | None) -> None:
        """A matmul added to ``dst``: it goes on with the groups there, or starts one in each bank."""
        for bank in banks(dst):
            found = list(self._in(bank, dst.partition, dst.rows))
            if not found:
                found = [Group(number, bank, dst.partition, dst.rows)]
                self._groups += found
            for group in found:
                group.last = number
                group.stop = group.stop if stop is None else stop
                group.written.add((dst.offset, dst.offset + dst.size))

    def cleared(self, clear: tuple[int, int], partitions: tuple[int, int], *, strict: bool) -> None:
        """A start ends the groups whose sums it clears; InputError where one is open and ``strict``."""
        (first, length), (partition, rows) = clear, partitions
        for bank in range(first // BANK_BYTES, (first + length) // BANK_BYTES):
            for group in list(self._in(bank, partition, rows)):
                if strict and group.is_open:
                    raise InputError(
                        f"starts with clearing bank {bank}, where the group that instruction {group.started} started "
                        "still lacks its stop: one group a bank at a time, its last matmul says stop: true"
                    )
                self._groups.remove(group)

    def check_read(self, region: Region) -> None:
        """InputError where an engine reads a bank of an open group."""
        for bank in banks(region):
            for group in self._in(bank, region.partition, region.rows):
                if group.is_open:
                    raise InputError(
                        f"reads {region}, bank {bank}, before the stop of the group that instruction {group.started} "
                        "started: the last matmul of a group says stop: true"
                    )

    def check_write(self, region: Region) -> None:
        """InputError where an engine overwrites the sums of an open group."""
        for bank in banks(region):
            for group in self._in(bank, region.partition, region.rows):
                if group.is_open and group.wrote(region):
                    raise InputError(
                        f"writes {region}, bank {bank}, into the open group that instruction {group.started} started: "
                        "only matmuls add to it until one says stop: true"
                    )

    def left_open(self) -> Group | None:
        """The first group that waits for a matmul that never comes, at the end of a program."""
        return next((group for group in self._groups if group.is_open), None)

    def _in(self, bank: int, partition: int, rows: int) -> Iterator[Group]:
        """Groups that use some of these partitions of a bank."""
        for group in self._groups:
            if group.bank == bank and group.partition < partition + rows and partition < group.partition + group.rows:
                yield group


def banks(region: Region) -> range:
    """Banks of PSUM that a region lies in."""
    if region.space != "psum":
        return range(0)
    return range(region.offset // BANK_BYTES, (region.offset + region.size - 1) // BANK_BYTES + 1)
