"""Symbols are bound before they are used, whatever the order of the arguments."""

import re
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shapecheck import AnnotationError, InRange, PrefixSum, SameBatch
from shapecheck._contract._diagnose import Stub, diagnose
from shapecheck._contract._dims import positions
from shapecheck._contract._plan import Header, Match, MatchRun, make_plan, symbols
from shapecheck._contract._spec import Argument, Spec, TensorSpec

few = settings(max_examples=60, deadline=None)


def argument(name, dims, *invariants, optional=False):
    return Argument(name, optional, TensorSpec(f'Shaped[Tensor, "{dims}"]', dims, None), invariants)


def written(plan):
    """The steps as text: `x[0]=S`."""
    lines = []
    for step in plan.arguments:
        match step:
            case Header(one):
                lines.append(one.name)
            case Match(one, axis, dim):
                lines.append(f"{one.name}[{axis}]={dim.text}")
            case MatchRun(one, front, back, dim):
                lines.append(f"{one.name}[{front}:-{back}]={dim.text}")
    return lines


def test_plain_axes_bind_before_expressions_of_earlier_arguments():
    plan = make_plan([argument("cu", "B+1"), argument("x", "1 S C"), argument("lengths", "B")], [])
    assert written(plan) == ["cu", "x", "x[1]=S", "x[2]=C", "lengths", "lengths[0]=B", "cu[0]=B+1"]
    assert plan.definite == {"B", "C", "S"}


def test_an_expression_binds_what_nothing_else_does():
    plan = make_plan([argument("cu", "B+1"), argument("rows", "S+2*B")], [])
    assert written(plan) == ["cu", "rows", "cu[0]=B+1", "rows[0]=S+2*B"]
    assert plan.definite == {"B", "S"}


def test_expressions_wait_for_each_other():
    plan = make_plan([argument("a", "P+Q"), argument("b", "Q-R"), argument("c", "R")], [])
    assert written(plan) == ["a", "b", "c", "c[0]=R", "b[0]=Q-R", "a[0]=P+Q"]


def test_axes_behind_a_run_count_from_the_back():
    one = argument("x", "S *batch H D")
    assert [(axis, dim.text) for axis, dim in positions(one.tensor.axes)] == [(0, "S"), (-2, "H"), (-1, "D")]
    assert written(make_plan([one], [])) == ["x", "x[0]=S", "x[-2]=H", "x[-1]=D", "x[1:-2]=*batch"]
    assert make_plan([one], []).definite == {"S", "H", "D", "*batch"}
    assert written(make_plan([argument("x", "... D")], [])) == ["x", "x[-1]=D"]


def test_optional_arguments_come_last_and_bind_nothing_for_sure():
    plan = make_plan([argument("mask", "S M", optional=True), argument("x", "S C"), argument("y", "M+1")], [])
    assert plan.definite == {"S", "C", "M"}
    assert written(plan) == ["x", "x[0]=S", "x[1]=C", "y", "y[0]=M+1", "mask", "mask[0]=S", "mask[1]=M"]


def test_a_required_argument_may_need_what_only_an_optional_one_binds():
    plan = make_plan([argument("x", "S//P"), argument("p", "P", optional=True), argument("s", "S")], [])
    assert written(plan) == ["x", "s", "s[0]=S", "p", "p[0]=P", "x[0]=S//P"]
    assert plan.definite == {"S"}


def test_results_may_use_and_bind_symbols():
    plan = make_plan([argument("x", "S C")], [argument("return", "S D 2*D")])
    assert [symbols(step) for step in plan.returns] == [(), ("S",), ("D",), ("D",)]


def test_arguments_that_are_no_tensors_have_no_steps():
    assert make_plan([Argument("n", hint="int", number=True)], []).arguments == ()


@pytest.mark.parametrize(
    ("arguments", "returns", "message"),
    [
        (
            [argument("x", "A+B")],
            [],
            "x: axis 0 is 'A+B', but no argument binds A and B; name A and B as an axis of some argument",
        ),
        (
            [argument("x", "C ... S//2")],
            [],
            "x: axis -1 is 'S//2', but no argument binds S; name S as an axis of some argument",
        ),
        (
            [argument("x", "S")],
            [argument("return", "S*D")],
            "return: axis 0 is 'S*D', but no argument binds D; name D as an axis of some argument",
        ),
        (
            [argument("cu", "B+1", PrefixSum(end="S"))],
            [],
            "cu: PrefixSum(start=0, end='S', tail='exact', empty='any') reads S, but no argument has an axis S; "
            "axes that are bound: B",
        ),
        (
            [Argument("n", invariants=(InRange(0, "S"),), hint="int", number=True)],
            [argument("return", "S")],
            "n: InRange(low=0, high='S') reads S, but no argument has an axis S; axes that are bound: none",
        ),
        (
            [argument("q", "B", SameBatch("cu_k")), argument("k", "B")],
            [],
            "q: SameBatch(other='cu_k', empty='any') names 'cu_k', which is no annotated argument; annotated are: k, q",
        ),
    ],
)
def test_refuses(arguments, returns, message):
    with pytest.raises(AnnotationError, match=f"^{re.escape(message)}$"):
        make_plan(arguments, returns)


DIMS = ["S", "B", "B+1", "S-B", "2*B", "A+B", "S//2", "A", "3"]
sizes = st.fixed_dictionaries({name: st.integers(0, 6) for name in "ABS"})
arguments = st.lists(st.lists(st.sampled_from(DIMS), min_size=1, max_size=2).map(" ".join), min_size=1, max_size=3)


@given(arguments, sizes, st.integers(0, 2), st.integers(0, 2))
@few
def test_the_order_of_arguments_changes_nothing(dims, bound, at, by):
    given = [argument(f"x{i}", text) for i, text in enumerate(dims)]
    shapes = [
        [dim.expression.evaluate(bound) if dim.kind != "fixed" else dim.size for _, dim in positions(one.tensor.axes)]
        for one in given
    ]
    shapes[at % len(shapes)][0] += by  # by 0: a good call
    if min(min(shape) for shape in shapes) < 0:
        return
    values = {one.name: Stub(tuple(shape), "int64", "cpu") for one, shape in zip(given, shapes, strict=True)}
    outcomes = []
    for order in permutations(given):
        try:
            plan = make_plan(order, [])
        except AnnotationError:
            outcomes.append("refused")
            continue
        outcomes.append((plan.definite, diagnose(Spec("f", order), values) is None))
    assert all(outcome == outcomes[0] for outcome in outcomes)
    if by == 0 and outcomes[0] != "refused":
        assert outcomes[0][1]
