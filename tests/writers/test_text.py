"""What a run prints, and the tables it can be written as."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from hwmodel.config.resources import shipped_scenarios
from hwmodel.experiment import simulate
from hwmodel.result import Expectation, Result, Values
from hwmodel.scenario import load
from hwmodel.study.compare import comparison, entry_of
from hwmodel.writers import facts, view, writer
from hwmodel.writers.canvas import Text
from hwmodel.writers.comparison import draw
from hwmodel.writers.text import WIDTH, summary, timeline_text


def line_of(text: str, name: str) -> str:
    (found,) = [line for line in text.splitlines() if line.split()[:1] == [name]]
    return found


def test_summary_is_one_screen(timed: Result) -> None:
    lines = summary(timed, paths=["reports/runs/x"]).splitlines()
    assert len(lines) <= 30
    assert lines[0].startswith(timed.name)
    assert lines[-1].split() == ["wrote", "reports/runs/x"]
    assert all(line == line.rstrip() for line in lines)
    assert summary(timed).isascii()
    assert "\x1b" not in summary(timed)


def test_summary_says_what_matters(split: Result) -> None:
    text = summary(split)
    assert split.values.sha256 is not None
    assert split.stats is not None
    assert "64 x 64 x 192 (M x K x N), hif4 x hif4 -> bf16" in line_of(text, "problem")
    assert "not calibrated" in line_of(text, "machine")
    assert "n_split: tile_n 64, n_tiles 3" in line_of(text, "tiling")
    assert f"{split.cycles:,} cycles = " in line_of(text, "time")
    values = line_of(text, "values")
    assert "bit-exact" in values
    assert "order seq" in values
    assert split.values.sha256[:12] in values
    assert line_of(text, "expected").endswith("met")
    assert line_of(text, "hazards").endswith("none")
    (bound,) = [line for line in text.splitlines() if line.endswith("<- limit")]
    assert bound.split()[0] == split.stats.bound
    assert split.stats.bound in line_of(text, "limit")


def test_the_intensity_is_over_all_that_crosses_gm(split: Result) -> None:
    assert split.stats is not None
    moved = split.stats.gm_read_bytes + split.stats.gm_write_bytes
    assert line_of(summary(split), "traffic").endswith(
        f"; arithmetic intensity {2 * split.stats.macs / moved:,.1f} op/byte of both"
    )


def test_the_share_of_the_peak_has_two_factors() -> None:
    """64^3 multiply-adds, 16 x 16 x 64 a cycle: 16 cycles of work in the 30 that the Cube is busy, of 2,063."""
    result = simulate(load("hif4_64x64x64"), values="skip")
    line = " ".join(summary(result, width=200).split())
    assert "0.8 % of the peak of 1 core, 53.3 % while the cube is busy" in line


def test_a_number_stays_with_its_sign(split: Result) -> None:
    for width in range(60, 120):
        assert not any(line.lstrip().startswith("%") for line in summary(split, width=width).splitlines())


def test_the_unit_table_adds_up(split: Result) -> None:
    text = summary(split)
    for unit in ("tload", "textract", "cube", "fixpipe"):
        line = next(line for line in text.splitlines() if re.match(rf"  {unit} .*%.*%", line))
        cycles = [int(number.replace(",", "")) for number in re.findall(r"([\d,]+)\s+[\d.]+ %", line)]
        assert sum(cycles) == split.cycles


def test_lines_end_where_the_table_ends(split: Result) -> None:
    """The limit of a run took 141 columns; what does not fit goes on below, and no word is lost."""
    many = replace(split, tiling={"kind": "blocked", **{f"parameter_{number}": number for number in range(20)}})
    lines = summary(many).splitlines()
    assert max(len(line) for line in lines[1:]) <= WIDTH
    first = next(place for place, line in enumerate(lines) if line.startswith("  tiling"))
    last = next(place for place, line in enumerate(lines) if line.startswith("  time"))
    assert last > first + 1
    assert all(line.startswith(" " * 13) and line[13] != " " for line in lines[first + 1 : last])
    assert " ".join(" ".join(lines[first:last]).split()).endswith("parameter_18 18, parameter_19 19")


@pytest.mark.parametrize("width", [80, 90, WIDTH - 1])
def test_a_narrow_terminal_gets_narrow_lines_with_the_same_figures(split: Result, width: int) -> None:
    asked = replace(split, question="Does a line that is longer than this terminal is wide go on below? " * 3)
    lines = summary(asked, width).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0] == split.name
    assert split.stats is not None
    for unit, figures in split.stats.units.items():
        place = next(at for at, line in enumerate(lines) if re.match(rf"  {unit} +[\d,]+ +[\d,]+ ", line))
        cycles = [int(cell.replace(",", "")) for cell in re.findall(r"[\d,]+", lines[place])]
        assert cycles[0] == figures.busy_cycles
        assert sum(cycles[:4]) == split.cycles
        assert cycles[4] == figures.alone_cycles
        assert lines[place + 1].count("%") == 5
    (bound,) = [line for line in lines if line.endswith("<- limit")]
    assert bound.split()[0] == split.stats.bound


def test_what_is_used_a_little_is_not_zero_per_cent() -> None:
    from hwmodel.writers.facts import whole_percent

    assert [whole_percent(part, 1000) for part in (0, 1, 9, 10, 14, 995, 1000)] == [
        "0 %", "< 1 %", "< 1 %", "1 %", "1 %", "100 %", "100 %",
    ]  # fmt: skip


def test_summary_of_failures(split: Result) -> None:
    failed = replace(
        split,
        values=Values("mismatch", "seq", 100, 7, "[0, 1] is 0x1, expected 0x2", "ab" * 32),
        expect=Expectation(True, ("cycles: expected 1, not 2",)),
        hazards=("race on l0b", "another"),
    )
    text = summary(failed, color=True)
    assert "DIFFER: 7 of 100" in text
    assert "[0, 1] is 0x1, expected 0x2" in text
    assert "FAILED: cycles: expected 1, not 2" in text
    assert "race on l0b (and 1 more)" in text
    assert text.count("\x1b[31m") == 3
    skipped = summary(replace(split, values=Values("skipped", "seq", 5), hazards_checked=False))
    assert "skipped" in line_of(skipped, "values")
    assert "not looked for as values are skipped" in line_of(skipped, "hazards")
    long = summary(replace(split, hazards_checked=False, values=Values("bit_exact", "seq", 5)))
    assert "not looked for in a run this long" in line_of(long, "hazards")


def test_traffic_names_the_memory_of_the_machine(split: Result) -> None:
    assert " read from GM, " in line_of(summary(split), "traffic")
    neuron = simulate(load(shipped_scenarios()["neuron_matmult"]), values="skip")
    assert " read from HBM, " in line_of(summary(neuron), "traffic")


def test_a_comparison_names_the_memory_of_its_machines(split: Result) -> None:
    neuron = simulate(load(shipped_scenarios()["neuron_matmult"]), values="skip")
    for results, name in (([split, split], "GM"), ([neuron, neuron], "HBM"), ([split, neuron], "GM")):
        canvas = draw(comparison([entry_of(result) for result in results]))
        assert f"read and written in {name}" in [shape.text for shape in canvas.shapes if isinstance(shape, Text)]


def test_summary_without_timing(quantized: Result) -> None:
    text = summary(quantized)
    assert "no timing model" in line_of(text, "time")
    assert "quantize 3 x 65 bf16 -> hif4" in line_of(text, "problem")
    assert timeline_text(quantized) == "no timeline: this operation has no timing model\n"


def test_limit_sentence(split: Result, empty: Result) -> None:
    assert split.stats is not None
    assert empty.stats is not None
    assert re.match(r"\w+: its work alone takes [\d.]+ % of the time; ", facts.limit_text(split.stats))
    assert facts.limit_text(empty.stats) == "nothing ran"


def test_lanes_fit_the_width_and_show_tiles(split: Result) -> None:
    text = timeline_text(split, None, 90)
    assert max(map(len, text.splitlines()[1:-2])) <= 90
    assert [line.split()[0] for line in text.splitlines()[2:7]] == ["MTE2", "MTE1", "M", "FIX", "L0C"]
    store = text.splitlines()[5].split("|")[1]
    assert re.fullmatch(r" +0+-*1+-*2+", store)
    bars = [line.split("|")[1] for line in text.splitlines()[1:7]]
    assert len({len(bar) for bar in bars}) == 1


def test_the_digits_of_a_row_tell_neighbouring_tiles_apart() -> None:
    """The stores of m0 n0, m1 n0, m2 n0 all showed the 0 of n."""
    result = simulate(load(shipped_scenarios()["silicon/a3_gemm_1536"]), values="skip")
    lines = {line.split()[0]: line for line in timeline_text(result, None, 100).splitlines()[2:]}
    stores = lines["FIX"].split("|")
    assert re.fullmatch(r" +0+-+1+-+2+ *", stores[1])
    assert stores[2].split() == ["8", "%", "m"]
    assert lines["M"].endswith("% k")
    assert "index named at the right" in lines["digit:"]


def test_lanes_up_to_a_cycle(split: Result) -> None:
    text = timeline_text(split, 50, 90)
    assert text.startswith("cycles 0 to 50 of ")
    assert "1 a column" in text
    assert set(text.splitlines()[2].split("|")[1]) == {"#"}
    assert "\x1b[" in timeline_text(split, 50, 90, color=True)
    plain = re.sub(r"\x1b\[\d*m", "", timeline_text(split, 50, 90, color=True))
    assert plain == text


def test_lanes_of_nothing_and_of_many(empty: Result, cores: Result, parallel: Result, long: Result) -> None:
    assert timeline_text(empty) == "no timeline: nothing ran\n"
    assert timeline_text(cores).startswith("core 0 of 2: ")
    assert "MTE2" in timeline_text(parallel)
    assert "#" in timeline_text(long)


def test_csv_spans_cover_the_run(timed: Result, tmp_path: Path) -> None:
    writer("csv").write(timed, tmp_path / "spans.csv")
    with (tmp_path / "spans.csv").open(newline="") as file:
        records = list(csv.DictReader(file))
    assert timed.trace is not None
    assert timed.stats is not None
    parallel = {(str(row.core), row.engine) for row in timed.trace.rows if row.parallel}
    rows = defaultdict(list)
    for record in records:
        rows[record["core"], record["engine"]].append(record)
    for key, spans in rows.items():
        if key in parallel:
            continue
        now = 0
        for span in spans:
            assert int(span["start_cycle"]) == now
            assert int(span["cycles"]) == int(span["end_cycle"]) - now > 0
            now = int(span["end_cycle"])
        assert now == timed.cycles
    read = sum(int(record["gm_read_bytes"] or 0) for record in records)
    stats = timed.stats
    if stats.cores == len(timed.trace.folded) and not parallel:
        assert read == stats.gm_read_bytes
        assert sum(int(record["macs"] or 0) for record in records) == stats.macs


def test_csv_says_why(split: Result, tmp_path: Path) -> None:
    writer("csv").write(split, tmp_path / "spans.csv")
    with (tmp_path / "spans.csv").open(newline="") as file:
        waits = [r for r in csv.DictReader(file) if r["kind"] == "wait_space" and r["unit"] == "cube"]
    assert [(r["tile"], r["cause"], r["by_engine"]) for r in waits] == [
        ("n1", "flag FIX>M:0", "FIX"),
        ("n2", "flag FIX>M:0", "FIX"),
    ]


def test_markdown(split: Result, tmp_path: Path) -> None:
    odd = replace(split, name="a|b", hazards=("one | two", "<three>"))
    writer("md").write(odd, tmp_path / "report.md")
    text = (tmp_path / "report.md").read_text("utf-8")
    assert text.startswith("# a\\|b\n")
    assert "| unit | busy |" in text
    assert "* one \\| two" in text
    assert "&lt;three>" in text
    for line in text.splitlines():
        if line.startswith("|") and "alone" in text[: text.index(line)]:
            assert len(re.split(r"(?<!\\)\|", line)) in (4, 12)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, "0 bytes"),
        (1023, "1,023 bytes"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (262144, "256 KiB"),
        (3 << 30, "3 GiB"),
    ],
)
def test_sizes(size: int, expected: str) -> None:
    assert view.size_text(size) == expected
