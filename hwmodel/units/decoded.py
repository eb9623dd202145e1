"""Values that were decoded before, so that a tile of A or B is decoded once and not for every tile it meets."""

from __future__ import annotations

from typing import Any

import numpy as np

from hwmodel import numerics as nm

Array = np.ndarray[Any, Any]


class Decoded:
    """Values of read-only codes. Nobody can have changed them since, so what they decode to is still right.

    Entries are found by their place in memory and hold the codes, so that the place is not used for something else.
    The oldest ones go when there are more than ``limit_bytes`` of values.
    """

    def __init__(self, limit_bytes: int = 96 << 20) -> None:
        self.limit_bytes = limit_bytes
        self._bytes = 0
        self._entries: dict[tuple[Any, ...], tuple[Array, Array]] = {}

    def decode(self, codes: Array, element: str) -> Array:
        """``nm.decode(codes, element)``, which nobody may change."""
        if codes.flags.writeable:
            return nm.decode(codes, element)
        key = (codes.ctypes.data, codes.shape, codes.strides, element)
        found = self._entries.pop(key, None)
        if found is None:
            values = nm.decode(codes, element)
            found = (codes, values)
            self._bytes += values.nbytes
            while self._bytes > self.limit_bytes and self._entries:
                _, dropped = self._entries.pop(next(iter(self._entries)))
                self._bytes -= dropped.nbytes
        self._entries[key] = found
        return found[1]
