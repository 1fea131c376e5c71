"""`MultipleOf`: all its forms against one naive definition, and every message it has."""

from dataclasses import asdict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shapecheck import MultipleOf
from shapecheck._invariants import Operand, Scope

NOTHING = Scope()
OWN = Operand("x", "shape_x")

few = settings(max_examples=100, deadline=None)


def forms(invariant, tensor):
    """The verdict of every form on one tensor."""
    values = tensor.tolist()
    yield invariant.holds(values, NOTHING)
    yield invariant.find(values, NOTHING) is None
    yield invariant.find(tensor, NOTHING) is None
    yield bool(eval(invariant.condition_code("n", {}, {}), {"n": tensor}))
    yield all(eval(invariant.number_code("n", {}), {"n": value}) for value in values)


@given(st.integers(1, 6), st.lists(st.integers(-13, 13), max_size=4), st.booleans(), st.sampled_from([1, 100]))
@few
def test_every_form_agrees_with_the_definition(n, values, aligned, times):
    values = [value * n for value in values] if aligned else values
    expected = all(any(value == n * k for k in range(-100, 101)) for value in values)
    for dtype in (torch.int64, torch.int32, torch.float32):
        assert set(forms(MultipleOf(n), torch.tensor(values * times, dtype=dtype))) == {expected}, dtype


@given(st.integers(1, 8), st.integers(0, 40), st.integers(1, 5), st.sampled_from(["S", "S+P", "S//2"]))
@few
def test_an_axis_is_aligned(n, s, p, of):
    size = {"S": s, "S+P": s + p, "S//2": s // 2}[of]
    invariant = MultipleOf(n, of=of)
    found = invariant.find_static(None, Scope({"S": s, "P": p}))
    assert (found is None) == (size % n == 0)
    code = invariant.refusal_code(OWN, {"S": "S_", "P": "P_"}, {})
    assert eval(code, {"S_": s, "P_": p}) == (size % n != 0)


def test_an_unbound_axis_is_silent():
    assert MultipleOf(64, of="S").find_static(None, NOTHING) is None
    assert MultipleOf(64, of="S").refusal_code(OWN, {"C": "C"}, {}) is None
    assert MultipleOf(64).find_static(None, NOTHING) is None
    assert MultipleOf(64).refusal_code(OWN, {}, {}) is None


def test_refuses_an_axis_that_divides_by_a_symbol():
    with pytest.raises(ValueError, match="^'S//P' divides by a symbol, which can be zero; only numbers can divide$"):
        MultipleOf(2, of="S//P")


def test_findings_in_values():
    for value in ([64, 65, 1], torch.tensor([64, 65, 1])):
        found = MultipleOf(64).find(value, NOTHING)
        assert found.problem == "[1] is 65, expected a multiple of 64"
        assert (found.expected, found.actual, found.axis, found.bound_by) == ("a multiple of 64", 65, 0, None)
        assert found.notes == ("2 values are wrong; this is the first",)
        assert found.hint is None
    assert MultipleOf(64).find(100, NOTHING).problem == " is 100, expected a multiple of 64"


def test_findings_in_axes():
    scope = Scope({"S": 715, "P": 3}, {"S": ("x", 1), "P": ("p", 0)})
    found = MultipleOf(64, of="S").find_static(None, scope)
    assert found.problem == ": S is 715, expected a multiple of 64"
    assert (found.expected, found.actual, found.axis, found.bound_by) == ("a multiple of 64", 715, 1, "x")
    assert found.notes == ("S = 715 was bound by x axis 1",)
    assert found.hint == "pad the row to 768 and every array beside it: PackedLayout.pack(..., align=64)"
    found = MultipleOf(64, of="S+P").find_static(None, scope)
    assert (found.problem, found.actual) == (": S+P is 718, expected a multiple of 64", 718)
    assert found.notes == ("S = 715 was bound by x axis 1", "P = 3 was bound by p axis 0")
    found = MultipleOf(64, of="S").find_static(None, Scope({"S": 1}))
    assert (found.axis, found.bound_by, found.notes) == (None, None, ())


@pytest.mark.parametrize("times", [1, 300])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_every_form_agrees_on_narrow_dtypes(dtype, times):
    for value, expected in ((0, True), (100, False)):  # 300 is beyond int8 and wraps to 44 in uint8
        assert set(forms(MultipleOf(300), torch.full((times,), value).to(dtype))) == {expected}


@pytest.mark.parametrize("times", [1, 300])
def test_dtypes_without_a_remainder_are_read_through_python(times):
    for value, expected in ((64, True), (100, False)):
        tensor = torch.full((times,), value).to(torch.uint16)
        assert (MultipleOf(64).find(tensor, NOTHING) is None) == expected
        assert MultipleOf(64).holds(tensor.tolist(), NOTHING) == expected


def test_empty_tensors_hold():
    assert MultipleOf(3).find(torch.zeros(0, dtype=torch.int64), NOTHING) is None
    assert MultipleOf(3).holds([], NOTHING)


@pytest.mark.parametrize("n", [0, -64])
def test_refuses_an_alignment_that_is_not_positive(n):
    with pytest.raises(ValueError, match=rf"^MultipleOf\({n}\): expected a positive number$"):
        MultipleOf(n)


def test_refuses_a_malformed_axis():
    with pytest.raises(ValueError, match=r"^'S\+' is not an expression$"):
        MultipleOf(64, of="S+")


def test_is_data():
    invariant = MultipleOf(64, of="S+P")
    assert MultipleOf.rebuild(asdict(invariant)) == invariant
    assert len({invariant, MultipleOf(64, of="S+P"), MultipleOf(64)}) == 2
    assert repr(invariant) == "MultipleOf(n=64, of='S+P')"
    assert (invariant.symbols(), invariant.arguments(), invariant.reads_values()) == (("S", "P"), (), False)
    assert (MultipleOf(64).symbols(), MultipleOf(64).reads_values()) == ((), True)
