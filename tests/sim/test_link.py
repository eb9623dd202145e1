"""Shared links: exact times worked out by hand, and properties of any traffic."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodel.sim import Kernel, Link


def times(transfers: Sequence[tuple[int, ...]], capacity: Fraction | int, cap: Fraction | int) -> list[int]:
    """Ends of transfers (start, size) or (start, size, users), in the order given."""
    kernel = Kernel()
    link = Link(kernel, "hbm", Fraction(capacity), Fraction(cap))
    ends = [-1] * len(transfers)

    def user(index: int, start: int, size: int, users: int = 1) -> Any:
        yield kernel.env.timeout(start)
        yield link.on_behalf_of(users).transfer(size)
        ends[index] = int(kernel.env.now)

    for index, transfer in enumerate(transfers):
        kernel.env.process(user(index, *transfer))
    kernel.env.run()
    return ends


def test_one_user_gets_its_cap() -> None:
    assert times([(0, 96)], capacity=10, cap=8) == [12]  # 96 / 8
    assert times([(0, 97)], capacity=10, cap=8) == [13]  # 12.125, ends at the next whole tick
    assert times([(7, 96)], capacity=10, cap=8) == [19]


def test_a_cap_above_the_capacity_is_the_capacity() -> None:
    assert times([(0, 100)], capacity=10, cap=25) == [10]


def test_two_users_share_the_capacity() -> None:
    # 10 B/tick for two: 5 each. B's 50 bytes are there at 10; A has 50 left at min(8, 10) = 8: 6.25 -> 17.
    assert times([(0, 100), (0, 50)], capacity=10, cap=8) == [17, 10]


def test_two_users_below_the_capacity_have_their_caps() -> None:
    # 3 + 3 <= 10: 30 / 3 = 10 and 33 / 3 = 11, as if each were alone.
    assert times([(0, 30), (0, 33)], capacity=10, cap=3) == [10, 11]


def test_a_user_that_joins_slows_the_other() -> None:
    # A alone until 5: 40 bytes. Then 5 each: B's 30 bytes take 6 ticks, until 11; A is at 70. 30 left at 8: 3.75 -> 15.
    assert times([(0, 100), (5, 30)], capacity=10, cap=8) == [15, 11]


def test_a_user_that_joins_at_the_tick_another_ends_does_not_slow_it() -> None:
    assert times([(0, 80), (10, 80)], capacity=10, cap=8) == [10, 20]


def test_three_shares_are_exact() -> None:
    # 10/3 B/tick each is no binary fraction: three times 100 bytes take 300 / 10 = 30 ticks, not 31.
    assert times([(0, 100)] * 3, capacity=10, cap=10) == [30, 30, 30]
    # 3 users: V = 10 at tick 3. Seven join, 1 B/tick each: V = 15 at 8, when their 5 bytes are there. The three have
    # 5 bytes left at 10/3 each again: 1.5 ticks -> 10.
    assert times([(0, 20)] * 3 + [(3, 5)] * 7, capacity=10, cap=10) == [10, 10, 10] + [8] * 7


def test_rates_may_be_fractions() -> None:
    # 78.4 B/tick: 784 bytes in 10 ticks exactly; two users 39.2 each.
    assert times([(0, 784)], capacity=Fraction("78.4"), cap=Fraction("78.4")) == [10]
    assert times([(0, 392), (0, 392)], capacity=Fraction("78.4"), cap=Fraction("78.4")) == [10, 10]


def test_nothing_to_move_takes_no_time() -> None:
    assert times([(4, 0), (0, 80)], capacity=10, cap=8) == [4, 10]


def by_ticks(transfers: list[tuple[int, int]], capacity: Fraction, cap: Fraction) -> list[int]:
    """The same, tick by tick in fractions: slow and obvious."""
    ends = [-1] * len(transfers)
    moved = [Fraction(0)] * len(transfers)
    now = 0
    while -1 in ends:
        for index, (start, size) in enumerate(transfers):
            if start <= now and ends[index] < 0 and moved[index] >= size:
                ends[index] = now
        active = [i for i, (start, _) in enumerate(transfers) if start <= now and ends[i] < 0]
        for index in active:
            moved[index] += min(cap, capacity, capacity / len(active))
        now += 1
    return ends


transfer_lists = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 200)), min_size=1, max_size=9)
rates = st.fractions(min_value=Fraction(1, 2), max_value=20, max_denominator=7)


@given(transfer_lists, rates, rates)
def test_any_traffic_ends_when_a_tick_by_tick_count_says(
    transfers: list[tuple[int, int]], capacity: Fraction, cap: Fraction
) -> None:
    assert times(transfers, capacity, cap) == by_ticks(transfers, capacity, cap)


@given(transfer_lists, rates, rates)
def test_no_window_sees_more_bytes_than_the_capacity(
    transfers: list[tuple[int, int]], capacity: Fraction, cap: Fraction
) -> None:
    ends = times(transfers, capacity, cap)
    for first, _ in transfers:
        for last in ends:
            inside = sum(
                size for (start, size), end in zip(transfers, ends, strict=True) if first <= start and end <= last
            )
            assert inside <= capacity * max(0, last - first)
    for (start, size), end in zip(transfers, ends, strict=True):
        assert size <= min(cap, capacity) * (end - start)


@given(transfer_lists, rates, rates, st.randoms(use_true_random=False))
def test_the_order_in_which_users_are_made_does_not_matter(
    transfers: list[tuple[int, int]], capacity: Fraction, cap: Fraction, random: object
) -> None:
    shuffled = list(enumerate(transfers))
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    ends = dict(zip((index for index, _ in shuffled), times([t for _, t in shuffled], capacity, cap), strict=True))
    assert [ends[index] for index in range(len(transfers))] == times(transfers, capacity, cap)


@pytest.mark.parametrize("users", [1, 2, 3, 5, 7, 32, 36])
def test_equal_users_end_together_at_the_exact_tick(users: int) -> None:
    # users x 1000 bytes at 11 B/tick in all
    assert times([(0, 1000)] * users, capacity=11, cap=11) == [-(-users * 1000 // 11)] * users


transfer_groups = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 200), st.integers(1, 6)), min_size=1, max_size=5
)


@given(transfer_groups, rates, rates)
def test_one_transfer_on_behalf_of_several_is_that_many_transfers(
    groups: list[tuple[int, int, int]], capacity: Fraction, cap: Fraction
) -> None:
    each = [(start, size) for start, size, users in groups for _ in range(users)]
    ends = iter(times(each, capacity, cap))
    expected = []
    for _, _, users in groups:
        (end,) = {next(ends) for _ in range(users)}
        expected.append(end)
    assert times(groups, capacity, cap) == expected
