"""`SameBatch`: all its forms against one naive definition, and every message it has."""

from dataclasses import asdict
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shapecheck import SameBatch
from shapecheck._invariants import Operand, Scope

few = settings(max_examples=100, deadline=None)
boundaries = st.lists(st.integers(0, 2), min_size=1, max_size=4).map(
    lambda lengths: [sum(lengths[:i]) for i in range(len(lengths) + 1)]
)
HINT = "filter, chunk or pad both sides together: build it and k from one list of lengths"


def naive(mine, theirs, empty):
    if len(mine) != len(theirs):
        return False
    lengths = [[b - a for a, b in pairwise(side)] for side in (mine, theirs)]
    return empty == "any" or all((q == 0) == (k == 0) for q, k in zip(*lengths, strict=True))


def lengthened(values):
    return values + [values[-1] + i for i in range(1, 300)]


@given(boundaries, boundaries, st.sampled_from(["any", "both"]))
@few
def test_every_form_agrees_with_the_definition(mine, theirs, empty):
    invariant, expected = SameBatch("k", empty=empty), naive(mine, theirs, empty)
    for q, k in ((mine, theirs), (lengthened(mine), lengthened(theirs))):
        plain = Scope(arguments={"k": k})
        assert invariant.holds(q, plain) == expected
        assert (invariant.find(q, plain) is None) == expected
        for dtype in (torch.int32, torch.int64):
            tensors = torch.tensor(q, dtype=dtype), torch.tensor(k, dtype=dtype)
            scope = Scope(arguments={"k": tensors[1]})
            assert (invariant.find(tensors[0], scope) is None) == expected
            assert invariant.holds(q, scope) == expected
            assert (invariant.find_static(tensors[0], scope) is None) == (len(q) == len(k))
            names = {"q": tensors[0], "k": tensors[1], "shape_q": tensors[0].shape, "shape_k": tensors[1].shape}
            own, others = Operand("q", "shape_q"), {"k": Operand("k", "shape_k")}
            assert eval(invariant.refusal_code(own, {}, others), names) == (len(q) != len(k))
            code = invariant.condition_code("q", {}, others)
            if code is None:
                assert empty == "any"
            elif len(q) == len(k):  # the device check runs behind the refusal
                assert bool(eval(code, names)) == expected


def test_an_absent_argument_is_silent():
    invariant = SameBatch("k", empty="both")
    value = torch.tensor([0, 1])
    assert invariant.find(value, Scope()) is None
    assert invariant.find_static(value, Scope()) is None
    assert invariant.holds([0, 1], Scope())
    assert invariant.refusal_code(Operand("q", "q.shape"), {}, {}) is None
    assert invariant.condition_code("q", {}, {}) is None


def test_findings_in_counts():
    scope = Scope(arguments={"k": torch.tensor([0, 1, 2, 3])})
    for found in (SameBatch("k").find([0, 1], scope), SameBatch("k").find_static(torch.tensor([0, 1]), scope)):
        assert found.problem == " has 2 boundaries (1 sequence), expected 4 boundaries (3 sequences) as k has"
        assert (found.expected, found.actual, found.axis, found.bound_by) == (4, 2, 0, "k")
        assert (found.notes, found.hint) == ((), HINT)
    found = SameBatch("k").find(torch.zeros(0, dtype=torch.int64), scope)
    assert found.problem == " has 0 boundaries (0 sequences), expected 4 boundaries (3 sequences) as k has"


@pytest.mark.parametrize(
    ("mine", "theirs", "problem", "expected", "actual"),
    [
        (
            [0, 4, 4],
            [0, 2, 5],
            " has 0 rows in sequence 1, but k has 3: expected it empty on both sides or on neither",
            "some rows for sequence 1",
            0,
        ),
        (
            [0, 4, 6],
            [0, 0, 5],
            " has 4 rows in sequence 0, but k has 0: expected it empty on both sides or on neither",
            "no rows for sequence 0",
            4,
        ),
    ],
)
def test_findings_in_values(mine, theirs, problem, expected, actual):
    for q, k in ((mine, theirs), (torch.tensor(mine), torch.tensor(theirs))):
        assert SameBatch("k").find(q, Scope(arguments={"k": k})) is None
        found = SameBatch("k", empty="both").find(q, Scope(arguments={"k": k}))
        assert (found.problem, found.expected, found.actual) == (problem, expected, actual)
        assert (found.axis, found.bound_by, found.notes) == (0, "k", ())
        assert found.hint == "drop the sequence from both sides"


def test_both_empty_is_fine():
    assert SameBatch("k", empty="both").find([0, 0, 3], Scope(arguments={"k": [0, 0, 9]})) is None


def test_a_scalar_is_no_array_of_boundaries():
    scope = Scope(arguments={"k": torch.tensor([0, 1])})
    found = SameBatch("k").find_static(torch.tensor(1), scope)
    assert found.problem == " has 1 boundary (0 sequences), expected 2 boundaries (1 sequence) as k has"


def test_refuses_an_unknown_mode():
    with pytest.raises(ValueError, match=r"^SameBatch\(empty='never'\): expected 'any' or 'both'$"):
        SameBatch("k", empty="never")


def test_is_data():
    invariant = SameBatch("k", empty="both")
    assert SameBatch.rebuild(asdict(invariant)) == invariant
    assert len({invariant, SameBatch("k", empty="both"), SameBatch("k")}) == 2
    assert repr(invariant) == "SameBatch(other='k', empty='both')"
    assert (invariant.symbols(), invariant.arguments()) == ((), ("k",))
    assert (invariant.reads_values(), SameBatch("k").reads_values()) == (True, False)
