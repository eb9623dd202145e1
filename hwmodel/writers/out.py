"""out.bin and out.npy: the output as the device has it, and as numbers; one more ``.bin`` for scales."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hwmodel import numerics as nm
from hwmodel.result import Result


def write(result: Result, path: Path) -> tuple[Path, ...]:
    """Write the raw bytes of each output (``out.scales`` to ``out.scales.bin``), and their values (``out.npy``).

    ``out.npy`` holds float32, or int32 where the output is int32; of a quantised tensor, what its codes and scales
    stand for. Codes of a block format without scales are no values: they get none.
    """
    written = []
    for stem, codes in result.outputs.items():
        target = path.with_name(path.stem + stem.removeprefix("out") + path.suffix)
        target.write_bytes(np.ascontiguousarray(codes).tobytes())
        written.append(target)
    values = _values(result)
    if values is not None:
        target = path.with_suffix(".npy")
        with target.open("wb") as file:
            np.lib.format.write_array(file, np.ascontiguousarray(values), version=(1, 0))
        written.append(target)
    return tuple(written)


def _values(result: Result) -> np.ndarray[Any, Any] | None:
    codes, dtype, problem = result.outputs["out"], result.out_dtype, result.problem
    if result.out_values is not None or nm.DTYPES[dtype].block is not None:
        return result.out_values
    if problem.get("op") == "quantize":
        codes = nm.unpack_rows(codes, problem["rows"], problem["cols"], dtype)
    return codes.view(np.int32) if dtype == "int32" else nm.decode(codes, dtype)
