"""What varies: values split at commas outside brackets, each path once, and scenarios that are validated like files."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwmodel.config.overrides import Override
from hwmodel.errors import ConfigError, InputError
from hwmodel.scenario import load
from hwmodel.study.points import Template, grid, parse_axes, parse_axis, split_values


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("1,2,4", ["1", "2", "4"]),
        ("[128, 64, 256],[64,64,256]", ["[128, 64, 256]", "[64,64,256]"]),
        ("{l1: 2, l0: 1},{l1: 1}", ["{l1: 2, l0: 1}", "{l1: 1}"]),
        ("'a,b',c", ["'a,b'", "c"]),
        ("ascend_a3", ["ascend_a3"]),
        ("[[1, 2], [3]] , 4", ["[[1, 2], [3]]", "4"]),
    ],
)
def test_values_are_split_at_commas_outside_brackets(text: str, parts: list[str]) -> None:
    assert split_values(text) == parts


@pytest.mark.parametrize("text", ["[1,2", "1,2]", "[1,2}", "1,,2", "", "1,", "'a,b"])
def test_lists_that_cannot_be_split(text: str) -> None:
    with pytest.raises(InputError, match="expected"):
        split_values(text)


def test_values_are_yaml_and_each_counts_once() -> None:
    axis = parse_axis("tiling.base=[128, 64, 256],[128,64,256],[64, 64, 256]")
    assert axis.name == "tiling.base"
    assert axis.values == ([128, 64, 256], [64, 64, 256])
    assert parse_axis("x.y=1,2.5,off,text").values == (1, 2.5, "off", "text")


@pytest.mark.parametrize("text", ["problem.m", "=1,2", "problem..m=1", "problem.m=[1", "problem=1,2"])
def test_axes_that_are_refused(text: str) -> None:
    with pytest.raises((InputError, ConfigError)):
        parse_axis(text)


def test_a_path_varies_once_and_the_grid_has_a_limit() -> None:
    with pytest.raises(InputError, match="each path once"):
        parse_axes(["problem.m=1,2", "problem.m=3"])
    with pytest.raises(InputError, match="at most 1,000,000 points"):
        parse_axes({"problem.m": list(range(1001)), "problem.n": list(range(1001))})
    with pytest.raises(InputError, match="a list of values"):
        parse_axes({"problem.m": "64"})


def test_the_last_axis_is_the_fastest() -> None:
    axes = parse_axes(["problem.m=1,2", "problem.n=3,4"])
    assert [point.values for point in grid(axes)] == [(1, 3), (1, 4), (2, 3), (2, 4)]


def test_a_point_is_the_scenario_that_the_file_with_overrides_would_be() -> None:
    template = Template.read("hif4_512x128x512", {"problem.m": 256})
    point = template.scenario(
        Override(("tiling", "tile_n"), 64), Override(("arch", "units", "cube", "startup_cycles"), 20)
    )
    whole = {"problem.m": 256, "expect": {}, "tiling.tile_n": 64, "arch.units.cube.startup_cycles": 20}
    assert point == load("hif4_512x128x512", whole)
    assert point.hash() == load("hif4_512x128x512", whole).hash()
    assert template.scenario().arch is template.scenario().arch  # read once


def test_a_point_that_is_not_valid_names_the_field() -> None:
    template = Template.read("hif4_512x128x512")
    with pytest.raises(ConfigError, match=r"problem\.m"):
        template.scenario(Override(("problem", "m"), -1))
    with pytest.raises(ConfigError, match="did you mean 'tile_n'"):
        template.scenario(Override(("tiling", "tile_m"), 64))


def test_arch_may_vary_and_be_overridden() -> None:
    template = Template.read("silicon/a3_gemm_1536")
    made = [template.scenario(Override(("arch",), name)) for name in ("ascend_a3", "ascend_a5", "ascend_a3")]
    assert [each.arch.name for each in made] == ["ascend_a3", "ascend_a5", "ascend_a3"]
    slower = template.scenario(Override(("arch",), "ascend_a5"), Override(("arch", "clock_mhz"), 1000))
    assert (slower.arch.name, slower.arch.spec.clock_mhz) == ("ascend_a5", 1000)


def test_a_template_of_a_scenario(tmp_path: Path) -> None:
    loaded = load("hif4_64x64x64", {"expect": {}})
    assert Template.of(loaded).scenario().hash() == loaded.hash()
