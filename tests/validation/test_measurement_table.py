"""Tables of measurements: what is read, and one clear line for what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwmodel.errors import InputError
from hwmodel.validation.table import SHIPPED, read_table

HEAD = "id,arch,kernel,dtype_a,dtype_b,dtype_out,m,k,n,core_grid,base_m,base_k,base_n,panel_slices,time_ms,cube_ratio"
ROW = "mine,ascend_a3,my_gemm,fp16,fp16,fp32,1024,1024,1024,4x6,128,64,256,4,0.05,0.5"


def write(path: Path, *lines: str) -> Path:
    file = path / "table.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def test_the_shipped_table_has_eleven_rows_with_sources() -> None:
    rows = read_table(SHIPPED)
    assert [row.arch for row in rows].count("ascend_a3") == 2
    assert [row.arch for row in rows].count("ascend_a5") == 5
    assert [row.arch for row in rows].count("neuron_trn1") == 2
    assert [row.arch for row in rows].count("neuron_trn2") == 2
    assert all(row.source for row in rows)
    first = rows[0]
    assert (first.id, first.m, first.time_ms) == ("a3_gemm_1536", 1536, 0.0388)
    assert first.ratios == {"cube_ratio": 0.545, "textract_ratio": 0.422, "tload_ratio": 0.722, "tstore_ratio": 0.077}
    assert rows[7].ratios == {}


def test_a_row_of_ones_own(tmp_path: Path) -> None:
    (row,) = read_table(write(tmp_path, HEAD, ROW))
    assert (row.id, row.kernel, row.m, row.k, row.n, row.time_ms) == ("mine", "my_gemm", 1024, 1024, 1024, 0.05)
    assert row.ratios == {"cube_ratio": 0.5}
    assert row.fields["core_grid"] == "4x6"
    assert row.where.endswith("table.csv:2")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((HEAD.replace("time_ms", "time"), ROW), ":1: expected a column time_ms, but it is missing, did you mean"),
        ((HEAD.replace("cube_ratio", "cube_raio"), ROW), ":1: unknown column 'cube_raio', did you mean 'cube_ratio'?"),
        ((HEAD, ROW.replace("ascend_a3", "ascend_a33")), ":2: arch: unknown arch 'ascend_a33', did you mean"),
        ((HEAD, ROW.replace(",0.5", ",54.5")), ":2: cube_ratio: expected a share from 0 to 1, not 54.5: is it in per"),
        ((HEAD, ROW.replace("0.05,", "38800000,")), ":2: time_ms: expected milliseconds of at most an hour, not 3880"),
        ((HEAD, ROW.replace("0.05,", "0,")), "table.csv:2: time_ms: expected milliseconds, not 0"),
        ((HEAD, ROW.replace("0.05,", "nan,")), "table.csv:2: time_ms: expected milliseconds, not nan"),
        ((HEAD, ROW.replace("0.05,", "fast,")), "table.csv:2: time_ms: expected milliseconds, not 'fast'"),
        ((HEAD, ROW.replace("1024,1024,1024", "1024,0,1024")), ":2: k: expected a positive whole number, not '0'"),
        ((HEAD, ROW.replace("4x6", "24")), "table.csv:2: core_grid: expected rows x columns such as 4x6, not '24'"),
        ((HEAD, ROW, ROW), "table.csv:3: id: expected a name for each row, not 'mine' twice"),
        ((HEAD, ROW + ",surplus"), "table.csv:2: expected as many cells as there are columns"),
        ((HEAD, ROW.rsplit(",", 1)[0]), "table.csv:2: expected as many cells as there are columns"),
        ((HEAD,), "table.csv: expected at least one row of measurements, but there is none"),
        (("",), "table.csv:1: expected a column id, but it is missing"),
    ],
)  # fmt: skip
def test_bad_tables(tmp_path: Path, lines: tuple[str, ...], expected: str) -> None:
    with pytest.raises(InputError) as caught:
        read_table(write(tmp_path, *lines))
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is none of that name"):
        read_table(tmp_path / "none.csv")
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(InputError, match="UTF-8"):
        read_table(binary)
    with pytest.raises(InputError, match="expected a CSV file of measurements"):
        read_table(tmp_path)
