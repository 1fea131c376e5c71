"""`PrefixSum`: all its forms against one naive definition, and every message it has."""

import re
from dataclasses import asdict
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shapecheck import PrefixSum
from shapecheck._invariants import Operand, Scope

LONG = 300  # beyond the length up to which values are read as a Python list
TOO_MANY = 2**31
SCOPE = Scope({"S": 12, "P": 4}, {"S": ("x", 1), "P": ("positions", 0)})

few = settings(max_examples=100, deadline=None)


def naive(values, start, end, tail, empty):
    """The definition in its plainest words."""
    if len(values) < 2 or values[-1] > 2**31 - 1:
        return False
    if any(b < a or (b == a and empty == "none") for a, b in pairwise(values)):
        return False
    if start is not None and values[0] != start:
        return False
    return end is None or (values[-1] <= end if tail == "allow" else values[-1] == end)


def lengthened(values):
    """The same verdict in more entries: repeating an entry changes no order and neither end."""
    at = len(values) // 2
    return values[:at] + [values[at]] * LONG + values[at:] if len(values) >= 2 else values


boundaries = st.lists(st.integers(0, 5), min_size=0, max_size=6).map(
    lambda lengths: [sum(lengths[:i]) for i in range(len(lengths) + 1)]
)
arrays = boundaries | st.lists(st.integers(-2, 13), max_size=6) | st.just([0, TOO_MANY]) | st.just([0, 12])
invariants = st.builds(
    PrefixSum,
    start=st.sampled_from([0, 0, None, 2]),
    end=st.sampled_from([None, "S", "S", "3*P", 12, "T"]),  # nothing binds T: unknown, so silent
    tail=st.sampled_from(["exact", "allow"]),
    empty=st.sampled_from(["any", "none"]),
)
ends = {None: None, "S": 12, "3*P": 12, 12: 12, "T": None}


@given(invariants, arrays)
@few
def test_every_form_agrees_with_the_definition(invariant, values):
    expected = naive(values, invariant.start, ends[invariant.end], invariant.tail, invariant.empty)
    assert invariant.holds(values, SCOPE) == expected
    assert (invariant.find(values, SCOPE) is None) == expected
    for numbers in (values,) if invariant.empty == "none" else (values, lengthened(values)):
        for dtype in (torch.int64, torch.int32):
            if dtype is torch.int32 and TOO_MANY in values:
                continue
            tensor = torch.tensor(numbers, dtype=dtype)
            found = invariant.find_static(tensor, SCOPE) or invariant.find(tensor, SCOPE)
            assert (found is None) == expected
            if len(numbers) >= 2:  # shorter ones never reach the device check
                code = invariant.condition_code("cu", {"S": "S", "P": "P"}, {})
                assert bool(eval(code, {"cu": tensor, "S": 12, "P": 4})) == expected


@pytest.mark.parametrize(
    ("tensor", "refused"),
    [
        (torch.tensor([0, 1]), False),
        (torch.tensor([0, 1], dtype=torch.int32), False),
        (torch.tensor([[0, 1]]), True),
        (torch.tensor(0), True),
        (torch.tensor([0]), True),
        (torch.zeros(0, dtype=torch.int64), True),
    ],
)
def test_refusal_code_is_find_static(tensor, refused):
    assert (PrefixSum().find_static(tensor, SCOPE) is not None) == refused
    code = PrefixSum().refusal_code(Operand("cu", "shape_cu"), {}, {})
    assert bool(eval(code, {"cu": tensor, "shape_cu": tensor.shape})) == refused


@pytest.mark.parametrize(
    ("tensor", "problem", "expected", "actual", "axis", "hint"),
    [
        (torch.zeros(1, 2).int(), " has 2 axes, expected 1: boundaries are one row of numbers", 1, 2, None, None),
        (
            torch.zeros(1).int(),
            " has 1 entry, expected at least 2: the boundaries of one segment",
            "at least 2 entries",
            1,
            0,
            "boundaries are [0, end of segment 1, ...]: one entry more than there are segments",
        ),
        (
            torch.zeros(0).int(),
            " has 0 entries, expected at least 2: the boundaries of one segment",
            "at least 2 entries",
            0,
            0,
            "boundaries are [0, end of segment 1, ...]: one entry more than there are segments",
        ),
    ],
)
def test_static_findings(tensor, problem, expected, actual, axis, hint):
    found = PrefixSum().find_static(tensor, SCOPE)
    assert (found.problem, found.expected, found.actual) == (problem, expected, actual)
    assert (found.axis, found.bound_by, found.notes, found.hint) == (axis, None, (), hint)


BUILD = "build the boundaries from the lengths of what was packed, after padding or trimming it"
ZERO = "prepend the leading zero: these look like the ends, or the lengths, of segments"
S_BOUND = "S = 12 was bound by x axis 1"


@pytest.mark.parametrize(
    ("invariant", "values", "problem", "expected", "actual", "bound_by", "notes", "hint"),
    [
        (PrefixSum(), [3, 5], "[0] is 3, expected 0", 0, 3, None, (), ZERO),
        (PrefixSum(start=1), [0, 5], "[0] is 0, expected 1", 1, 0, None, (), None),
        (
            PrefixSum(),
            [0, 5, 3, 7],
            "[2] is 3, expected at least 5: boundaries must not decrease",
            "at least 5",
            3,
            None,
            ("around it: [0, 5, 3, 7]",),
            "pass the running sum of the lengths, not the lengths",
        ),
        (
            PrefixSum(end="S"),
            [0, 10],
            "[-1] is 10, expected 12 (S)",
            12,
            10,
            "x",
            (S_BOUND, "the last 2 rows belong to no segment"),
            BUILD,
        ),
        (
            PrefixSum(end="S+P"),
            [0, 20],
            "[-1] is 20, expected 16 (S+P)",
            16,
            20,
            "x",
            (S_BOUND, "P = 4 was bound by positions axis 0", "the boundaries claim 4 rows more than there are"),
            BUILD,
        ),
        (
            PrefixSum(end="S", tail="allow"),
            [0, 13],
            "[-1] is 13, expected at most 12 (S)",
            12,
            13,
            "x",
            (S_BOUND, "the boundaries claim 1 row more than there are"),
            BUILD,
        ),
        (
            PrefixSum(end=8),
            [0, 10],
            "[-1] is 10, expected 8",
            8,
            10,
            None,
            ("the boundaries claim 2 rows more than there are",),
            BUILD,
        ),
        (
            PrefixSum(),
            [0, TOO_MANY],
            "[-1] is 2147483648, expected at most 2147483647: varlen kernels index rows with int32",
            "at most 2147483647",
            TOO_MANY,
            None,
            (),
            None,
        ),
    ],
)
@pytest.mark.parametrize("form", [list, tuple, torch.tensor])
def test_findings(form, invariant, values, problem, expected, actual, bound_by, notes, hint):
    found = invariant.find(form(values), SCOPE)
    assert (found.problem, found.expected, found.actual, found.axis) == (problem, expected, actual, 0)
    assert (found.bound_by, found.notes, found.hint) == (bound_by, notes, hint)


def test_the_first_decrease_of_a_long_array_is_shown_with_few_values_around_it():
    values = torch.arange(1000)
    values[700] = 5
    values[900] = 5
    found = PrefixSum().find(values, SCOPE)
    assert found.problem == "[700] is 5, expected at least 699: boundaries must not decrease"
    assert found.notes == ("around it: [697, 698, 699, 5, 701, 702]",)
    assert type(found.actual) is int


def test_refuses_an_end_that_divides_by_a_symbol():
    with pytest.raises(ValueError, match="^'S//P' divides by a symbol, which can be zero; only numbers can divide$"):
        PrefixSum(end="S//P")


def test_refuses_arguments_that_mean_nothing():
    with pytest.raises(ValueError, match=r"^PrefixSum\(tail='some'\): expected 'exact' or 'allow'$"):
        PrefixSum(tail="some")
    with pytest.raises(ValueError, match=r"^'S\+' is not an expression$"):
        PrefixSum(end="S+")


def test_refuses_a_symbol_as_start():
    # PrefixSum("S") is easily written for PrefixSum(end="S"); every call would then be refused.
    message = "PrefixSum(start='S'): expected a number; a symbol goes to end="
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        PrefixSum("S")


def test_is_for_integers_of_any_level_only():
    assert PrefixSum().dtypes() == ("int32", "int64")
    assert PrefixSum().suits(tensor=True, number=False)
    assert not PrefixSum().suits(tensor=False, number=True)


def test_is_data():
    invariant = PrefixSum(end="S+P", tail="allow")
    assert PrefixSum.rebuild(asdict(invariant)) == invariant
    assert len({invariant, PrefixSum(end="S+P", tail="allow"), PrefixSum(end="S+P"), PrefixSum()}) == 3
    assert repr(invariant) == "PrefixSum(start=0, end='S+P', tail='allow', empty='any')"
    assert (invariant.symbols(), invariant.arguments()) == (("S", "P"), ())
    assert (PrefixSum(end=3).symbols(), PrefixSum().reads_values()) == ((), True)


@pytest.mark.parametrize("count", [5, LONG])
def test_no_segment_is_empty(count):
    values = list(range(count))
    values[3] = 2
    invariant = PrefixSum(empty="none")
    for form in (list, torch.tensor):
        assert invariant.find(form(range(count)), SCOPE) is None
        found = invariant.find(form(values), SCOPE)
        assert found.problem == "[3] is 2, expected more than 2: segment 2 is empty"
        assert (found.expected, found.actual, found.axis) == ("more than 2", 2, 0)
        assert PrefixSum().find(form(values), SCOPE) is None
    assert not bool(eval(invariant.condition_code("cu", {}, {}), {"cu": torch.tensor(values)}))


def test_refuses_an_unknown_word_for_empty():
    with pytest.raises(ValueError, match=r"^PrefixSum\(empty='both'\): expected 'any' or 'none'$"):
        PrefixSum(empty="both")
