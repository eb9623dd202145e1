"""Whole programs on the machine: (instruction, start, end) worked out by hand.

Rates (``support.ROUND``): TLOAD 100 + bytes/64; TEXTRACT 10 + bytes/256 (L0A), /128 (L0B), /64 (L0A_MX), /32 (L0B_MX);
Cube 5 + fractals; FIXPIPE 50 + for each row the larger of 4.5 and bytes/64, granules of 128 written in part twice.
"""

from __future__ import annotations

import pytest
from support import prepared, simulated, timeline

from hwmodel.experiment import run
from hwmodel.result import Result
from hwmodel.trace import WAIT_INPUT, WAIT_SPACE, Trace, spans
from hwmodel.units import UNITS

HALVES = {"kind": "n_split", "buffers": {"l0c": 2}}


def trace_of(result: Result) -> Trace:
    assert result.trace is not None
    return result.trace


def test_one_tile_a03_a07_c1() -> None:
    """64 x 64 x 64: data 64 x 64 / 2 = 2048 bytes an operand, scales 4 row fractals x 64 = 256."""
    result = simulated(64, 64, 64)
    assert timeline(trace_of(result)) == [
        ("tload a", 0, 132),  # 100 + 2048/64
        ("tload a_scale", 132, 236),  # 100 + 256/64
        ("tload b", 236, 368),
        ("tload b_scale", 368, 472),
        ("textract l0a", 236, 254),  # A and its scales are there at 236; 10 + 2048/256
        ("textract l0a_mx", 254, 268),  # 10 + 256/64
        ("textract l0b n0", 472, 498),  # B at 472; 10 + 2048/128
        ("textract l0b_mx n0", 498, 516),  # 10 + 256/32
        ("tmatmul_mx n0", 516, 537),  # 5 + 4 x 1 x 4
        ("tstore n0", 537, 875),  # 50 + 64 rows x 4.5 (128 bytes would take 2)
    ]
    assert result.cycles == 875


def test_a_core_takes_no_more_from_hbm_than_its_tload_can() -> None:
    """At 16 bytes a cycle 2,048 bytes take 128 and 256 take 16, whatever the link gives; 100 is the start-up."""
    limits = ({"arch__links__hbm__core_bytes_per_cycle": 1000}, {"arch__links__hbm__core_bytes_per_cycle": None})
    for limit in limits:
        result = simulated(64, 64, 64, arch__units__tload__bytes_per_cycle=16, **limit)
        assert timeline(trace_of(result), "tload") == [
            ("tload a", 0, 228), ("tload a_scale", 228, 344), ("tload b", 344, 572), ("tload b_scale", 572, 688),
        ]  # fmt: skip
        assert result.stats is not None
        assert result.stats.units["tload"].alone_cycles == 688


FOUR_SLICES = [
    ("tload a", 0, 612),  # 512 x 128 / 2 = 32,768 bytes: 100 + 512
    ("tload a_scale", 612, 776),  # 32 x 2 cells = 4,096 bytes: 100 + 64
    ("tload b", 776, 1388),
    ("tload b_scale", 1388, 1552),
    ("textract l0a", 776, 914),  # 10 + 32768/256
    ("textract l0a_mx", 914, 988),  # 10 + 4096/64
    ("textract l0b n0", 1552, 1626),  # 128 x 128 / 2 = 8,192 bytes: 10 + 64
    ("textract l0b_mx n0", 1626, 1668),  # 8 x 2 cells = 1,024 bytes: 10 + 32
    ("tmatmul_mx n0", 1668, 2185),  # 5 + 32 x 2 x 8
    ("tstore n0", 2185, 4539),  # 50 + 512 x 4.5
    ("textract l0b n1", 2185, 2259),  # L0B is free when the Cube has ended
    ("textract l0b_mx n1", 2259, 2301),
    ("tmatmul_mx n1", 4539, 5056),  # the one L0C tile is free when the store has ended
    ("tstore n1", 5056, 7410),
    ("textract l0b n2", 5056, 5130),
    ("textract l0b_mx n2", 5130, 5172),
    ("tmatmul_mx n2", 7410, 7927),
    ("tstore n2", 7927, 10281),
    ("textract l0b n3", 7927, 8001),
    ("textract l0b_mx n3", 8001, 8043),
    ("tmatmul_mx n3", 10281, 10798),
    ("tstore n3", 10798, 13152),
]


def test_four_slices_a21_a22_a30_c5() -> None:
    """512 x 128 x 512: L0C holds 512 x 128 sums, so four slices, each drained before the next is multiplied."""
    result = simulated(512, 128, 512)
    assert timeline(trace_of(result)) == FOUR_SLICES
    assert result.cycles == 13152
    assert result.stats is not None
    units = {
        name: (u.busy_cycles, u.wait_input_cycles, u.wait_space_cycles, u.idle_cycles)
        for name, u in result.stats.units.items()
    }
    assert units == {
        "tload": (1552, 0, 0, 11600),  # then finished
        # busy 138 + 74 + 4 x 116; input: 988..1552; space: 1668..2185, 2301..5056, 5172..7927; idle 776 + 5109
        "textract": (676, 564, 517 + 2755 + 2755, 776 + 5109),
        # input: from the end of the matmul, or of the store, to the end of TEXTRACT: it is always there before; so the
        # first 116 after each matmul is a wait for input, the rest for space
        "cube": (2068, 3 * 116, 2238 + 2238 + 2238, 1668 + 2354),
        "fixpipe": (4 * 2354, 3 * 517, 0, 2185),
    }
    assert sum(units["cube"]) == sum(units["textract"]) == result.cycles


def test_waits_have_a_kind_and_a_cause() -> None:
    trace = trace_of(simulated(512, 128, 512))
    (cube,) = trace.rows_of("cube")
    assert [(s.start, s.end, s.position, s.kind, s.cause, s.by, s.by_position) for s in cube.stalls] == [
        (0, 1668, 0, WAIT_INPUT, "flag MTE1>M:0", "MTE1", 3),
        (2185, 2301, 1, WAIT_INPUT, "flag MTE1>M:0", "MTE1", 5),
        (2301, 4539, 1, WAIT_SPACE, "flag FIX>M:0", "FIX", 0),
        (5056, 5172, 2, WAIT_INPUT, "flag MTE1>M:0", "MTE1", 7),
        (5172, 7410, 2, WAIT_SPACE, "flag FIX>M:0", "FIX", 1),
        (7927, 8043, 3, WAIT_INPUT, "flag MTE1>M:0", "MTE1", 9),
        (8043, 10281, 3, WAIT_SPACE, "flag FIX>M:0", "FIX", 2),
    ]
    assert [(span.start, span.end, span.kind) for span in spans(cube, trace.end)][:4] == [
        (0, 1668, "idle"), (1668, 2185, "busy"), (2185, 2301, "wait_input"), (2301, 4539, "wait_space"),
    ]  # fmt: skip


def test_two_l0c_halves_drain_while_the_cube_works_c8() -> None:
    """Half of L0C holds 512 x 64 sums: eight slices. FIXPIPE runs back to back; the Cube is one slice ahead."""
    result = simulated(512, 128, 512, tiling=HALVES)
    assert result.tiling["tile_n"] == 64
    cube = timeline(trace_of(result), "cube")
    fixpipe = timeline(trace_of(result), "fixpipe")
    # the loads end at 1552; a slice: TEXTRACT 10 + 4096/128 = 42 and 10 + 512/32 = 26, Cube 5 + 32 x 2 x 4 = 261
    assert cube[:3] == [
        ("tmatmul_mx n0", 1620, 1881),
        ("tmatmul_mx n1", 1949, 2210),  # 1881 + 42 + 26; the other half is free
        ("tmatmul_mx n2", 4235, 4496),  # its half is free when store n0 has ended
    ]
    assert fixpipe == [(f"tstore n{j}", 1881 + 2354 * j, 1881 + 2354 * (j + 1)) for j in range(8)]
    assert result.cycles == 1881 + 8 * 2354


@pytest.mark.parametrize(
    ("banks", "second", "last"),
    [
        ("per_tile", (1517, 1778), (3803, 6157)),
        (2, (1517, 1778), (3803, 6157)),  # each half is a bank
        (4, (1517, 1778), (3803, 6157)),  # each half is two banks
        ("none", (1517, 1778), (3803, 6157)),
        (1, (3803, 4064), (4064, 6418)),  # both tiles in one bank: the Cube waits for FIXPIPE
    ],
)
def test_cube_and_fixpipe_in_one_bank_take_turns_c1(banks: int | str, second: object, last: object) -> None:
    """512 x 128 x 128 in two halves: two slices of 64 columns.

    A is there at 776, B at 776 + 228 + 116 = 1120. Slice 0: TEXTRACT until 1188, Cube until 1449, store until 3803.
    Slice 1: TEXTRACT 1449..1517.
    """
    result = simulated(512, 128, 128, tiling=HALVES, arch__buffers__l0c__banks=banks)
    trace = trace_of(result)
    assert timeline(trace, "cube") == [("tmatmul_mx n0", 1188, 1449), ("tmatmul_mx n1", *second)]  # type: ignore[misc]
    assert timeline(trace, "fixpipe") == [("tstore n0", 1449, 3803), ("tstore n1", *last)]  # type: ignore[misc]
    assert result.values.status == "bit_exact"
    (cube,) = trace.rows_of("cube")
    waits = [(s.start, s.end, s.kind, s.cause, s.by) for s in cube.stalls if s.cause.startswith("bank")]
    assert waits == ([(1517, 3803, WAIT_SPACE, "bank l0c:0", "FIX")] if banks == 1 else [])


def test_who_gets_the_bank_is_decided_by_instruction_number_c1() -> None:
    """Two L0B halves: slice 1 waits in L0, so at 1449 matmul 1 (number 12) and store 0 (number 9) both ask.

    FIXPIPE takes 0.1 a row (128 / 1280): 52 cycles. The store has the lower number: the Cube waits these 52.
    """
    result = simulated(
        512, 128, 128, tiling={"kind": "n_split", "buffers": {"l0c": 2, "l0": 2}},
        arch__buffers__l0c__banks=1, arch__units__fixpipe__startup_cycles=0,
        arch__units__fixpipe__bytes_per_cycle=1280, arch__units__fixpipe__row_floor_cycles=0.01,
    )  # fmt: skip
    trace = trace_of(result)
    assert timeline(trace, "fixpipe") == [("tstore n0", 1449, 1501), ("tstore n1", 1762, 1814)]
    assert timeline(trace, "cube") == [("tmatmul_mx n0", 1188, 1449), ("tmatmul_mx n1", 1501, 1762)]


def test_two_l0b_halves_extract_ahead() -> None:
    """l0: 2 lets TEXTRACT fill one half while the Cube reads the other; here L0C is the limit all the same."""
    result = simulated(512, 128, 512, tiling={"kind": "n_split", "buffers": {"l0": 2}})
    found = {name: (start, end) for name, start, end in timeline(trace_of(result))}
    assert found["textract l0b n1"] == (1668, 1742)  # at once, not when the Cube has ended
    assert found["textract l0b n2"] == (2185, 2259)
    assert found["tmatmul_mx n1"] == (4539, 5056)
    assert result.cycles == 13152


def test_sixteen_bit_a_has_no_scales_a07() -> None:
    """bf16 [1, 256] x hif4 [256, 64]: M padded to 16 on chip, not in GM; three loads, three TEXTRACTs."""
    result = simulated(1, 256, 64, "bf16", "hif4")
    assert timeline(trace_of(result)) == [
        ("tload a", 0, 108),  # 512 bytes
        ("tload b", 108, 336),  # 8,192 bytes: 100 + 128
        ("tload b_scale", 336, 452),  # 4 x 4 cells = 1,024 bytes: 100 + 16
        ("textract l0a", 108, 150),  # 16 x 256 x 2 = 8,192 bytes: 10 + 32
        ("textract l0b n0", 452, 526),  # 10 + 64
        ("textract l0b_mx n0", 526, 568),  # 10 + 32
        ("tmatmul_mx n0", 568, 637),  # 5 + 1 x 16 x 4: K 16 a step, the rate of bf16
        ("tstore n0", 637, 692),  # 50 + 4.5 -> 55
    ]


def test_rows_that_are_not_aligned_drain_slower() -> None:
    """N = 500 in bf16: rows 1000 bytes apart. A row of 128 columns (256 bytes) touches 2 or 3 granules.

    16 places repeat (gcd(1000, 128) = 8). Slice 0 starts at byte 0 of its granule: row r at 1000 r mod 128 = 104 r mod
    128. At 0 it is 2 whole: 4 -> 4.5; elsewhere part, whole, part: 2 x 2 + 2 + 2 x 2 = 10. 512 rows: 32 x (4.5 + 150).
    """
    result = simulated(512, 128, 500)
    drains = {name: end - start for name, start, end in timeline(trace_of(result), "fixpipe")}
    assert drains["tstore n0"] == 50 + 32 * 4.5 + 32 * 15 * 10
    assert drains["tstore n1"] == drains["tstore n2"] == drains["tstore n0"]  # 256 and 512 are whole granules on
    # slice 3: 116 columns, 232 bytes: at 0: one whole, one part: 6; 16, 8 and 24 more do not reach a third granule:
    # begin 8, 16: 2 touched, both part: 8; begin 24: 24 + 232 = 256: part, whole: 6; others 3: part, whole, part: 10
    assert drains["tstore n3"] == 50 + 32 * (6 + 8 + 8 + 6 + 12 * 10)


def test_every_unit_has_its_row_c1_c7() -> None:
    trace = trace_of(simulated(64, 64, 64))
    assert [row.unit for row in trace.rows] == ["tload", "textract", "cube", "fixpipe"]
    assert [row.engine for row in trace.rows] == [UNITS[row.unit].engine for row in trace.rows]


def test_launch_time_shifts_everything() -> None:
    late, now = simulated(64, 64, 64, arch__launch_cycles=1000), simulated(64, 64, 64)
    assert timeline(trace_of(late)) == [(name, s + 1000, e + 1000) for name, s, e in timeline(trace_of(now))]
    assert late.stats is not None
    assert now.stats is not None
    assert late.stats.units["tload"].idle_cycles == now.stats.units["tload"].idle_cycles + 1000


def test_quantise_takes_no_time_a04() -> None:
    ready = prepared(64, 64, 64)
    assert run(ready, values="check").cycles == run(ready, values="skip").cycles
    assert trace_of(run(ready)).rows[0].starts[0] == 0
