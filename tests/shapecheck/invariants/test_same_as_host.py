"""`SameAsHost`: all its forms against one naive definition, and every message it has."""

import re
from dataclasses import asdict
from typing import Annotated

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Int, Int32
from torch import Tensor

from shapecheck import AnnotationError, ContractError, SameAsHost, contract
from shapecheck._invariants import Scope

few = settings(max_examples=100, deadline=None)
arrays = st.lists(st.integers(0, 2), max_size=4)
relations = st.sampled_from(["equal", "upper_bound"])
HINT = "make host from this array, after its last change: .tolist()"


def naive(mine, copy, relation):
    if relation == "equal":
        return mine == copy
    return len(mine) == len(copy) and all(one <= bound for one, bound in zip(mine, copy, strict=True))


def lengthened(values):
    return values + list(range(300))


@given(arrays, arrays, relations)
@few
def test_every_form_agrees_with_the_definition(mine, copy, relation):
    invariant, expected = SameAsHost("host", relation), naive(mine, copy, relation)
    for values, host in ((mine, copy), (lengthened(mine), lengthened(copy))):
        for form in (list, tuple, torch.tensor, lambda one: torch.tensor(one, dtype=torch.int32)):
            scope = Scope(arguments={"host": form(host)})
            assert invariant.holds(values, scope) == expected
            assert (invariant.find(values, scope) is None) == expected
            for dtype in (torch.int32, torch.int64):
                assert (invariant.find(torch.tensor(values, dtype=dtype), scope) is None) == expected


def test_shapes_say_nothing_and_no_device_compares():
    invariant, scope = SameAsHost("host"), Scope(arguments={"host": [0, 1]})
    assert invariant.find_static(torch.zeros(9), scope) is None
    assert invariant.condition_code("cu", {}, {}) is None
    assert invariant.reads_values()


def test_an_absent_copy_is_silent():
    assert SameAsHost("host").find(torch.tensor([3]), Scope()) is None
    assert SameAsHost("host").holds([3], Scope())


@pytest.mark.parametrize(
    ("invariant", "mine", "problem", "expected", "actual"),
    [
        (SameAsHost("host"), [0, 4], " has 2 entries, expected 3 as its host copy host has", 3, 2),
        (SameAsHost("host"), [0, 5, 9], "[1] is 5, expected 4 as in its host copy host", 4, 5),
        (SameAsHost("host"), [0, 4, 8], "[2] is 8, expected 9 as in its host copy host", 9, 8),
        (SameAsHost("host", "upper_bound"), [0, 5, 9], "[1] is 5, expected at most 4 as in its host copy host", 4, 5),
        (SameAsHost("host", "upper_bound"), [0, 4], " has 2 entries, expected 3 as its host copy host has", 3, 2),
    ],
)
@pytest.mark.parametrize("form", [list, torch.tensor])
def test_findings(form, invariant, mine, problem, expected, actual):
    found = invariant.find(form(mine), Scope(arguments={"host": [0, 4, 9]}))
    assert (found.problem, found.expected, found.actual) == (problem, expected, actual)
    assert (found.axis, found.bound_by, found.notes, found.hint) == (0, "host", (), HINT)
    assert type(found.actual) is int


def test_a_larger_copy_is_an_upper_bound():
    scope = Scope(arguments={"host": [0, 6, 9]})
    assert SameAsHost("host", "upper_bound").find([0, 4, 9], scope) is None
    assert SameAsHost("host").find([0, 4, 9], scope).problem == "[1] is 4, expected 6 as in its host copy host"


@pytest.mark.parametrize("level", ["host", "device", "sync"])
@pytest.mark.parametrize("hint", [list[int], tuple[int, ...], Int[Tensor, "B+1"]])
def test_under_a_contract(level, hint):
    @contract(level=level)
    def forward(cu: Annotated[Int32[Tensor, "B+1"], SameAsHost("host")], host: hint): ...

    cu = torch.tensor([0, 4], dtype=torch.int32)
    form = {"list": list, "tuple": tuple}.get(getattr(hint, "__name__", ""), torch.tensor)
    forward(cu, form([0, 4]))
    forward(cu.to("meta"), form([0, 9]))  # not to be read without a sync, so unknown
    with pytest.raises(ContractError, match=r"^test_under_a_contract.forward: cu\[1\] is 4, expected 9 as in its host"):
        forward(cu, form([0, 9]))


def test_stands_at_tensors_and_sequences_not_at_numbers():
    with pytest.raises(AnnotationError, match=r"forward: n: SameAsHost\(other='cu', relation='equal'\) says nothing"):

        @contract
        def forward(cu: Int32[Tensor, "B+1"], n: Annotated[int, SameAsHost("cu")]): ...


def test_refuses_an_unknown_relation():
    message = "SameAsHost(relation='lower'): expected 'equal' or 'upper_bound'"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        SameAsHost("host", "lower")


def test_is_data():
    invariant = SameAsHost("host", "upper_bound")
    assert SameAsHost.rebuild(asdict(invariant)) == invariant
    assert len({invariant, SameAsHost("host", "upper_bound"), SameAsHost("host")}) == 2
    assert repr(invariant) == "SameAsHost(other='host', relation='upper_bound')"
    assert (invariant.symbols(), invariant.arguments(), invariant.reads_values()) == ((), ("host",), True)
