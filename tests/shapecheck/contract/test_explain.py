"""What a wrong number of rows is made of."""

import time
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shapecheck._contract._explain import Explanation, Group, explain, explain_first, sentence

TEXT, VIDEO, AUDIO = Group("text", 77), Group("video", 512), Group("audio", 126)

few = settings(max_examples=100, deadline=None)


def said(groups, rows):
    explanation = explain(groups, rows)
    return None if explanation is None else sentence(explanation)


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (512, "512 rows are video only; text (77) and audio (126) are missing"),
        (589, "589 rows are text and video only; audio (126) is missing"),
        (77, "77 rows are text only; video (512) and audio (126) are missing"),
        (0, "there are no rows; text (77), video (512) and audio (126) are missing"),
    ],
)
def test_says_what_is_missing_of_715_rows(rows, text):
    assert said([TEXT, VIDEO, AUDIO], rows) == text


@pytest.mark.parametrize("rows", [715, 716, 78, 511, -1])
def test_says_nothing_where_no_parts_make_the_number(rows):
    assert explain([TEXT, VIDEO, AUDIO], rows) is None


def test_says_nothing_where_several_parts_could_be_missing():
    left, right = Group("left", 5), Group("right", 5)
    assert explain([left, right, VIDEO], 517) is None
    assert said([left, right, VIDEO], 512) == "512 rows are video only; left (5) and right (5) are missing"
    assert explain([Group("a", 1), Group("b", 2), Group("c", 3)], 3) is None


def test_empty_parts_are_no_explanation():
    assert said([TEXT, Group("condition", 0), VIDEO], 512) == "512 rows are video only; text (77) is missing"
    assert explain([], 0) is None


def test_a_long_list_is_cut():
    groups = [Group(f"p{i}", 2**i) for i in range(12)]
    text = said(groups, 1)
    assert (
        text == "1 row is p0 only; p1 (2), p2 (4), p3 (8), p4 (16), p5 (32), p6 (64), p7 (128) and 4 more are missing"
    )
    assert said([*groups[:9], Group("last", 4000)], 511) == (
        "511 rows are p0, p1, p2, p3, p4, p5, p6, p7 and p8 only; last (4000) is missing"
    )


@given(st.lists(st.integers(0, 9), max_size=7), st.integers(-1, 40))
@few
def test_finds_the_only_subset_and_nothing_else(sizes, rows):
    groups = [Group(f"p{i}", size) for i, size in enumerate(sizes)]
    full = [group for group in groups if group.rows]
    subsets = [
        kept
        for count in range(len(full) + 1)
        for kept in combinations(full, count)
        if sum(group.rows for group in kept) == rows and count < len(full)
    ]
    expected = None
    if len(subsets) == 1:
        kept = subsets[0]
        expected = Explanation(kept, tuple(group for group in full if group not in kept))
    assert explain(groups, rows) == expected


def test_the_first_grouping_with_an_explanation_counts():
    samples = [Group("sample 0", 100), Group("sample 1", 615)]
    parts = [TEXT, VIDEO, AUDIO]
    assert (
        sentence(explain_first([parts, samples], 512))
        == "512 rows are video only; text (77) and audio (126) are missing"
    )
    assert sentence(explain_first([parts, samples], 615)) == "615 rows are sample 1 only; sample 0 (100) is missing"
    assert explain_first([parts, samples], 614) is None
    assert explain_first([parts, samples], 715) is None
    assert explain_first([], 3) is None


def test_where_one_grouping_is_ambiguous_no_other_is_asked():
    parts = [Group("a", 5), Group("b", 5), VIDEO]
    assert explain_first([parts, [Group("sample 0", 517), Group("sample 1", 5)]], 517) is None


def test_many_groups_are_given_up_at_once():
    groups = [Group(f"sample {i}", 1000 + i * i) for i in range(2000)]
    started = time.process_time()
    assert explain(groups, 500_000) is None
    assert time.process_time() - started < 0.2


def test_distinct_sums_cost_no_noticeable_time():
    groups = [Group(f"p{i}", 2**i) for i in range(20)]
    started = time.process_time()
    explain(groups, 2**20 - 2)
    assert time.process_time() - started < 0.2
