"""The little language of axis sizes, held against Python's own arithmetic."""

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shapecheck._expressions import Affine, limit_names, limit_source, limit_value, parse

NAMES = ("A", "B", "S")
GRAMMAR = "use names, integers, + - * // % and brackets"

few = settings(max_examples=100, deadline=None)

atoms = st.sampled_from(NAMES) | st.integers(0, 9).map(str)
texts = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner).map(lambda t: f"({t[0]}){t[1]}({t[2]})"),
        inner.map(lambda text: f"-({text})"),
    ),
    max_leaves=6,
)
sizes = st.fixed_dictionaries({name: st.integers(0, 50) for name in NAMES})


def python(text, symbols):
    """What Python makes of it: the value, or the class of the exception."""
    try:
        return eval(text, {}, dict(symbols))
    except ZeroDivisionError as error:
        return type(error)


def parsed(text):
    try:
        return parse(text)
    except ValueError:
        return assume(False)  # a zero written out as divisor is refused; `test_refuses` has it


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("S", 12),
        ("7", 7),
        ("-S", -12),
        ("B+1", 4),
        ("2*S-B", 21),
        ("S//5", 2),
        ("S%5", 2),
        ("(S+B)*2", 30),
        ("-7//2", -4),
    ],
)
def test_accepts(text, value):
    assert parse(text).evaluate({"S": 12, "B": 3}) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not an expression"),
        ("B+", "'B+' is not an expression"),
        ("class+1", "'class+1' is not an expression"),
        ("S//0", "'S//0' divides by zero"),
        ("1+S%0", "'1+S%0' divides by zero"),
        ("S/2", f"'S / 2' in 'S/2' is not understood: {GRAMMAR}"),
        ("S**2", f"'S ** 2' in 'S**2' is not understood: {GRAMMAR}"),
        ("1.5*S", f"'1.5' in '1.5*S' is not understood: {GRAMMAR}"),
        ("True+S", f"'True' in 'True+S' is not understood: {GRAMMAR}"),
        ("+S", f"'+S' in '+S' is not understood: {GRAMMAR}"),
        ("S.n", f"'S.n' in 'S.n' is not understood: {GRAMMAR}"),
        ("S[0]", f"'S[0]' in 'S[0]' is not understood: {GRAMMAR}"),
        ("min(S,3)", f"'min(S, 3)' in 'min(S,3)' is not understood: {GRAMMAR}"),
        ("S,C", f"'(S, C)' in 'S,C' is not understood: {GRAMMAR}"),
        ("S<3", f"'S < 3' in 'S<3' is not understood: {GRAMMAR}"),
        ("'S'", "\"'S'\" in \"'S'\" is not understood: " + GRAMMAR),
        ("__import__('os')", "\"__import__('os')\" in \"__import__('os')\" is not understood: " + GRAMMAR),
    ],
)
def test_refuses(text, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse(text)


def test_names_are_in_order_of_appearance_and_unique():
    assert parse("B+S*B").names == ("B", "S")
    assert parse("3*4").names == ()


def test_an_unbound_symbol_and_a_zero_divisor_raise():
    with pytest.raises(KeyError, match="B"):
        parse("B+1").evaluate({"S": 1})
    with pytest.raises(ZeroDivisionError):
        parse("S//P").evaluate({"S": 1, "P": 0})


def test_equal_sources_are_equal_and_hash_alike():
    assert parse("B+1") == parse("B+1")
    assert len({parse("B+1"), parse("B+1"), parse("1+B")}) == 2


@given(texts, sizes)
@few
def test_evaluate_agrees_with_python(text, symbols):
    expression = parsed(text)
    expected = python(text, symbols)
    try:
        assert expression.evaluate(symbols) == expected
    except ZeroDivisionError:
        assert expected is ZeroDivisionError


@given(texts, sizes)
@few
def test_code_means_the_same_after_renaming_inside_any_other_expression(text, symbols):
    code = parsed(text).code(lambda name: f"size_{name}_")
    renamed = {f"size_{name}_": size for name, size in symbols.items()}
    assert python(code, renamed) == python(text, symbols)
    if python(text, symbols) is not ZeroDivisionError:
        assert python(f"3*{code}-{code}", renamed) == 2 * python(text, symbols)


@given(texts, sizes)
@few
def test_divisors_are_non_zero_exactly_where_the_value_is_defined(text, symbols):
    divisors = parsed(text).divisors(lambda name: name)
    values = [python(divisor, symbols) for divisor in divisors]
    undefined = any(value in (0, ZeroDivisionError) for value in values)
    assert undefined == (python(text, symbols) is ZeroDivisionError)


def test_divisors_leave_constants_out():
    assert parse("S//64").divisors(str) == []
    assert parse("S//(P-1)%Q").divisors(str) == ["Q", "(P - 1)"]


@pytest.mark.parametrize(
    ("text", "affine"),
    [
        ("B+1", Affine((("B", 1),), 1)),
        ("2*(S-B)-3", Affine((("S", 2), ("B", -2)), -3)),
        ("S*2*3", Affine((("S", 6),), 0)),
        ("S-S+B", Affine((("B", 1),), 0)),
        ("4", Affine((), 4)),
        ("S*B", None),
        ("S//2", None),
        ("S%2+1", None),
        ("2*(S//2)", None),
    ],
)
def test_affine(text, affine):
    assert parse(text).affine == affine


@given(texts, sizes)
@few
def test_affine_form_has_the_value_of_the_expression(text, symbols):
    expression = parsed(text)
    if expression.affine is not None:
        total = sum(factor * symbols[name] for name, factor in expression.affine.factors)
        assert total + expression.affine.constant == expression.evaluate(symbols)
        assert all(factor for _, factor in expression.affine.factors)


@given(texts, sizes, st.sampled_from(NAMES))
@few
def test_solve_inverts_evaluate(text, symbols, name):
    expression = parsed(text)
    if expression.can_solve(name):
        known = {other: size for other, size in symbols.items() if other != name}
        assert expression.solve(expression.evaluate(symbols), known) == symbols[name]


@given(texts, sizes, st.sampled_from(NAMES), st.integers(-20, 200))
@few
def test_what_solve_finds_is_a_solution_and_what_it_misses_has_none(text, symbols, name, value):
    expression = parsed(text)
    if expression.can_solve(name):
        known = {other: size for other, size in symbols.items() if other != name}
        solved = expression.solve(value, known)
        if solved is None:
            assert all(expression.evaluate({**known, name: size}) != value for size in range(100))
        else:
            assert solved >= 0
            assert expression.evaluate({**known, name: solved}) == value


@pytest.mark.parametrize(
    ("text", "name", "can"),
    [
        ("B+1", "B", True),
        ("B+1", "S", False),
        ("S//2", "S", False),
        ("S*B", "S", False),
        ("S-S+B", "S", False),
        ("0*S", "S", False),
    ],
)
def test_can_solve(text, name, can):
    assert parse(text).can_solve(name) is can


def test_solve_refuses_fractions_and_negative_sizes():
    assert parse("2*B").solve(6, {}) == 3
    assert parse("2*B").solve(7, {}) is None
    assert parse("B+1").solve(0, {}) is None
    assert parse("5-B").solve(2, {}) == 3
    assert parse("5-B").solve(6, {}) is None
    assert parse("S-2*B").solve(1, {"S": 7}) == 3


LIMITS = pytest.mark.parametrize(
    ("limit", "names", "value", "source"),
    [
        (None, (), None, None),
        (3, (), 3, "3"),
        ("3", (), 3, "3"),
        ("S", ("S",), 12, "S_"),
        ("S+1", ("S",), 13, "(S_ + 1)"),
        ("S//64", ("S",), 0, "(S_ // 64)"),
        ("S+B", ("S", "B"), None, None),  # nothing bound B in this call
    ],
)


@LIMITS
def test_limits(limit, names, value, source):
    assert limit_names(limit) == names
    assert limit_value(limit, {"S": 12}) == value
    assert limit_source(limit, {"S": "S_"}) == source


@pytest.mark.parametrize("limit", ["S//P", "S%P", "1+S//(P-1)"])
def test_a_limit_may_divide_by_numbers_only(limit):
    message = f"{limit!r} divides by a symbol, which can be zero; only numbers can divide"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        limit_names(limit)
