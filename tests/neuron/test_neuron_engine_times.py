"""Times of the Vector and Scalar engine: published figures, rates by operands, and what a program takes."""

from __future__ import annotations

from typing import Any

import pytest
from neuron_programs import TRN1, TRN2, TRN3, normal, psum, result, sbuf

from hwmodel.config.arch import load_arch
from hwmodel.program.neuron import Access, Evacuate
from hwmodel.result import Result
from hwmodel.trace import Row
from hwmodel.units.neuron import evacuate

ARCHS = {name: load_arch(name) for name in (TRN1, TRN2, TRN3)}


def row(outcome: Result, engine: str) -> Row:
    assert outcome.trace is not None
    return next(row for row in outcome.trace.rows if row.engine == engine)


@pytest.mark.parametrize(("elements", "ns"), [(512, 700), (64, 167 + 64 / 0.96)])
def test_a_vector_copy_takes_the_published_time(elements: int, ns: float) -> None:
    """trn2: a copy of 512 elements from PSUM takes 700 ns, the next one starts 553 ns after it."""
    unit = ARCHS[TRN2].units["DVE"]
    timed = evacuate.timing(unit.spec, Evacuate("copy", elements))
    assert timed.before / 0.96 == pytest.approx(ns, rel=0.005)
    if elements == 512:
        assert timed.issue / 0.96 == pytest.approx(553, rel=0.002)


@pytest.mark.parametrize("elements", [64, 128, 512, 1000])
def test_a_scalar_instruction_takes_294_ns_and_its_elements(elements: int) -> None:
    timed = evacuate.timing(ARCHS[TRN2].units["ACT"].spec, Evacuate("copy", elements))
    assert timed.before / 1.2 == pytest.approx(294 + elements / 1.2, abs=1)


def test_dependent_scalar_instructions_of_one_element_follow_every_264_cycles() -> None:
    """trn1: the next instruction of the chain starts when the results of the one before are seen, 189 ns later."""
    timed = evacuate.timing(ARCHS[TRN1].units["ACT"].spec, Evacuate("copy", 1))
    assert timed.before == 264
    assert timed.before / 1.4 == pytest.approx(189, abs=0.5)


@pytest.mark.parametrize(("elements", "streaming"), [(64, 64), (256, 64), (512, 128), (2048, 512)])
def test_quantize_mx_takes_four_elements_a_cycle(elements: int, streaming: int) -> None:
    """trn3, VectorE; 64 cycles at least, as every instruction (hardware facts 2.2)."""
    spec = ARCHS[TRN3].units["DVE"].spec
    assert evacuate.timing(spec, Evacuate("quantize", elements)).issue == streaming + spec.issue_cycles


@pytest.mark.parametrize(("elements", "streaming"), [(1, 128), (64, 128), (512, 576), (1000, 1064)])
def test_a_reduction_takes_64_cycles_more_than_its_elements(elements: int, streaming: int) -> None:
    """max(64, N) + 64 (hardware facts 2.2, activation_reduce); a reset and reading the accumulator take 64."""
    for arch in ARCHS.values():
        spec = arch.units["ACT"].spec
        timed = evacuate.timing(spec, Evacuate("accumulate", elements, (Access("sbuf", "float32"),)))
        assert (timed.issue, timed.before) == (streaming + spec.issue_cycles, streaming + spec.latency_cycles)
        assert evacuate.timing(spec, Evacuate("reset", 1)).issue == 64 + spec.issue_cycles
        assert evacuate.timing(spec, Evacuate("read_accumulator", 1)).issue == 64 + spec.issue_cycles


S32, S16, SF16, S8 = (Access("sbuf", dtype) for dtype in ("float32", "bfloat16", "float16", "float8e5"))
P32, P16, P8 = (Access("psum", dtype) for dtype in ("float32", "bfloat16", "float8e5"))
SOME = 600
ADDS = [
    # inputs, output, cycles of 600 elements on trn1, trn2, trn3
    ((P32, S32), S32, 600, 600, 600),
    ((S16, P16), S16, 600, 600, 600),
    ((S32, P32), P32, 600, 600, 600),
    ((S32, S32), S32, 1200, 1200, 1200),
    ((S32, S16), S16, 1200, 1200, 1200),
    ((P32, P32), S32, 1200, 1200, 1200),
    ((S16, S16), S16, 600, 600, 600),
    ((S16, S16), S32, 600, 600, 600),
    ((SF16, SF16), SF16, 1200, 600, 600),
    ((SF16, S16), S16, 1200, 600, 600),
    ((SF16, SF16), S32, 1200, 1200, 1200),
    ((S8, S8), S16, 1200, 1200, 600),
]
COPIES = [
    (P32, S32, 600, 600, 600),
    (P32, S16, 600, 600, 600),
    (S32, S32, 600, 600, 600),
    (S16, S32, 600, 600, 600),
    (S16, S16, 600, 150, 150),
    (SF16, S16, 600, 150, 150),
    (P16, S16, 600, 300, 300),
    (S16, P16, 600, 300, 300),
    (P16, P16, 600, 600, 600),
    (S8, S16, 600, 600, 150),
    (P8, S8, 600, 600, 300),
]


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("case", ADDS, ids=str)
def test_a_sum_takes_twice_its_elements_but_for_psum_and_16_bit(case: Any, place: int) -> None:
    """tensor_tensor: N with one input in PSUM or both bf16 in SBUF, else 2N; from trn2 on N for all 16 bit in SBUF."""
    inputs, output, *cycles = case
    spec = list(ARCHS.values())[place].units["DVE"].spec
    timed = evacuate.timing(spec, Evacuate("add", SOME, inputs, output))
    assert timed.issue == cycles[place] + spec.issue_cycles
    assert timed.before == cycles[place] + spec.latency_cycles


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("case", COPIES, ids=str)
def test_a_vector_copy_is_faster_for_16_bit_from_trn2_on(case: Any, place: int) -> None:
    """4x from SBUF to SBUF, 2x with one side in PSUM (hardware facts 2.2); trn3 also with 8 bit (facts 1)."""
    source, target, *cycles = case
    spec = list(ARCHS.values())[place].units["DVE"].spec
    assert evacuate.timing(spec, Evacuate("copy", SOME, (source,), target)).issue == cycles[place] + spec.issue_cycles


@pytest.mark.parametrize(
    ("source", "target", "cycles"), [(P32, S16, 600), (S16, S16, 300), (P16, S16, 300), (P16, S8, 300), (S32, S32, 600)]
)
def test_a_scalar_copy_of_16_bit_takes_half_on_trn3(source: Access, target: Access, cycles: int) -> None:
    for name, expected in ((TRN1, 600), (TRN2, 600), (TRN3, cycles)):
        spec = ARCHS[name].units["ACT"].spec
        assert evacuate.timing(spec, Evacuate("copy", SOME, (source,), target)).issue == expected + spec.issue_cycles


def test_a_reduction_of_16_bit_takes_half_its_elements_on_trn3() -> None:
    for name, expected in ((TRN1, 664), (TRN2, 664), (TRN3, 364)):
        spec = ARCHS[name].units["ACT"].spec
        assert evacuate.timing(spec, Evacuate("accumulate", SOME, (S16,))).issue == expected + spec.issue_cycles


@pytest.mark.parametrize(("what", "elements"), [("add", 20), ("copy", 200), ("quantize", 8), ("copy", 1)])
def test_no_instruction_takes_less_than_64_cycles(what: str, elements: int) -> None:
    """MIN is a time: 2 x 20, 200 / 4 and 8 / 4 cycles all become 64."""
    spec = ARCHS[TRN3].units["DVE"].spec
    inputs = (S16,) if what == "copy" else (S32, S32)
    assert evacuate.timing(spec, Evacuate(what, elements, inputs, S16)).issue == 64 + spec.issue_cycles


def test_the_operands_of_a_program_decide_its_rates() -> None:
    """trn2: 16 bit SBUF to SBUF 4x, fp32 sum in SBUF 2N, fp32 sum from PSUM N; each from its start to its end."""
    tensors = {
        "a": sbuf("bfloat16", 8, 400, init=normal(1)),
        "b": sbuf("bfloat16", 8, 400),
        "c": sbuf("float32", 8, 400, init=normal(2)),
        "d": sbuf("float32", 8, 400),
        "p": psum(8, 400, init=normal(3)),
    }
    instructions = [
        {"op": "copy", "src": "a", "dst": "b"},
        {"op": "add", "a": "c", "b": "c", "dst": "d"},
        {"op": "add", "a": "p", "b": "c", "dst": "c"},
    ]
    vector = row(result(tensors, instructions, TRN2), "DVE")
    cycles = [int(end - start) // 25 - 160 for start, end in zip(vector.starts, vector.ends, strict=True)]
    assert cycles == [100, 800, 400]
