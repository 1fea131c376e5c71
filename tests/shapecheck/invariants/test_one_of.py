"""`OneOf`: all its forms against one naive definition, and every message it has."""

import math
import re
from dataclasses import asdict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shapecheck import OneOf
from shapecheck._invariants import Scope

NOTHING = Scope()
HINT = "take the values from the layout that packed the rows, e.g. layout.token_tags"

few = settings(max_examples=100, deadline=None)
numbers = st.integers(-3, 5)
invariants = st.lists(numbers, min_size=1, max_size=4).map(lambda values: OneOf(*values))
floats = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, math.nan, math.inf])


def forms(invariant, tensor):
    """The verdict of every form on one tensor."""
    values = tensor.flatten().tolist()
    yield invariant.holds(values, NOTHING)
    yield invariant.find(values, NOTHING) is None
    yield invariant.find(tensor, NOTHING) is None
    yield bool(eval(invariant.condition_code("tags", {}, {}), {"tags": tensor}))
    yield all(eval(invariant.number_code("tag", {}), {"tag": value}) for value in values)


@given(invariants, st.lists(numbers, max_size=6), st.sampled_from([1, 100]))
@few
def test_every_form_agrees_with_the_definition(invariant, values, times):
    expected = all(any(value == allowed for allowed in invariant.values) for value in values)
    for dtype in (torch.int64, torch.int32, torch.int8, torch.float32):
        tensor = torch.tensor(values * times, dtype=dtype)
        assert set(forms(invariant, tensor)) == {expected}, dtype


@given(invariants, st.lists(floats, max_size=6), st.sampled_from([1, 100]))
@few
def test_every_form_agrees_on_floats(invariant, values, times):
    expected = all(any(value == allowed for allowed in invariant.values) for value in values)
    assert set(forms(invariant, torch.tensor(values * times, dtype=torch.float32))) == {expected}


@pytest.mark.parametrize("times", [1, 300])
def test_every_form_agrees_on_bools(times):
    assert set(forms(OneOf(0, 1), torch.ones(times, dtype=torch.bool))) == {True}
    assert set(forms(OneOf(0, 2), torch.ones(times, dtype=torch.bool))) == {False}


@pytest.mark.parametrize("times", [1, 300])
def test_no_number_wraps_around_in_a_narrow_dtype(times):
    for values, number, dtype in (
        ((-1, 5), 255, torch.uint8),
        ((0, 300), 44, torch.uint8),
        ((200, 0), -56, torch.int8),
    ):
        tensor = torch.full((times,), number, dtype=dtype)
        assert not OneOf(*values).holds(tensor.tolist(), NOTHING)
        assert OneOf(*values).find(tensor, NOTHING) is not None


def test_no_number_wraps_around_on_a_device():
    assert set(forms(OneOf(-1, 5), torch.full((300,), 255, dtype=torch.uint8))) == {False}


@pytest.mark.parametrize("times", [1, 300])
def test_every_form_agrees_on_uint16(times):
    assert set(forms(OneOf(0, 1, 2), torch.full((times,), 255, dtype=torch.uint16))) == {False}


def test_tensors_of_any_rank():
    grid = torch.tensor([[0, 1], [2, 7]])
    found = OneOf(0, 1, 2).find(grid, NOTHING)
    assert (found.problem, found.axis) == ("[1, 1] is 7, expected one of [0, 1, 2]", None)
    scalar = OneOf(0, 1).find(torch.tensor(7), NOTHING)
    assert (scalar.problem, scalar.axis) == (" is 7, expected one of [0, 1]", None)


def test_findings():
    for tags in ([0, 1, 3, 9], torch.tensor([0, 1, 3, 9])):
        found = OneOf(-1, 0, 1, 2).find(tags, NOTHING)
        assert found.problem == "[2] is 3, expected one of [-1, 0, 1, 2]"
        assert (found.expected, found.actual, found.axis) == ("one of [-1, 0, 1, 2]", 3, 0)
        assert (found.bound_by, found.hint) == (None, HINT if isinstance(tags, torch.Tensor) else None)
        assert found.notes == ("2 values are wrong; this is the first",)
        assert type(found.actual) is int


def test_python_values():
    assert OneOf("q", "k", 3).find("q", NOTHING) is None
    found = OneOf("q", "k", 3).find("v", NOTHING)
    assert (found.problem, found.actual, found.axis) == (" is 'v', expected one of ['q', 'k', 3]", "v", None)
    assert found.notes == ()
    assert OneOf("q", 3).find(("q", 3), NOTHING) is None


def test_one_wrong_value_of_sixty_thousand():
    tags = torch.arange(60_000) % 3
    assert OneOf(0, 1, 2).find(tags, NOTHING) is None
    tags[59_999] = 4
    found = OneOf(0, 1, 2).find(tags, NOTHING)
    assert (found.problem, found.notes) == ("[59999] is 4, expected one of [0, 1, 2]", ())


def test_shows_at_most_eight_allowed_values():
    found = OneOf(*range(20)).find([20], NOTHING)
    assert found.expected == "one of [0, 1, 2, 3, 4, 5, 6, 7, ... 20 values]"


def test_empty_tensors_hold():
    assert OneOf(1).find(torch.zeros(0, dtype=torch.int64), NOTHING) is None
    assert OneOf(1).find(torch.zeros(3, 0), NOTHING) is None
    assert OneOf(1).holds([], NOTHING)


@pytest.mark.parametrize("times", [1, 300])
def test_words_allow_no_number(times):
    tensor = torch.ones(times, dtype=torch.int64)
    assert not OneOf("a").holds(tensor.tolist(), NOTHING)
    assert OneOf("a").find(tensor, NOTHING) is not None


@pytest.mark.parametrize("values", [(), ([0, 1, 2],), (0, None), (0.5, 1.5)])
def test_takes_integers_and_words_only(values):
    message = f"OneOf({', '.join(map(repr, values))}): expected integers or strings, at least one"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        OneOf(*values)


def test_is_data():
    invariant = OneOf(-1, 0, "a")
    assert OneOf.rebuild(asdict(invariant)) == invariant
    assert len({invariant, OneOf(-1, 0, "a"), OneOf(0)}) == 2
    assert repr(invariant) == "OneOf(-1, 0, 'a')"
    assert (invariant.symbols(), invariant.arguments(), invariant.reads_values()) == ((), (), True)
    with pytest.raises(AttributeError):
        invariant.values = (1,)
