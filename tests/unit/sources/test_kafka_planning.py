"""Ranges of an epoch: a share for each partition by its backlog, and tasks of similar size."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.sources import kafka_planning
from tidegate.sources.kafka_planning import Range, grouped, taken

logs = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**6)), min_size=1, max_size=20)
"""Of each partition: where it is read from, and how much is behind that."""


def part(place: int, begin: int, end: int) -> Range:
    return Range(place=place, begin=begin, end=end)


def of_sizes(*sizes: int) -> tuple[Range, ...]:
    return tuple(part(place, 0, size) for place, size in enumerate(sizes))


def sizes(ranges: tuple[Range, ...], tasks: int, worth_a_task: int = 1) -> list[int]:
    """How much each task reads."""
    shared = grouped(ranges, tasks, worth_a_task=worth_a_task)
    return [sum(shared.ranges[n].size for n in task) for task in shared.tasks]


def test_all_is_taken_where_there_is_room() -> None:
    assert taken({0: 5, 1: 7, 2: 9}, {0: 10, 1: 7, 2: 12}, 8) == (part(0, 5, 10), part(2, 9, 12))


def test_a_partition_with_a_larger_backlog_gets_more() -> None:
    assert taken({0: 0, 1: 0}, {0: 300, 1: 900}, 400) == (part(0, 0, 100), part(1, 0, 300))


def test_every_partition_with_a_backlog_gets_something() -> None:
    assert taken({0: 0, 1: 0, 2: 0}, {0: 1, 1: 10**9, 2: 1}, 2) == of_sizes(1, 1, 1)


def test_nothing_is_taken_of_a_partition_that_is_read_beyond_its_end() -> None:
    assert taken({0: 10}, {0: 7}, 100) == ()


@given(logs, st.integers(1, 10**7))
def test_shares_are_fair_and_fill_the_epoch(log: list[tuple[int, int]], max_rows: int) -> None:
    begin = {place: first for place, (first, _) in enumerate(log)}
    end = {place: first + lag for place, (first, lag) in enumerate(log)}
    waiting = {place: lag for place, (_, lag) in enumerate(log) if lag}
    got = {each.place: each for each in taken(begin, end, max_rows)}
    assert got.keys() == waiting.keys()
    assert all(each.begin == begin[n] and 0 < each.size <= waiting[n] for n, each in got.items())
    total = sum(waiting.values())
    assert sum(each.size for each in got.values()) == min(total, max(max_rows, len(waiting)))
    for place, each in got.items():
        assert each.size >= waiting[place] * min(1, max_rows / total) - len(waiting)


def test_partitions_stay_whole_where_that_comes_out_even() -> None:
    shared = grouped(of_sizes(30, 10, 20), 2, worth_a_task=1)
    assert shared.ranges == of_sizes(30, 10, 20)
    assert shared.tasks == ((0,), (1, 2))


def test_a_single_partition_is_cut_for_all_tasks() -> None:
    shared = grouped(of_sizes(90), 3, worth_a_task=1)
    assert shared.ranges == (part(0, 0, 30), part(0, 30, 60), part(0, 60, 90))
    assert shared.tasks == ((0,), (1,), (2,))


def test_a_large_partition_is_cut_and_small_ones_are_not() -> None:
    shared = grouped(of_sizes(10, 980, 10), 2, worth_a_task=1)
    assert shared.ranges == (part(0, 0, 10), part(1, 0, 490), part(1, 490, 980), part(2, 0, 10))
    assert shared.tasks == ((0, 1), (2, 3))


def test_each_range_knows_how_much_its_task_reads() -> None:
    assert grouped(of_sizes(30, 10, 21), 2, worth_a_task=1).task_sizes == (30, 31, 31)
    assert grouped(of_sizes(30, 10, 20), 1, worth_a_task=1).task_sizes == (60, 60, 60)
    assert grouped(of_sizes(10, 980, 12), 2, worth_a_task=1).task_sizes == (501, 501, 501, 501)
    assert grouped((), 4).task_sizes == ()


def test_few_rows_are_one_task() -> None:
    assert sizes(of_sizes(100, 100, 100), 4, worth_a_task=1000) == [300]
    assert sizes(of_sizes(1000, 1000, 1000), 4, worth_a_task=1000) == [1000, 1000, 1000]


def test_nothing_is_no_task() -> None:
    assert grouped((), 4).tasks == ()


@given(logs, st.integers(1, 8), st.integers(1, 10_000))
def test_tasks_cover_all_ranges_once_and_are_even(
    log: list[tuple[int, int]], tasks: int, worth_a_task: int
) -> None:
    ranges = tuple(part(n, first, first + lag) for n, (first, lag) in enumerate(log) if lag)
    shared = grouped(ranges, tasks, worth_a_task=worth_a_task)
    assert list(shared.ranges) == sorted(shared.ranges)
    assert sorted(n for task in shared.tasks for n in task) == [*range(len(shared.ranges))]
    assert joined(shared.ranges) == list(ranges)
    for task in shared.tasks:
        places = [shared.ranges[n].place for n in task]
        assert len(set(places)) == len(places)
    total = sum(each.size for each in ranges)
    assert len(shared.tasks) <= tasks
    wanted = max(1, min(tasks, total // worth_a_task))
    assert all(size <= 1.1 * total / wanted + 1 for size in sizes(ranges, tasks, worth_a_task))


@given(st.lists(st.integers(1, 9), max_size=30), st.integers(1, 8))
def test_whole_ranges_go_to_the_first_of_the_tasks_that_have_least(
    lags: list[int], tasks: int
) -> None:
    groups: list[list[Range]] = [[] for _ in range(tasks)]
    for each in sorted(of_sizes(*lags), key=lambda each: (-each.size, each)):
        min(groups, key=lambda group: sum(part.size for part in group)).append(each)
    assert kafka_planning._packed(of_sizes(*lags), tasks) == groups


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often it was asked for the size of a range, by its place."""
    found: Counter[int] = Counter()

    def size(part: Range) -> int:
        found[part.place] += 1
        return part.end - part.begin

    monkeypatch.setattr(Range, "size", property(size))
    return found


@pytest.mark.parametrize("lags", [[100] * 10_000, [10**6, *[100] * 9_999]], ids=["even", "uneven"])
def test_of_many_partitions_each_is_looked_at_a_few_times(
    looks: Counter[int], lags: list[int]
) -> None:
    grouped(of_sizes(*lags), 8)
    assert 0 < looks.total() <= 10 * len(lags)


def joined(ranges: tuple[Range, ...]) -> list[Range]:
    """Neighbours of a partition put together again; a gap or an overlap stays visible."""
    whole: list[Range] = []
    for each in ranges:
        assert each.size > 0
        if whole and (whole[-1].place, whole[-1].end) == (each.place, each.begin):
            each = part(each.place, whole.pop().begin, each.end)  # noqa: PLW2901
        whole.append(each)
    return whole
