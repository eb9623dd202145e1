"""Programs are printable: the same program gives the same lines, and they say what happens."""

from __future__ import annotations

from support import Script, prepared, program_of

from hwmodel.program import CoreProgram, Extract, Load, Program, Sync, Tensor, Tile, Window, describe, label_text, whole
from hwmodel.program.program import instruction_text

TILE = Tile("l1", 32, 512, "hif4", 16, 64, "NZ", "data", (16, 64))


def test_operands_say_where_they_are_and_what_they_hold() -> None:
    assert describe(TILE) == "l1[32:544] hif4 16x64 NZ"
    assert describe(whole(TILE)._replace(row=0, rows=8, offset=32, size=256)) == "l1[32:288] hif4 8x64 NZ"
    assert describe(TILE._replace(kind="scale")) == "l1[32:544] hif4 scale 16x64 NZ"
    assert describe(Window("a", 2, 4, 6, 8)) == "gm.a[2:8, 4:12]"


def test_one_line_says_engine_operation_operands_and_flags() -> None:
    script = Script()
    script.add("MTE2", Load(512, 16, 32, 0), Window("a", 0, 0, 16, 64), TILE, wait="free s>=3", sets="full t+2")
    script.add("M", Sync("prime free"), sets="free")
    lines = [instruction_text(instruction) for instruction in script.instructions]
    assert lines == [
        "    0 MTE2  tload         l1[32:544] hif4 16x64 NZ <- gm.a[0:16, 0:64]  wait free s>=3  set full t+2",
        "    1 M     set_flag      prime free  set free",
    ]


def test_labels() -> None:
    assert label_text((("m", 0), ("n", 3))) == "m0 n3"
    assert label_text(()) == ""
    script = Script()
    script.add("MTE1", Extract(8, "l0a"))
    assert "(n3)" in instruction_text(script.instructions[0]._replace(label=(("n", 3),)))


def test_a_program_is_comparable_and_prints_the_same_again() -> None:
    one, two = program_of(prepared(64, 64, 64)), program_of(prepared(64, 64, 64))
    assert one == two
    assert list(one.text()) == list(two.text())
    assert program_of(prepared(64, 64, 128)) != one


def test_the_head_of_a_program() -> None:
    tensors = {"a": Tensor("a", "hif4", 16, 64), "b": Tensor("b", "hif4", 64, 16, "col"),
               "a_scale": Tensor("a_scale", "hif4", 16, 64, kind="scale")}  # fmt: skip
    script = Script()
    script.add("MTE1", Extract(8, "l0a"))
    core = CoreProgram(3, tuple(script.instructions), {"a": (16, 0), "b": (0, 0)}, ({"a": (32, 0)}, {"a": (48, 0)}))
    program = Program(tensors, (core, CoreProgram(5, ())))
    assert list(program.text())[:5] == [
        "tensor a: hif4 [16, 64] row-major",
        "tensor b: hif4 [64, 16] column-major",
        "tensor a_scale: hif4 scales [16, 64] row-major",
        "core 3: 1 instructions, stands for 3 cores, a at (16, 0)",
        "    0 MTE1  textract    ",
    ]
    assert (program.count, program.active_cores) == (1, 4)
