"""Products in a stated order: equal to a scalar loop on exact fractions, however the work is cut."""

from __future__ import annotations

import multiprocessing
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numerics_support import bits, same

from hwmodel import numerics as nm
from hwmodel.errors import NumericsError
from hwmodel.numerics import backend as backend_module
from hwmodel.numerics import chains, exactness, orders
from hwmodel.numerics.exact_sums import exact_dot, exact_product
from hwmodel.numerics.reference import sums as reference

SHAPES = [
    (1, 1, 1), (1, 7, 1), (1, 40, 3), (9, 33, 1), (3, 65, 2), (5, 1, 6), (4, 0, 3), (2, 300, 33), (17, 64, 40),
    (32, 3, 32), (7, 257, 31), (1, 513, 64), (65, 300, 1), (33, 513, 70),
]  # fmt: skip
SMALL = SHAPES[:7]


def normal(shape: tuple[int, ...], seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def wide(shape: tuple[int, ...], seed: int) -> Any:
    """Twenty binades up and down, so that every addition rounds."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * 2.0 ** rng.integers(-20, 20, shape)).astype(np.float32)


def tiny(shape: tuple[int, ...], seed: int) -> Any:
    """Products and sums among the fp32 subnormals."""
    return (normal(shape, seed) * np.float32(2.0**-70)).astype(np.float32)


def hif4(shape: tuple[int, int], axis: int, seed: int) -> Any:
    return nm.dequantize(nm.quantize(normal(shape, seed), "hif4", axis=axis))


def float32_loop(a: Any, b: Any, start: Any) -> Any:
    """The chain spelled out with numpy's fp32 numbers, all outputs of one k at a time."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32) if start is None else start.copy()
    for k in range(a.shape[1]):
        for i in range(a.shape[0]):
            product = a[i, k] * b[k]
            total[i] = total[i] + product
    return total


def scalar(a: Any, b: Any, start: Any, one: Any) -> Any:
    rows, cols = a.shape[0], b.shape[1]
    out = np.empty((rows, cols), np.float32)
    for i in range(rows):
        for j in range(cols):
            out[i, j] = one(a[i].tolist(), b[:, j].tolist(), 0.0 if start is None else float(start[i, j]))
    return out


@pytest.mark.parametrize("make", [normal, wide, tiny])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_seq_equals_a_scalar_loop_check_9(backend: str, shape: tuple[int, int, int], make: Any) -> None:
    rows, k, cols = shape
    a, b, acc = make((rows, k), 1), make((k, cols), 2), make((rows, cols), 3)
    for start in (None, acc):
        want = float32_loop(a, b, start)
        if shape in SMALL:
            assert same(want, scalar(a, b, start, reference.sequential))
        assert same(nm.matmul(a, b, acc=start), want)
        strided = np.repeat(a, 2, axis=1)[:, ::2], np.asfortranarray(b)
        assert same(nm.matmul(*strided, acc=start), want)
        assert same(nm.matmul(a[::-1], b[:, ::-1], acc=None if start is None else start[::-1, ::-1])[::-1, ::-1], want)
    assert same(acc, make((rows, cols), 3))


@pytest.mark.parametrize("group", [32, 64, 7])
@pytest.mark.parametrize("shape", [*SMALL, (3, 70, 6)], ids=str)
def test_group_equals_a_scalar_loop(backend: str, shape: tuple[int, int, int], group: int) -> None:
    rows, k, cols = shape
    for make in (normal, wide, tiny):
        a, b, acc = make((rows, k), 4), make((k, cols), 5), make((rows, cols), 6)
        for start in (None, acc):
            want = scalar(a, b, start, lambda x, y, s: reference.grouped(x, y, group, s))
            assert same(nm.matmul(a, b, order="group", group=group, acc=start), want)


@pytest.mark.parametrize("shape", SHAPES[:10], ids=str)
def test_f64_equals_a_python_loop(backend: str, shape: tuple[int, int, int]) -> None:
    rows, k, cols = shape
    a, b, acc = wide((rows, k), 7), wide((k, cols), 8), wide((rows, cols), 9)

    def one(x: list[float], y: list[float], start: float) -> np.float32:
        for left, right in zip(x, y, strict=True):
            start += left * right
        return np.float32(start)

    for start in (None, acc):
        assert same(nm.matmul(a, b, order="f64", acc=start), scalar(a, b, start, one))


@given(st.integers(1, 9), st.integers(1, 90), st.integers(1, 40), st.integers(0, 90))
def test_a_chain_goes_on_where_a_shorter_one_ended(rows: int, k: int, cols: int, cut: int) -> None:
    cut = min(cut, k)
    a, b = wide((rows, k), k), wide((k, cols), cols)
    for name in ("numpy", "numba"):
        nm.set_backend(name)
        part = nm.matmul(a[:, :cut], b[:cut])
        assert same(nm.matmul(a[:, cut:], b[cut:], acc=part), nm.matmul(a, b))


def test_tiles_of_rows_and_columns_change_no_bit(backend: str) -> None:
    a, b = wide((70, 200), 1), wide((200, 90), 2)
    whole = nm.matmul(a, b)
    for row in (0, 1, 16, 69):
        for col in (0, 1, 31, 64, 89):
            assert same(nm.matmul(a[row:], b[:, col:]), whole[row:, col:])
            assert same(nm.matmul(a[: row + 1], b[:, : col + 1]), whole[: row + 1, : col + 1])


def test_out_takes_the_result_and_may_be_acc(backend: str) -> None:
    a, b, acc = wide((5, 40), 1), wide((40, 9), 2), wide((5, 9), 3)
    want = nm.matmul(a, b, acc=acc)
    out = np.empty((5, 9), np.float32)
    assert nm.matmul(a, b, acc=acc, out=out) is out
    assert same(out, want)
    spread = np.empty((5, 18), np.float32)[:, ::2]
    assert nm.matmul(a, b, acc=acc, out=spread) is spread
    assert same(spread, want)
    in_place = acc.copy()
    for order in nm.ORDERS:
        in_place[...] = acc
        fresh = nm.matmul(a, b, order, acc=acc, group=32)
        assert same(nm.matmul(a, b, order, acc=in_place, out=in_place, group=32), fresh)


def test_products_are_not_fused_with_sums_check_11(backend: str) -> None:
    """c + a b with a = b = 1 + 2^-12 and c = -(1 + 2^-11) is 0 with a rounded product, 2^-24 with a fused one."""
    for rows, cols in ((1, 1), (3, 40), (70, 33)):
        acc = np.full((rows, cols), -(1 + 2.0**-11), np.float32)
        a, b = np.full((rows, 1), 1 + 2.0**-12, np.float32), np.full((1, cols), 1 + 2.0**-12, np.float32)
        assert not nm.matmul(a, b, acc=acc).any()
        first = np.concatenate([np.full((rows, 1), -1, np.float32), a], axis=1)
        second = np.concatenate([np.full((1, cols), 1 + 2.0**-11, np.float32), b], axis=0)
        assert not nm.matmul(first, second).any()


def test_every_nan_is_canonical(backend: str) -> None:
    a = np.array([[np.inf, 1.0], [1.0, 2.0]], np.float32)
    b = np.array([[1.0, -np.inf], [-np.inf, np.inf]], np.float32)
    negative_nan = np.uint32(0xFFC12345).view(np.float32)
    for order in nm.ORDERS:
        out = nm.matmul(a, b, order, group=2)
        assert bits(out[0]).tolist() == [0x7FC00000, 0x7FC00000]
        assert out[1, 0] == -np.inf
        acc = np.full((2, 2), negative_nan, np.float32)
        assert (bits(nm.matmul(np.ones((2, 2), np.float32), b, order, acc=acc, group=2)) == 0x7FC00000).all()
    c = np.zeros((300, 300), np.float32)
    c[0, 0] = negative_nan
    assert bits(nm.matmul(c, c))[0, 0] == 0x7FC00000


def test_zero_sums_are_positive_and_a_negative_zero_start_is_kept(backend: str) -> None:
    minus = np.full((2, 2), -0.0, np.float32)
    one = np.ones((2, 2), np.float32)
    for order in ("seq", "group", "f64"):
        assert (bits(nm.matmul(minus, one, order, group=2)) == 0).all()
    assert (bits(nm.matmul(minus, one, acc=minus)) == 0x80000000).all()
    assert (bits(nm.matmul(one * 0, one, acc=minus)) == 0).all()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_numpy_chains_go_on_from_any_sums(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """einsum with the sums as its first terms, the separate steps where they are -0, NaN or Inf, and without einsum."""
    a, b, acc = (wide(shape, 3).astype(kind) for shape in ((37, 50), (50, 21), (37, 21)))
    starts = [None, acc, acc.copy(), acc.copy(), acc.copy()]
    starts[2][5, 5], starts[3][36, 0], starts[4][0, 20] = -0.0, np.nan, np.inf  # type: ignore[index]
    with np.errstate(all="ignore"):
        for start in starts:
            want, got, stepped = (np.empty((37, 21), kind) for _ in range(3))
            chains.by_steps(a, b, start, want)
            chains.chain(a, b, start, got)
            with monkeypatch.context() as patch:
                patch.setattr(chains, "einsum_is_sequential", lambda _kind: False)
                chains.chain(a, b, start, stepped)
            assert want.tobytes() == got.tobytes() == stepped.tobytes()
            one = np.empty((37, 1), kind)
            chains.chain(a, b[:, :1], None if start is None else start[:, :1], one)
            assert one.tobytes() == np.ascontiguousarray(want[:, :1]).tobytes()


# --- the path that needs no order ---------------------------------------------------------------------------------


@pytest.fixture
def spied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the paths that `sequential` took."""
    taken: list[str] = []
    real_blas, real_numpy = orders._blas_exact, orders.sequential_numpy

    def blas(*args: Any) -> None:
        taken.append("blas")
        real_blas(*args)

    def chain(*args: Any) -> None:
        taken.append("chain")
        real_numpy(*args)

    monkeypatch.setattr(orders, "_blas_exact", blas)
    monkeypatch.setattr(orders, "sequential_numpy", chain)
    monkeypatch.setattr(orders, "_WORTH_A_TEST", 0.0)
    monkeypatch.setattr(orders, "_test_seconds", lambda _a, _b: 0.0)
    nm.set_backend("numpy")
    return taken


def test_the_proved_path_fires_and_equals_the_chain_check_10(spied: list[str]) -> None:
    a, b = hif4((96, 256), 1, 1), hif4((256, 80), 0, 2)
    got = nm.matmul(a, b)
    want = np.empty_like(got)
    orders.sequential_numpy(a, b, None, want)
    assert spied == ["blas", "chain"]
    assert same(got, want)
    spied.clear()
    assert same(nm.matmul(a, b, acc=got), nm.matmul(np.concatenate([a, a], 1), np.concatenate([b, b], 0)))
    assert spied[0] == "blas"


def test_the_proved_path_refuses_check_10(spied: list[str]) -> None:
    good_a, good_b = hif4((96, 256), 1, 1), hif4((256, 80), 0, 2)
    spread = good_a.copy()
    spread[3, 5] = 2.0**-30
    with_nan, with_inf = good_a.copy(), good_a.copy()
    with_nan[0, 0], with_inf[95, 255] = np.nan, np.inf
    minus = np.zeros((96, 80), np.float32)
    minus[1, 1] = -0.0
    cases: list[tuple[Any, Any, Any]] = [
        (normal((96, 256), 1), good_b, None),
        (good_a, normal((256, 80), 1), None),
        (spread, good_b, None),
        (with_nan, good_b, None),
        (with_inf, good_b, None),
        (good_a, good_b, normal((96, 80), 5)),
        (good_a, good_b, minus),
        (good_a * np.float32(2.0**-75), good_b * np.float32(2.0**-75), None),
        (good_a * np.float32(2.0**62), good_b * np.float32(2.0**62), None),
    ]
    for a, b, acc in cases:
        spied.clear()
        nm.matmul(a, b, acc=acc)
        assert spied == ["chain"]


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 8, 24]), st.integers(1, 40), st.booleans())
def test_whatever_the_proof_says_the_bits_are_the_chains(seed: int, width: int, k: int, start: bool) -> None:
    """Random integers of a given width times random powers of two: sometimes proved, sometimes not, always equal."""
    rng = np.random.default_rng(seed)
    a = (rng.integers(-(2**width), 2**width, (4, k)) * 2.0 ** rng.integers(-80, 40, (4, 1))).astype(np.float32)
    b = (rng.integers(-(2**8), 2**8, (k, 6)) * 2.0 ** rng.integers(-70, 40, (1, 6))).astype(np.float32)
    acc = (rng.integers(-9, 9, (4, 6)) * 2.0 ** rng.integers(-40, 5)).astype(np.float32) if start else None
    want = np.empty((4, 6), np.float32)
    orders.sequential_numpy(a, b, acc, want)
    if exactness.exact_in_any_order(a, b, 24, acc, thorough=bool(seed & 1)):
        got = np.empty((4, 6), np.float32)
        orders._blas_exact(a, b, acc, got)
        assert same(got, want)


def test_a_product_of_magnitudes_decides_where_norms_just_fail() -> None:
    """Signs and sizes that norms overrate: disjoint peaks. The thorough test proves what the quick one does not."""
    a, b = np.ones((3, 256), np.float32), np.ones((256, 2), np.float32)
    a[:, :128], b[128:] = 401.0, 401.0
    assert not exactness.exact_in_any_order(a, b, 24)
    assert exactness.exact_in_any_order(a, b, 24, thorough=True)
    b[:128] = 401.0
    assert not exactness.exact_in_any_order(a, b, 24, thorough=True)
    a[1], b[:, 0] = 0.0, 0.0
    assert not exactness.exact_in_any_order(a, b, 24, thorough=True)


def test_the_bound_is_met_and_missed_by_one_unit() -> None:
    a, b = np.full((1, 1), 4097, np.float32), np.full((1, 1), 4095, np.float32)
    assert exactness.exact_in_any_order(a, b, 24)  # 2^24 - 1
    assert not exactness.exact_in_any_order(a, a, 24)
    assert exactness.exact_in_any_order(a, a, 53)


# --- sums that are exact in any order ------------------------------------------------------------------------------


def test_a_hif4_group_never_needs_more_than_24_bits() -> None:
    """Largest elements and mantissas everywhere: 64 x 196 x 196 = 2,458,624 quanta."""
    largest = np.full((1, 64), 1.75 * 4 * 1.75, np.float32)
    smallest = np.full((1, 64), 0.25 * 1.75, np.float32)
    a = np.concatenate([largest, smallest])
    assert exactness.exact_in_any_order(a, a.T, 24)
    quanta = (largest / 0.0625).astype(int)
    assert int((quanta * quanta).sum()) == 64 * 196 * 196 == 2_458_624 < 2**24


def test_group_is_order_free_for_hif4_and_fp4(backend: str) -> None:
    for dtype, group in (("hif4", 64), ("mxfp4_e2m1", 32), ("mxfp4_e1m2", 32)):
        a = nm.dequantize(nm.quantize(wide((33, 192), 1), dtype))
        b = nm.dequantize(nm.quantize(wide((192, 35), 2), dtype, axis=0))
        want = nm.matmul(a, b, "group", group=group)
        shuffle = np.concatenate(
            [start + np.random.default_rng(start).permutation(group) for start in range(0, 192, group)]
        )
        assert same(nm.matmul(a[:, shuffle], b[shuffle], "group", group=group), want)
        one_group = a[:, :group], b[:group]
        assert same(nm.matmul(*one_group), nm.matmul(*one_group, "group", group=group))


def test_exact_sums_of_awkward_operands() -> None:
    """Cancellation, ties of fp32, overflow to infinity: where float64 alone would round wrongly."""
    tie = 1 + 2.0**-24
    rows = np.array([
        [1.0, 2.0**-24, 2.0**-70, 0.0],
        [1.0, 2.0**-24, -(2.0**-70), 0.0],
        [1.0, 2.0**-24, 0.0, 0.0],
        [2.0**60, 1.0, -(2.0**60), 2.0**-60],
        [2.0**100, -(2.0**100), 2.0**-100, 2.0**-140],
        [0.0, 0.0, 0.0, 0.0],
    ], np.float32)  # fmt: skip
    ones = np.ones((4, 2), np.float32)
    want = np.array([1 + 2.0**-23, 1.0, 1.0, 1.0, 2.0**-100, 0.0], np.float32)
    assert float(np.float32(tie)) == 1.0
    assert same(exact_product(rows, ones), np.repeat(want[:, None], 2, axis=1))
    for row, value in zip(rows, want, strict=True):
        assert same(exact_dot(row.astype(np.float64), np.ones(4)), value)
    # 2^128 - 2^103 is the midpoint between the largest number and what would come next: a tie, to infinity.
    edge = np.array([[2.0**127, 2.0**127 - 2.0**103, last] for last in (0.0, 2.0**-100, -(2.0**-100))], np.float32)
    largest = float(np.finfo(np.float32).max)
    assert exact_product(edge, np.ones((3, 1), np.float32))[:, 0].tolist() == [np.inf, np.inf, largest]


@given(
    st.lists(
        st.tuples(
            st.floats(width=32, allow_nan=False, allow_infinity=False),
            st.floats(width=32, allow_nan=False, allow_infinity=False),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_exact_dot_of_any_numbers(pairs: list[tuple[float, float]]) -> None:
    x, y = (np.array(each) for each in zip(*pairs, strict=True))
    want = reference.to_float(reference.fp32(sum((Fraction(p) * Fraction(q) for p, q in pairs), Fraction(0))))
    assert same(exact_dot(x, y) + np.float32(0), np.float32(want))
    a, b = x[None, :].astype(np.float32), y[:, None].astype(np.float32)
    with np.errstate(all="ignore"):
        assert same(exact_product(a, b), np.float32([[want]]))


def test_group_with_nan_and_infinity_leaves_the_other_rows_exact(backend: str) -> None:
    a, b = wide((6, 64), 1), wide((64, 5), 2)
    clean = nm.matmul(a, b, "group", group=32)
    a[2, 40], b[3, 1] = np.nan, np.inf
    got = nm.matmul(a, b, "group", group=32)
    assert np.isnan(got[2]).all()
    assert not np.isfinite(got[:, 1]).any()
    keep = np.ix_([0, 1, 3, 4, 5], [0, 2, 3, 4])
    assert same(got[keep], clean[keep])


# --- threads -------------------------------------------------------------------------------------------------------


def test_thread_count_changes_no_bit(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module, "THREAD_SECONDS", 0.0)
    monkeypatch.setattr(orders, "THREAD_SECONDS", 0.0)
    for rows, k, cols in ((100, 70, 50), (5, 70, 200), (70, 33, 1), (300, 40, 3)):
        a, b = wide((rows, k), 1), wide((k, cols), 2)
        quantised = hif4((rows, 128), 1, 3), hif4((128, cols), 0, 4)
        found = []
        for threads in (1, 2, 5):
            nm.set_threads(threads)
            found.append((nm.matmul(a, b), nm.matmul(a, b, "f64"), nm.matmul(*quantised, "group", group=64)))
        for other in found[1:]:
            assert all(same(left, right) for left, right in zip(found[0], other, strict=True))


def test_threads_work_in_a_child_of_a_process_that_used_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module, "THREAD_SECONDS", 0.0)
    nm.set_threads(2)
    a, b = wide((100, 70), 1), wide((70, 50), 2)
    expected = nm.matmul(a, b)
    with multiprocessing.get_context("fork").Pool(1) as children:
        assert same(children.apply_async(nm.matmul, (a, b)).get(60), expected)


def test_a_slice_that_fails_is_reported_after_the_others_have_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module, "THREAD_SECONDS", 0.0)
    nm.set_threads(4)
    done = []

    def task(start: int, stop: int) -> None:
        if start == 2:
            raise ValueError("slice at 2")
        done.append((start, stop))

    with pytest.raises(ValueError, match="slice at 2"):
        backend_module.run_slices(8, 1.0, task)
    assert sorted(done) == [(0, 2), (4, 6), (6, 8)]


def test_wrong_use() -> None:
    a, b = np.ones((2, 3), np.float32), np.ones((4, 2), np.float32)
    with pytest.raises(NumericsError, match=r"invalid matrix product, a is \(2, 3\) and b is \(4, 2\)"):
        nm.matmul(a, b)
    with pytest.raises(NumericsError, match="did you mean 'group'"):
        nm.matmul(a, b.T[:, :3].T, "grup")  # type: ignore[arg-type]
    with pytest.raises(NumericsError, match="needs operands with block scales"):
        nm.matmul(a, b[:3], "group")
    with pytest.raises(NumericsError, match="acc: expected fp32"):
        nm.matmul(a, b[:3], acc=np.zeros((2, 3), np.float32))
    with pytest.raises(NumericsError, match="out: expected fp32"):
        nm.matmul(a, b[:3], out=np.zeros((2, 2)))
    with pytest.raises(NumericsError, match="expected a matrix"):
        nm.matmul(a[0], b)
    with pytest.raises(NumericsError, match="would be rounded"):
        nm.matmul(np.full((2, 3), 0.1), b[:3])
    with pytest.raises(NumericsError, match="k_tile"):
        nm.matmul(a, b[:3], k_tile=0)
    with pytest.raises(NumericsError, match="group"):
        nm.matmul(a, b[:3], "group", group=0)
