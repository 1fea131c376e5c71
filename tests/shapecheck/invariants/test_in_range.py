"""`InRange`: all its forms against one naive definition, and every message it has."""

import math
from dataclasses import asdict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shapecheck import InRange
from shapecheck._invariants import Scope

SYMBOLS = {"M": 5, "L": 2}
SCOPE = Scope(SYMBOLS, {"M": ("table", 0), "L": ("x", 1)})
HINT = "an index that was made for other rows must be rebuilt, not clamped"

few = settings(max_examples=100, deadline=None)
limits = {-2: -2, 0: 0, "L": 2, "L-2": 0, "M": 5, "M+L": 7, 6: 6}
invariants = st.builds(InRange, st.sampled_from([*limits]), st.sampled_from([*limits]))
floats = st.sampled_from([-2.5, 0.0, 1.999, 2.0, 4.5, 5.0, math.nan, math.inf, -math.inf])


def naive(invariant, values):
    return all(limits[invariant.low] <= value < limits[invariant.high] for value in values)


def forms(invariant, tensor):
    """The verdict of every form on one tensor."""
    values = tensor.flatten().tolist()
    names = {name: name for name in SYMBOLS}
    yield invariant.holds(values, SCOPE)
    yield invariant.find(values, SCOPE) is None
    yield invariant.find(tensor, SCOPE) is None
    yield bool(eval(invariant.condition_code("index", names, {}), {**SYMBOLS, "index": tensor}))
    yield all(eval(invariant.number_code("i", names), {**SYMBOLS, "i": value}) for value in values)


@given(invariants, st.lists(st.integers(-3, 8), max_size=6), st.sampled_from([1, 100]))
@few
def test_every_form_agrees_with_the_definition(invariant, values, times):
    for dtype in (torch.int64, torch.int32, torch.float32):
        tensor = torch.tensor(values * times, dtype=dtype)
        assert set(forms(invariant, tensor)) == {naive(invariant, values)}, dtype


@given(invariants, st.lists(floats, max_size=6), st.sampled_from([1, 100]))
@few
def test_every_form_agrees_on_floats(invariant, values, times):
    assert set(forms(invariant, torch.tensor(values * times))) == {naive(invariant, values)}


@pytest.mark.parametrize("times", [1, 300])
@pytest.mark.parametrize("at", [0, 150, -1])
def test_nan_is_in_no_range(times, at):
    values = torch.zeros(times)
    values[at % times] = math.nan
    assert set(forms(InRange(0, "M"), values)) == {False}
    found = InRange(0, "M").find(values, SCOPE)
    assert found.problem == f"[{at % times}] is nan, expected 0 <= value < 5 (M)"


@pytest.mark.parametrize("times", [1, 300])
@pytest.mark.parametrize("value", [0, 3, 9])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.float16, torch.bfloat16])
def test_every_form_agrees_on_other_dtypes(dtype, value, times):
    tensor = torch.full((times,), value).to(dtype)
    assert set(forms(InRange(0, "M"), tensor)) == {0 <= tensor[0].item() < 5}


UNUSUAL = pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.float8_e4m3fn])


@UNUSUAL
@pytest.mark.parametrize("times", [1, 300])
def test_dtypes_that_torch_cannot_compare_are_read_through_python(dtype, times):
    for value in (3, 9):
        tensor = torch.full((times,), value).to(dtype)
        assert (InRange(0, "M").find(tensor, SCOPE) is None) == (value == 3)
        assert InRange(0, "M").holds(tensor.tolist(), SCOPE) == (value == 3)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8])
def test_a_limit_beyond_the_dtype_does_not_wrap_around(dtype):
    assert set(forms(InRange(0, 300), torch.tensor([100], dtype=dtype))) == {True}


def test_a_limit_beyond_int32_holds_of_every_smaller_index():
    assert set(forms(InRange(0, 2**40), torch.tensor([3], dtype=torch.int32))) == {True}


def test_a_limit_beyond_int32_on_int64():
    assert set(forms(InRange(0, 2**40), torch.tensor([3, 2**39]))) == {True}
    assert set(forms(InRange(0, 2**40), torch.tensor([3, 2**40]))) == {False}


def test_an_unbound_symbol_is_silent():
    invariant = InRange(0, "Q")
    assert invariant.holds([99], SCOPE)
    for value in (99, [99], torch.tensor([99])):
        assert invariant.find(value, SCOPE) is None
    assert invariant.condition_code("index", {"M": "M"}, {}) is None
    assert invariant.number_code("i", {"M": "M"}) is None


@pytest.mark.parametrize("limits", [(0, "S//P"), ("S%P", 9)])
def test_refuses_a_limit_that_divides_by_a_symbol(limits):
    with pytest.raises(ValueError, match="divides by a symbol, which can be zero; only numbers can divide$"):
        InRange(*limits)


def test_findings():
    for index in ([0, 7, -1], torch.tensor([0, 7, -1])):
        found = InRange(0, "M").find(index, SCOPE)
        assert found.problem == "[1] is 7, expected 0 <= value < 5 (M)"
        assert (found.expected, found.actual, found.axis) == ("0 <= value < 5 (M)", 7, 0)
        assert (found.bound_by, found.hint) == ("table", HINT if isinstance(index, torch.Tensor) else None)
        assert found.notes == ("M = 5 was bound by table axis 0", "2 values are wrong; this is the first")
    found = InRange("L", "M+L").find(1, SCOPE)
    assert (found.problem, found.axis) == (" is 1, expected 2 <= value < 7 (M+L)", None)
    assert found.notes == ("L = 2 was bound by x axis 1", "M = 5 was bound by table axis 0")
    found = InRange(0, 2).find(torch.tensor([[0, 2]]), SCOPE)
    assert (found.problem, found.bound_by, found.notes) == ("[0, 1] is 2, expected 0 <= value < 2", None, ())


def test_empty_tensors_hold():
    assert InRange(0, 1).find(torch.zeros(0), SCOPE) is None
    assert InRange(0, 1).find(torch.zeros(2, 0), SCOPE) is None
    assert InRange(0, 1).holds([], SCOPE)


def test_refuses_a_malformed_limit():
    with pytest.raises(ValueError, match=r"^'M\+' is not an expression$"):
        InRange(0, "M+")


def test_is_data():
    invariant = InRange("L", "M+L")
    assert InRange.rebuild(asdict(invariant)) == invariant
    assert len({invariant, InRange("L", "M+L"), InRange(0, "M")}) == 2
    assert repr(invariant) == "InRange(low='L', high='M+L')"
    assert (invariant.symbols(), invariant.arguments(), invariant.reads_values()) == (("L", "M"), (), True)
