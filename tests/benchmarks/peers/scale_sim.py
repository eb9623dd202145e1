"""One GEMM of n^3 in SCALE-Sim on a 128 x 128 array: ``python scale_sim.py N FOLDER``. Run by ``test_peers.py``."""

import contextlib
import io
import sys
from pathlib import Path

CONFIG = """
[general]
run_name = gemm
[architecture_presets]
ArrayHeight: 128
ArrayWidth: 128
IfmapSramSzkB: 512
FilterSramSzkB: 512
OfmapSramSzkB: 256
IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Bandwidth: 100
Dataflow: os
MemoryBanks: 1
ReadRequestBuffer: 32
WriteRequestBuffer: 32
[layout]
IfmapCustomLayout: False
IfmapSRAMBankBandwidth: 10
IfmapSRAMBankNum: 10
IfmapSRAMBankPort: 2
FilterCustomLayout: False
FilterSRAMBankBandwidth: 10
FilterSRAMBankNum: 10
FilterSRAMBankPort: 2
[sparsity]
SparsitySupport: false
SparseRep: ellpack_block
OptimizedMapping: false
BlockSize: 8
RandomNumberGeneratorSeed: 40
[run_presets]
InterfaceBandwidth: CALC
UseRamulatorTrace: False
"""
LAYOUT = "Layer name, " + ", ".join(f"f{number}" for number in range(20)) + ",\n"


def main() -> None:
    from scalesim.scale_sim import scalesim  # type: ignore[import-not-found]

    n, folder = int(sys.argv[1]), Path(sys.argv[2])
    (folder / "gemm.cfg").write_text(CONFIG)
    (folder / "gemm.csv").write_text(f"Layer, M, N, K,\ngemm, {n}, {n}, {n},\n")
    (folder / "layout.csv").write_text(LAYOUT + "gemm, " + ", ".join(["1"] * 20) + ",\n")
    with contextlib.redirect_stdout(io.StringIO()):
        sim = scalesim(
            save_disk_space=True, verbose=False, config=str(folder / "gemm.cfg"), topology=str(folder / "gemm.csv"),
            layout=str(folder / "layout.csv"), input_type_gemm=True,
        )  # fmt: skip
        sim.run_scale(top_path=str(folder))
    print("done")


main()
