"""out.bin and out.npy: the output as the device has it, and as numbers; one more ``.bin`` for scales."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hwmodel import numerics as nm
from hwmodel.result import Result


def write(result: Result, path: Path) -> tuple[Path, ...]:
    """Write the raw bytes of each output (``out.scales`` to ``out.scales.bin``), and ``out.npy`` where it has values.

    ``out.npy`` holds float32, or int32 where the output is int32. Codes of a block format are no values by
    themselves: they get none.
    """
    written = []
    for stem, codes in result.outputs.items():
        target = path.with_name(path.stem + stem.removeprefix("out") + path.suffix)
        target.write_bytes(np.ascontiguousarray(codes).tobytes())
        written.append(target)
    codes = result.outputs["out"]
    if nm.DTYPES[result.out_dtype].block is None:
        target = path.with_suffix(".npy")
        values = codes.view(np.int32) if result.out_dtype == "int32" else nm.decode(codes, result.out_dtype)
        with target.open("wb") as file:
            np.lib.format.write_array(file, np.ascontiguousarray(values), version=(1, 0))
        written.append(target)
    return tuple(written)
