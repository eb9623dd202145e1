"""Values of narrow number formats: element codes, block scales, layouts, products in a stated order, casts.

Needs numpy only; compiled kernels come with numba when the work is large enough. ``DTYPES`` lists the formats and
``RULES`` the quantiser rules. Results are bit for bit the same with and without numba, on every machine.
"""

from hwmodel.numerics.backend import set_backend, set_threads
from hwmodel.numerics.blocks import decode_operand, dequantize, quantize
from hwmodel.numerics.casts import cast_out
from hwmodel.numerics.cells import (
    e8m0_cells,
    hif4_cells,
    read_e8m0_cells,
    read_hif4_cells,
    read_scale_cells,
    scale_cell_bytes,
    scale_cells,
)
from hwmodel.numerics.codec import convert, decode, decode_int, encode
from hwmodel.numerics.dtypes import DTYPES, RULES, Block, Dtype, Rule
from hwmodel.numerics.formats import FORMATS, ElementFormat
from hwmodel.numerics.hif4 import Hif4Rule
from hwmodel.numerics.layouts import LAYOUTS, from_layout, layout_bytes, pack_rows, to_layout, unpack_rows
from hwmodel.numerics.mx import MxRule
from hwmodel.numerics.neuron import (
    deinterleave,
    dequantize_neuron_mx,
    interleave,
    lane_remap,
    neuron_emax,
    neuron_scales,
    pack_x4,
    quantize_neuron_mx,
    scale_slots,
    scales_from_slots,
    scales_to_slots,
    unpack_x4,
)
from hwmodel.numerics.products import ORDERS, matmul, matmul_int
from hwmodel.numerics.rounding import round_bf16, round_fp32r
from hwmodel.numerics.scales import BlockScales, BlockTensor, Hif4Scales, MxScales

__all__ = [
    "DTYPES", "FORMATS", "LAYOUTS", "ORDERS", "RULES", "Block", "BlockScales", "BlockTensor", "Dtype", "ElementFormat",
    "Hif4Rule", "Hif4Scales", "MxRule", "MxScales", "Rule", "cast_out", "convert", "decode", "decode_int",
    "decode_operand", "deinterleave", "dequantize", "dequantize_neuron_mx", "e8m0_cells", "encode", "from_layout",
    "hif4_cells", "interleave", "lane_remap", "layout_bytes", "matmul", "matmul_int", "neuron_emax", "neuron_scales",
    "pack_rows", "pack_x4", "quantize", "quantize_neuron_mx", "read_e8m0_cells", "read_hif4_cells",
    "read_scale_cells", "round_bf16", "round_fp32r", "scale_cell_bytes", "scale_cells", "scale_slots",
    "scales_from_slots", "scales_to_slots", "set_backend", "set_threads", "to_layout", "unpack_rows", "unpack_x4",
]  # fmt: skip
