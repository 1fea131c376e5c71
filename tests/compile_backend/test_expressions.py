"""Statements about integers, against the integers."""

import operator

from hypothesis import given
from hypothesis import strategies as st
from shapecheck.compile_backend.expressions import (
    Affine,
    All,
    Compare,
    Some,
    Var,
    compare,
    conjunction,
    disjunction,
    negation,
)

RELATIONS = ("eq", "ne", "lt", "le", "gt", "ge")


def integer(value: Affine, at: dict[str, int]) -> int:
    return int(value.const) + sum(c * at[atom.name] for atom, c in value.terms)


def holds(formula, at: dict[str, int]) -> bool:
    match formula:
        case bool():
            return formula
        case Compare(relation, value):
            return getattr(operator, relation)(integer(value, at), 0)
        case All(parts):
            return all(holds(part, at) for part in parts)
        case Some(parts):
            return any(holds(part, at) for part in parts)
    raise AssertionError(formula)


def places():
    return ({"i": i, "j": j} for i in range(-3, 4) for j in range(-3, 4))


affine = st.builds(
    lambda a, b, c: Affine.of(Var("i")).times(a) + Affine.of(Var("j")).times(b) + Affine.of(c),
    *(st.integers(-2, 2) for _ in range(3)),
)


@given(st.sampled_from(RELATIONS), affine, affine)
def test_comparison_and_its_opposite(relation, left, right):
    formula = compare(relation, left, right)
    for at in places():
        expected = getattr(operator, relation)(integer(left, at), integer(right, at))
        assert holds(formula, at) is expected
        assert holds(negation(formula), at) is not expected


statements = st.recursive(
    st.one_of(st.builds(compare, st.sampled_from(RELATIONS), affine, affine), st.booleans()),
    lambda inner: st.one_of(
        st.builds(conjunction, inner, inner), st.builds(disjunction, inner, inner), st.builds(negation, inner)
    ),
    max_leaves=5,
)


@given(statements, statements)
def test_joined_statements(one, other):
    both, either, neither = conjunction(one, other), disjunction(one, other), negation(disjunction(one, other))
    for at in places():
        a, b = holds(one, at), holds(other, at)
        assert (holds(both, at), holds(either, at), holds(neither, at)) == (a and b, a or b, not (a or b))
