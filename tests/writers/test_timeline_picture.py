"""The timeline picture: what it says and shows; how it looks was looked at."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from hwmodel.config.resources import shipped_scenarios
from hwmodel.experiment import simulate
from hwmodel.explain import explain
from hwmodel.program.instructions import label_text
from hwmodel.result import Result
from hwmodel.scenario import load
from hwmodel.trace import WAIT_INPUT, WAIT_SPACE
from hwmodel.writers import style, view, writer
from hwmodel.writers.axes import decimals, round_numbers
from hwmodel.writers.canvas import Canvas, Rects, Text, advance, pixels, shortened, width
from hwmodel.writers.lanes import lane
from hwmodel.writers.names import Scale, lane_names
from hwmodel.writers.panels import lane_height
from hwmodel.writers.timeline import draw
from hwmodel.writers.windows import MOST_SLICES, PANEL_SLICES, Window, choose, repeating


def texts(canvas: Canvas) -> list[str]:
    return [shape.text for shape in canvas.shapes if isinstance(shape, Text)]


def test_everything_lies_inside_the_picture(timed: Result) -> None:
    canvas = draw(timed)
    for shape in canvas.shapes:
        if isinstance(shape, Rects):
            assert shape.corners.min() >= 0
            assert (shape.corners[:, 2] <= canvas.width).all()
            assert (shape.corners[:, 3] <= canvas.height).all()
        else:
            assert 0 <= shape.x <= canvas.width
            assert 0 <= shape.y <= canvas.height


@pytest.mark.parametrize("name", ["neuron_gemm_fully_blocked", "neuron_gemm_tiled", "hif4_512x128x512_l0c2"])
def test_no_name_of_a_tile_lies_on_another(name: str) -> None:
    canvas = draw(simulate(load(name), values="skip"))
    inside = [s for s in canvas.shapes if isinstance(s, Text) and s.anchor == "center" and s.size == style.SMALL]
    named = [s for s in inside if s.text.startswith(("m", "n"))]
    assert named
    for i, one in enumerate(named):
        for other in named[:i]:
            room = (width(one.text, one.size) + width(other.text, other.size)) / 2
            assert abs(one.x - other.x) >= room or abs(one.y - other.y) >= pixels(style.SMALL), (one, other)


SHORT = ["hif4_64x64x64", "hif4_512x128x512", "hif4_512x128x512_l0c2", "blocked_remainders"]


@pytest.mark.parametrize("name", [*SHORT, "neuron_transpose", "neuron_gemm_mx", "program_ascend_hif4"])
def test_every_tile_of_a_short_run_has_its_name(name: str) -> None:
    """Narrow bars had none: on the Cube's row of hif4_512x128x512_l0c2 not one tile was named."""
    result = simulate(load(shipped_scenarios()[name]), values="skip")
    assert result.trace is not None
    scale = Scale(Window(0, result.trace.end, ""), 104, 1302)
    written = texts(draw(result))
    for one in (lane(row) for row in view.pipeline(result.arch, result.trace.rows) if row.core == 0):
        names = lane_names(one, scale, lane_height(one), whole=True)
        expected = {place: one.row.instructions[at] for place, at in enumerate(one.positions.tolist())}
        before = ""
        for place, instruction in expected.items():
            own = next((found.text for found in names if found.place == place), "")
            label = label_text(instruction.label) or view.moved(instruction)
            assert own or label == before, (one.row.engine, place, label)  # neighbours of one tile may share its name
            assert own.replace(" ", "").endswith(label.split(" ")[-1]) or not own
            before = label
        assert not Counter(found.text for found in names) - Counter(written), one.row.engine


@pytest.mark.parametrize("name", SHORT)
def test_no_text_of_a_short_run_lies_on_another(name: str) -> None:
    canvas = draw(simulate(load(shipped_scenarios()[name]), values="skip"))
    boxes = []
    for shape in canvas.shapes:
        if isinstance(shape, Text) and shape.anchor == "center" and shape.size <= style.SMALL:
            across, down = advance(shape.text, shape.size) * 0.95, 0.7 * pixels(shape.size)
            wide, high = (down, across) if shape.angle else (across, down)
            boxes.append((shape.x - wide / 2, shape.x + wide / 2, shape.y - high / 2, shape.y + high / 2, shape.text))
    for i, (left, right, top, bottom, text) in enumerate(boxes):
        for other in boxes[:i]:
            assert right <= other[0] or other[1] <= left or bottom <= other[2] or other[3] <= top, (text, other)


def test_bars_of_overlapping_instructions_are_named() -> None:
    result = simulate(load(shipped_scenarios()["neuron_gemm_tiled"]), values="skip")
    found = texts(draw(result))
    assert found.count("k0") + found.count("m0n0k0") + found.count("m0 n0 k0") >= 3  # DMA, PE
    assert any(re.fullmatch(r"(load )?m\d ?n\d ?k\d", text) for text in found)
    assert {"SBUF", "PSUM"} <= set(found)


def test_busy_and_waits_of_a_parallel_row_do_not_add_up_to_more_than_all() -> None:
    """They are shares of one time: a queue that waits beside a busy one does not count."""
    result = simulate(load(shipped_scenarios()["neuron_gemm_tiled"]), values="skip")
    trace, stats = result.trace, result.stats
    assert trace is not None
    assert stats is not None
    for one in map(lane, trace.rows):
        busy, waits = one.busy_and_waits(trace.end)
        assert busy + waits <= trace.end
    pe = next(lane(row) for row in trace.rows if row.engine == "PE")
    busy, waits = pe.busy_and_waits(trace.end)
    assert (round(100 * busy / trace.end), round(100 * waits / trace.end)) == (65, 31)
    found = texts(draw(result))
    assert "49 % waits" not in found
    assert "31 % waits" in found


def test_buffers_that_are_not_drawn_are_named() -> None:
    found = texts(draw(simulate(load(shipped_scenarios()["hif4_512x128x512_l0c2"]), values="skip")))
    note = next(text for text in found if text.startswith("buffers not drawn"))
    assert note.endswith("L1 13 %, L0A 50 %, L0B 6 %, L0A_MX 100 %, L0B_MX 12 %")


def test_the_title_says_what_was_run(split: Result) -> None:
    found = texts(draw(split))
    assert found.count("timing not calibrated") == 1
    assert any(
        text.startswith(f"sample on ascend_a6: {split.cycles:,} cycles (") and "limited by" in text for text in found
    )
    assert any("64 x 64 x 192" in text and "hif4 x hif4 -> bf16" in text and "bit-exact" in text for text in found)
    assert "What does it look like?" in found


def test_rows_and_buffers_in_data_flow_order_with_their_shares(split: Result) -> None:
    canvas = draw(split)
    names = [s for s in canvas.shapes if isinstance(s, Text) and s.bold and s.anchor == "right" and s.x < 120]
    assert [name.text for name in sorted(names, key=lambda name: name.y)] == ["MTE2", "MTE1", "M", "FIX", "L0C"]
    assert "256 KiB" in texts(canvas)
    assert len([text for text in texts(canvas) if text.endswith("% busy")]) == 4
    assert len([text for text in texts(canvas) if text.endswith("% peak")]) == 1


def test_each_tile_and_the_cubes_waits_are_named(make: object) -> None:
    result = make({"problem.m": 512, "problem.k": 128, "problem.n": 512, "tiling.tile_n": 128})  # type: ignore[operator]
    found = texts(draw(result))
    assert sorted(text for text in found if text.startswith("tstore")) == [
        "tstore n0",
        "tstore n1",
        "tstore n2",
        "tstore n3",
    ]
    assert {text for text in found if text.startswith("L0C") and "full" in text} == {
        f"L0C is full until tstore n{n} ends" for n in range(3)
    }
    assert sum(text == f"n{n}" for text in found for n in range(4)) >= 8  # the Cube's slices and the tiles in L0C


def test_colours_by_phase_and_kind(split: Result) -> None:
    rects = [shape for shape in draw(split).shapes if isinstance(shape, Rects)]
    fills = {shape.fill for shape in rects}
    for phase in ("load", "extract", "multiply", "drain"):
        assert style.shade(phase, False) in fills
    for phase in ("extract", "multiply", "drain"):
        assert style.shade(phase, True) in fills  # the second of three tiles
    for kind in (WAIT_INPUT, WAIT_SPACE):
        assert any(shape.fill == style.WAITS[kind].fill and shape.hatch == style.WAITS[kind].hatch for shape in rects)


def test_colours_are_those_of_okabe_and_ito_and_waits_differ_without_colour() -> None:
    okabe_ito = {"#0072B2", "#56B4E9", "#009E73", "#E69F00", "#CC79A7"}
    assert set(style.PHASE_COLOURS.values()) == {style.rgb(code) for code in okabe_ito}
    assert style.WAITS[WAIT_INPUT].hatch != style.WAITS[WAIT_SPACE].hatch


def test_a_long_run_shows_three_parts_and_the_whole(long: Result) -> None:
    canvas = draw(long)
    found = texts(canvas)
    for text in ("beginning", "steady state", "end"):
        assert len([each for each in found if each.split(":")[0] == text]) == 1
    assert len([text for text in found if "cycles not drawn" in text]) == 2
    assert any(text.startswith("whole run") for text in found)
    assert sum(len(s.corners) for s in canvas.shapes if isinstance(s, Rects)) < 4000


def test_windows_of_a_long_run(long: Result) -> None:
    trace = long.trace
    assert trace is not None
    lanes = [lane(row) for row in view.pipeline(long.arch, trace.rows)]
    windows = choose(lanes, trace.end)
    assert [window.name for window in windows] == ["beginning", "steady state", "end"]
    assert windows[0].start == 0
    assert windows[2].end == trace.end
    assert len({window.end - window.start for window in windows}) == 1
    assert windows[0].end <= windows[1].start
    assert windows[1].end <= windows[2].start
    for one in lanes:
        for window in windows:
            inside = (one.ends > window.start) & (one.starts < window.end)
            assert inside.sum() <= 2 * PANEL_SLICES + 2
    assert any(((one.starts > windows[0].start) & (one.starts < windows[0].end)).any() for one in lanes[:3])


@pytest.mark.parametrize("name", ["silicon/a3_gemm_1536", "neuron_gemm_tiled", "silicon/a5_mxfp8_2048"])
def test_the_steady_state_shows_a_whole_period_of_those_that_explain_finds(name: str) -> None:
    """Of a period of 15,907 cycles the picture of a3_gemm_1536 showed 10,900."""
    result = simulate(load(shipped_scenarios()[name]), values="skip")
    trace, stats = result.trace, result.stats
    assert trace is not None
    assert stats is not None
    lanes = [lane(row) for row in view.pipeline(result.arch, trace.rows) if row.core == 0]
    windows = choose(lanes, trace.end, stats.bound)
    begin, end = windows[1].period or (0, 0)
    assert windows[1].start <= begin < end <= windows[1].end
    found = explain(result, whatif=False).phases
    assert found.steady is not None
    assert (end - begin) / trace.ticks_per_cycle == pytest.approx(found.period_cycles, abs=1)
    assert found.steady.start <= begin < end <= found.steady.end
    period = f"steady state: the bar is one period, {found.period_cycles:,.0f} cycles"
    assert period in texts(draw(result))
    if name.endswith("a3_gemm_1536"):
        assert "15,907 cycles" in period


def test_a_period_too_long_to_be_drawn_is_named() -> None:
    """218,213 cycles with hundreds of tiles: the panel shows a part, and says of what."""
    long = simulate(load(shipped_scenarios()["silicon/a3_gemm_6144"]), values="skip")
    assert long.trace is not None
    assert long.stats is not None
    lanes = [lane(row) for row in view.pipeline(long.arch, long.trace.rows)]
    steady = repeating(lanes, long.stats.bound)
    assert steady is not None
    middle = choose(lanes, long.trace.end, long.stats.bound)[1]
    assert middle.period is None
    assert middle.part_of == steady.coverage // steady.periods > middle.end - middle.start
    assert f"steady state: part of a period of {middle.part_of:,} cycles" in texts(draw(long))


def test_a_panel_of_a_short_period_shows_more_than_that() -> None:
    """One instruction repeats every 522 of 91,345 cycles: of the beginning there would be one load to see."""
    result = simulate(load(shipped_scenarios()["neuron_gemm_fully_blocked"]), values="skip")
    assert result.trace is not None
    lanes = [lane(row) for row in view.pipeline(result.arch, result.trace.rows)]
    windows = choose(lanes, result.trace.end, "dma")
    assert all((w.end - w.start) / result.trace.ticks_per_cycle > 10 * 522 for w in windows)


def test_a_long_launch_is_left_out() -> None:
    """Nothing runs meanwhile: it would fill the window that is to show the first tiles."""
    launch = {"arch.launch_cycles": 20_000}
    long = load(shipped_scenarios()["silicon/a5_mxfp8_2048"], launch)
    short = load(shipped_scenarios()["hif4_512x128x512"], {**launch, "expect": {}})
    for scenario, names in ((long, ["beginning", "steady state", "end"]), (short, [""])):
        result = simulate(scenario, values="skip")
        trace = result.trace
        assert trace is not None
        lanes = [lane(row) for row in view.pipeline(result.arch, trace.rows)]
        windows = choose(lanes, trace.end)
        assert [window.name for window in windows] == names
        cycles = [window.start / trace.ticks_per_cycle for window in windows]
        assert 19_000 - (trace.end / trace.ticks_per_cycle - 20_000) // 20 < cycles[0] < 20_000
        assert any("cycles of launch not drawn" in text for text in texts(draw(result)))


def test_the_strip_has_the_colours_of_the_panels() -> None:
    """The PE array loads weights as well as it multiplies, a DMA queue stores as well as it loads."""
    result = simulate(load(shipped_scenarios()["neuron_gemm_tiled"]), values="skip")
    assert result.trace is not None
    rows = {row.engine: view.row_phase(result.arch, row) for row in result.trace.rows}
    assert {engine: rows[engine] for engine in ("DMA0", "PEW", "PE", "DVE", "DMA2")} == {
        "DMA0": "load", "PEW": "extract", "PE": "multiply", "DVE": "drain", "DMA2": "store",
    }  # fmt: skip


def test_a_short_run_is_drawn_whole(split: Result, empty: Result) -> None:
    for result in (split, empty):
        assert result.trace is not None
        lanes = [lane(row) for row in result.trace.rows]
        assert max(len(one.starts) for one in lanes) <= MOST_SLICES
        assert choose(lanes, result.trace.end) == [Window(0, result.trace.end, "")]
    assert choose([], 0) == [Window(0, 0, "")]


def test_two_cores_are_stacked_and_many_are_not(cores: Result, make: object) -> None:
    found = texts(draw(cores))
    assert {"core 0 MTE2", "core 1 MTE2", "core 0 L0C", "core 1 L0C"} <= set(found)
    assert cores.program is not None
    assert cores.trace is not None
    four = make({"tiling": {**BLOCKED, "core_grid": [2, 2]}, "problem": {**PROBLEM, "m": 512}})  # type: ignore[operator]
    found = texts(draw(four))
    assert "MTE2" in found
    assert any("core 0 of 4 simulated" in text for text in found)


PROBLEM = {"op": "matmul", "m": 256, "k": 64, "n": 512, "a": "bf16", "b": "bf16", "out": "bf16"}
BLOCKED = {"kind": "blocked", "base": [128, 64, 256], "cores": "all"}


def test_png_has_the_colours_and_svg_the_words(split: Result, tmp_path: Path) -> None:
    writer("png").write(split, tmp_path / "t.png")
    picture = Image.open(tmp_path / "t.png")
    assert picture.mode == "RGB"
    assert picture.width == 1400
    pixels = np.asarray(picture).reshape(-1, 3)
    found = {tuple(colour) for colour in np.unique(pixels, axis=0).tolist()}
    for phase in ("load", "extract", "multiply", "drain"):
        expected = np.array(style.shade(phase, False)) * 255
        assert any(np.abs(np.array(colour) - expected).max() <= 1 for colour in found), phase
    writer("svg").write(split, tmp_path / "t.svg")
    tree = ET.parse(tmp_path / "t.svg")
    namespace = "{http://www.w3.org/2000/svg}"
    titles = [element.text or "" for element in tree.iter(f"{namespace}title")]
    assert any(title.startswith("tmatmul_mx n1: ") and " cycles, " in title for title in titles)
    assert any(title.startswith("L0C is full until tstore n0 ends: ") for title in titles)
    assert "L0C" in {element.text for element in tree.iter(f"{namespace}text")}


def test_names_cannot_break_the_picture(split: Result, tmp_path: Path) -> None:
    odd = replace(split, name='a<b>&"c" $x$ ' + "n" * 300, question="<&> ü $\\frac$ " + "q" * 400)
    writer("svg").write(odd, tmp_path / "t.svg")
    writer("png").write(odd, tmp_path / "t.png")
    ET.parse(tmp_path / "t.svg")


@pytest.mark.parametrize(
    ("low", "high", "most", "expected"),
    [
        (0, 9, 5, [0, 2, 4, 6, 8]),
        (0, 1, 2, [0, 0.5, 1]),
        (995, 1205, 4, [1000, 1100, 1200]),
        (5, 5, 4, []),
        (0.0, 0.3, 3, [0, 0.1, 0.2, 0.3]),
    ],
)
def test_round_numbers(low: float, high: float, most: int, expected: list[float]) -> None:
    assert round_numbers(low, high, most) == pytest.approx(expected)


def test_numbers_of_cycles_are_whole() -> None:
    assert round_numbers(0, 3, 20, whole=True) == [0, 1, 2, 3]
    assert decimals([0, 0.05, 0.1]) == 2
    assert decimals([0, 20]) == 0
    assert decimals([3]) == 1


def test_shortened() -> None:
    assert shortened("abc", 10, 1000) == "abc"
    cut = shortened("a" * 200, 10, 300)
    assert cut.endswith("…")
    assert len(cut) < 60
