"""Two packed rows under each other."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shapecheck._contract._picture import Interval, Row, draw_rows

PARTS = [Interval(0, 77, "t"), Interval(77, 589, "v"), Interval(589, 715, "a")]


def segments(*boundaries):
    return [Interval(a, b, "abcdefghij"[i % 10]) for i, (a, b) in enumerate(pairwise(boundaries))]


def test_a_missing_part():
    assert draw_rows(Row("x", PARTS, 715), Row("token_tags", PARTS[1:2], 512), compare=False) == [
        "x           [tttttt|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv|aaaaaaaaaa] 715",
        "token_tags  [      |vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv           ] 512",
        "             ^^^^^^                                           ^^^^^^^^^^^  missing",
    ]


def test_an_extra_part():
    assert draw_rows(Row("x", [Interval(0, 10, "=")], 10), Row("tags", [Interval(0, 15, "=")], 15), compare=False) == [
        "x     [========================================                    ] 10",
        "tags  [============================================================] 15",
        "                                               ++++++++++++++++++++  extra",
    ]


def test_a_shifted_boundary():
    assert draw_rows(Row("cu_q", segments(0, 4, 8), 8), Row("cu_k", segments(0, 3, 8), 8), compare=True) == [
        "cu_q  [aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa|bbbbbbbbbbbbbbbbbbbbbbbbbbbbb] 8",
        "cu_k  [aaaaaaaaaaaaaaaaaaaaaaa|bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb] 8",
        "                              ~~~~~~~                                shifted",
    ]


def test_letters_are_compared_only_when_they_mean_the_same():
    top, bottom = Row("a", segments(0, 4, 8), 8), Row("b", segments(0, 3, 8), 8)
    assert len(draw_rows(top, bottom, compare=False)) == 2


def test_extra_and_shifted_at_once():
    lines = draw_rows(Row("cu_q", segments(0, 4, 8), 8), Row("cu_k", segments(0, 3, 10), 10), compare=True)
    assert lines[2] == "                         ~~~~~~                        ++++++++++++  extra and shifted"


def test_equal_rows_have_no_marks():
    row = Row("x", PARTS, 715)
    assert draw_rows(row, Row("y", PARTS, 715), compare=True) == [
        "x  [tttttt|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv|aaaaaaaaaa] 715",
        "y  [tttttt|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv|aaaaaaaaaa] 715",
    ]


def test_empty_rows():
    assert draw_rows(Row("a", [], 0), Row("bb", [], 0), compare=True) == ["a   [] 0", "bb  [] 0"]
    assert draw_rows(Row("a", [Interval(0, 5, "x")], 5), Row("b", [], 0), compare=True) == [
        f"a  [{'x' * 60}] 5",
        f"b  [{' ' * 60}] 0",
        f"    {'^' * 60}  missing",
    ]


def test_a_tiny_part_keeps_a_column():
    whole = [Interval(0, 1, "p"), Interval(1, 60_000, "q")]
    assert draw_rows(Row("x", whole, 60_000), Row("y", whole[1:], 59_999), compare=False) == [
        f"x  [p|{'q' * 58}] 60000",
        f"y  [ |{'q' * 58}] 59999",
        f"    ^{' ' * 59}  missing",
    ]


cuts = st.lists(st.integers(0, 5000), min_size=2, max_size=400, unique=True).map(sorted)


@given(cuts, cuts, st.booleans())
@settings(max_examples=50, deadline=None)
def test_any_number_of_intervals_has_the_same_width(top, bottom, compare):
    lines = draw_rows(Row("top", segments(*top), top[-1]), Row("b", segments(*bottom), 0), compare=compare)
    for label, line in zip(("top  [", "b    ["), lines, strict=False):
        assert line.startswith(label)
        assert line.index("]") == len(label) + 60
    assert len(lines) <= 3


def test_many_segments_lose_detail_but_not_the_marks():
    top = segments(*range(0, 2001, 10))
    lines = draw_rows(Row("q", top, 2000), Row("k", [*top[:90], *top[110:]], 1800), compare=True)
    assert lines[2].split() == ["^^^^^^", "missing"]


@pytest.mark.parametrize("at", [-1, 102])
def test_a_small_difference_among_many_segments_is_marked(at):
    top = segments(*range(0, 2001, 10))
    bottom = list(top)
    del bottom[at]
    lines = draw_rows(Row("q", top, 2000), Row("k", bottom, 1990), compare=True)
    assert len(lines) == 3
    assert lines[2].endswith("missing")
