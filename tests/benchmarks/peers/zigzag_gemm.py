"""One GEMM of n^3 in ZigZag on a 128 x 128 array, by formula: ``python zigzag_gemm.py N FOLDER``."""

import logging
import sys
from importlib.resources import files
from pathlib import Path


def main() -> None:
    import yaml  # type: ignore[import-untyped]
    from zigzag import api  # type: ignore[import-not-found]

    n, folder = int(sys.argv[1]), Path(sys.argv[2])
    inputs = files("zigzag") / "inputs"
    array = yaml.safe_load((inputs / "hardware" / "gemm_l1_l3.yaml").read_text())
    array["operational_array"]["sizes"] = [128, 128, 1]
    array["memories"]["l3"]["size"] = 2**34  # bits: everything fits, only loop orders are searched
    array["memories"]["reg_O"]["size"] = 2**34  # bits: sums are kept beside the array
    for port in (port for memory in array["memories"].values() for port in memory["ports"]):
        port["bandwidth_max"] = 2**16
    mapping = yaml.safe_load((inputs / "mapping" / "gemm_l1.yaml").read_text())[:1]
    mapping[0]["spatial_mapping"] = {"D1": ["B, 128"], "D2": ["C, 128"], "D3": ["K, 1"]}
    del mapping[0]["temporal_ordering"]
    layer = {
        "id": 0, "operator_type": "Gemm", "equation": "O[b][k]+=I[b][c]*W[c][k]", "dimension_relations": [],
        "loop_dims": ["B", "K", "C"], "loop_sizes": [n, n, n],
        "operand_precision": {"O": 32, "O_final": 32, "W": 8, "I": 8},
        "operand_source": {"I": 0, "W": 0},
    }  # fmt: skip
    names = {"array": array, "mapping": mapping, "work": [layer]}
    for name, content in names.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    logging.disable(logging.CRITICAL)
    paths = [str(folder / f"{name}.yaml") for name in ("work", "array", "mapping")]
    found = api.get_hardware_performance_zigzag(
        *paths, opt="latency", dump_folder=str(folder / "out"), pickle_filename=str(folder / "out" / "cmes.pickle"),
        loma_show_progress_bar=False,
    )  # fmt: skip
    print(int(found[1]))


main()
