"""Elements of masks against the masks themselves: small random programs, evaluated element by element."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import sympy  # type: ignore[import-untyped]
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from shapecheck.compile_backend.elements import Elements, Unknown
from shapecheck.compile_backend.expressions import (
    Absolute,
    Affine,
    All,
    Compare,
    Constant,
    Formula,
    Not,
    Quotient,
    Read,
    Score,
    Select,
    Some,
    Truth,
    Var,
    within,
)
from shapecheck.compile_backend.normalize import normalize
from shapecheck.compile_backend.reading import Memory
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensorMode

ROWS, COLUMNS = 5, 7
Make = Callable[[Mapping[str, Tensor]], Tensor]

INPUTS = {
    "q_ids": torch.tensor([3, 1, 1, 0, 3]),
    "k_ids": torch.tensor([1, 3, 0, 0, 1, 2, 3]),
    "small": torch.tensor([100, -100, 3, 127, -128], dtype=torch.int8),
    "valid": torch.tensor([True, False, True, True, False, True, False]),
    "pairs": torch.arange(ROWS * COLUMNS).view(ROWS, COLUMNS) % 3,
    "columns_first": torch.arange(ROWS * COLUMNS).view(COLUMNS, ROWS) % 4,
}


class Evaluator:
    """The values of formulas, integers and numbers at one index, reads taken from real tensors."""

    def __init__(self, values: Mapping[fx.Node, Tensor], at: Mapping[str, int]) -> None:
        self._values = values
        self._at = at

    def integer(self, value: Affine) -> int:
        return int(value.const) + sum(c * self._atom(atom) for atom, c in value.terms)

    def _atom(self, atom: Any) -> int:
        match atom:
            case Var(name):
                return self._at[name]
            case Read():
                return int(self._read(atom))
            case Quotient(inner, divisor, remainder):
                of = self.integer(inner)
                return of % int(divisor) if remainder else of // int(divisor)
            case Absolute(inner):
                return abs(self.integer(inner))
        raise AssertionError(atom)

    def _read(self, read: Read) -> Any:
        index = tuple(map(self.integer, read.index))
        assert all(0 <= one < size for one, size in zip(index, self._values[read.node].shape, strict=True))
        return self._values[read.node][index].item()

    def truth(self, formula: Formula) -> bool:
        match formula:
            case bool():
                return formula
            case Compare(relation, value):
                held = self.integer(value)
                return {"eq": held == 0, "ne": held != 0, "le": held <= 0}[relation]
            case Truth(read):
                return bool(self._read(read))
            case Not(inner):
                return not self.truth(inner)
            case All(parts):
                return all(map(self.truth, parts))
            case Some(parts):
                return any(map(self.truth, parts))
        raise AssertionError(formula)

    def number(self, number: Any) -> float:
        match number:
            case Constant(value):
                return value
            case Select(condition, yes, no):
                return self.number(yes if self.truth(condition) else no)
            case Score():
                raise AssertionError("a mask holds no scores")
        raise AssertionError(number)


def agree(make: Make) -> bool:
    """Assert that elements are those of the mask that `make` gives; False if they are not understood."""
    graph = fx.Graph()
    placeholders = {name: graph.placeholder(name) for name in INPUTS}
    fake = FakeTensorMode()
    for name, node in placeholders.items():
        node.meta["example_value"] = fake.from_tensor(INPUTS[name])

    def program(*given: Tensor) -> Tensor:
        return make(dict(zip(INPUTS, given, strict=True)))

    called = graph.call_function(program, tuple(placeholders.values()))
    graph.output(called)
    normalized = normalize(fx.GraphModule(torch.nn.Module(), graph))
    (output,) = (node for node in normalized.graph.nodes if node.op == "output")
    mask = output.args[0]
    values = values_of(normalized.graph)
    real = values[mask]
    torch.testing.assert_close(real, program(*INPUTS.values()), equal_nan=True)
    index = tuple(Affine.of(Var(name)) for name in "ij")
    sizes = {name: sympy.Integer(size) for name, size in zip("ij", real.shape, strict=True)}
    elements = Elements(normalized, Memory(normalized), sizes=sizes)
    try:
        if real.dtype is torch.bool:
            formula = elements.formula(mask, index, output)
        elif real.is_floating_point():
            formula = elements.number(mask, index, output)
        else:
            formula = elements.integer(mask, index, output)
    except Unknown:
        return False
    for i in range(real.shape[0]):
        for j in range(real.shape[1]):
            at = Evaluator(values, {"i": i, "j": j})
            found = (
                at.truth(formula)
                if real.dtype is torch.bool
                else at.number(formula)
                if real.is_floating_point()
                else at.integer(formula)
            )
            assert found == pytest.approx(real[i, j].item(), rel=1e-6, nan_ok=True), (i, j, formula)
    return True


def values_of(graph: fx.Graph) -> dict[fx.Node, Tensor]:
    """What each node of a normalized graph holds for the inputs."""
    values: dict[fx.Node, Any] = {}

    class Run(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            values[n] = super().run_node(n)
            return values[n]

    assert graph.owning_module is not None
    Run(graph.owning_module).run(*INPUTS.values())
    return values


def rows(x: Mapping[str, Tensor]) -> Tensor:
    return torch.arange(ROWS)[:, None]


def columns(x: Mapping[str, Tensor]) -> Tensor:
    return torch.arange(COLUMNS)[None, :]


INTEGERS: tuple[Make, ...] = (
    rows,
    columns,
    lambda x: x["q_ids"][:, None],
    lambda x: x["q_ids"].flip(0)[:, None],
    lambda x: x["k_ids"].unsqueeze(0),
    lambda x: x["k_ids"].cumsum(0)[None],
    lambda x: x["pairs"],
    lambda x: x["columns_first"].t(),
    lambda x: x["columns_first"].reshape(ROWS, COLUMNS),
    lambda x: x["small"][:, None].expand(ROWS, COLUMNS),
    lambda x: (x["small"] + x["small"])[:, None].to(torch.int64),
    lambda x: torch.arange(2, 2 + 3 * COLUMNS, 3)[None],
    lambda x: torch.arange(20)[-ROWS:, None],
    lambda x: torch.arange(20).narrow(0, -12, COLUMNS)[None],
    lambda x: x["k_ids"][torch.arange(ROWS)][:, None],
    lambda x: x["pairs"][rows(x), columns(x)],
    lambda x: torch.full((ROWS, 1), 2),
    lambda x: x["valid"].to(torch.int64)[None],
    lambda x: x["pairs"].view(-1).view(ROWS, COLUMNS),
    lambda x: x["pairs"].repeat_interleave(2, 0)[1 : ROWS + 1],
    lambda x: x["pairs"].select(0, -1)[None],
    lambda x: x["k_ids"].repeat_interleave(ROWS).view(COLUMNS, ROWS).t(),
    lambda x: x["q_ids"][:, None].expand(ROWS, COLUMNS).reshape(-1).view(ROWS, COLUMNS),
    lambda x: x["q_ids"].repeat_interleave(2)[:ROWS, None],
)


def _derived(inner: st.SearchStrategy[Make]) -> st.SearchStrategy[Make]:
    sums = st.sampled_from((torch.add, torch.sub, torch.mul, torch.minimum))
    return st.one_of(
        st.builds(lambda f, a, b: lambda x: f(a(x), b(x)), sums, inner, inner),
        st.builds(lambda a, c: lambda x: a(x) * c, inner, st.integers(-3, 3)),
        st.builds(lambda a, c: lambda x: c - a(x), inner, st.integers(-300, 300)),
        st.builds(lambda a, c: lambda x: a(x) // c, inner, st.integers(1, 4)),
        st.builds(lambda a: lambda x: a(x).abs(), inner),
        st.builds(lambda a: lambda x: -a(x), inner),
        st.builds(lambda a: lambda x: a(x).to(torch.int32), inner),
    )


integers = st.recursive(st.sampled_from(INTEGERS), _derived, max_leaves=3)
comparisons = st.sampled_from((torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge))
compared = st.one_of(
    st.builds(lambda f, a, b: lambda x: f(a(x), b(x)), comparisons, integers, integers),
    st.builds(lambda f, a, c: lambda x: f(a(x), c), comparisons, integers, st.integers(-4, 300)),
    st.just(lambda x: x["valid"][None]),
    st.builds(lambda a: lambda x: a(x).bool(), integers),
)


def _joined(inner: st.SearchStrategy[Make]) -> st.SearchStrategy[Make]:
    joins = st.sampled_from((torch.logical_and, torch.logical_or, torch.logical_xor, torch.bitwise_and, torch.mul))
    triangles = st.sampled_from((torch.tril, torch.triu))
    return st.one_of(
        st.builds(lambda f, a, b: lambda x: f(a(x), b(x)), joins, inner, inner),
        st.builds(lambda a: lambda x: ~a(x), inner),
        st.builds(lambda a, b, c: lambda x: torch.where(a(x), b(x), c(x)), inner, inner, inner),
        st.builds(lambda a, b, c: lambda x: square(a(x)).masked_fill(b(x), c), inner, inner, st.booleans()),
        st.builds(lambda f, a, d: lambda x: f(square(a(x)), d), triangles, inner, st.integers(-3, 3)),
        st.builds(lambda a, c: lambda x: a(x) == c, inner, st.booleans()),
    )


def square(mask: Tensor) -> Tensor:
    return mask.expand(ROWS, COLUMNS)


masks = st.recursive(compared, _joined, max_leaves=4)
fills = st.sampled_from((0.0, 1.0, -1e4, -1e30, -float("inf"), 0.1))
numbers = st.one_of(
    st.builds(lambda a, f, g: lambda x: torch.where(a(x), f, g), masks, fills, fills),
    st.builds(lambda a, f: lambda x: torch.zeros(ROWS, COLUMNS).masked_fill(a(x), f), masks, fills),
    st.builds(lambda a: lambda x: (1.0 - a(x).to(torch.float32)) * -1e9, masks),
    st.builds(
        lambda a, f, d: lambda x: torch.full((ROWS, COLUMNS), f).triu(d) + a(x), masks, fills, st.integers(-2, 2)
    ),
)


@settings(max_examples=40, deadline=None)
@given(masks)
def test_truth_values_are_those_of_the_mask(make: Make) -> None:
    agree(lambda x: square(make(x)))


@settings(max_examples=30, deadline=None)
@given(integers)
def test_integers_are_those_of_the_tensor(make: Make) -> None:
    agree(lambda x: square(make(x)))


@settings(max_examples=30, deadline=None)
@given(numbers)
def test_numbers_are_those_of_the_mask(make: Make) -> None:
    agree(lambda x: square(make(x)))


@pytest.mark.parametrize("number", range(len(INTEGERS)))
def test_comparisons_of_every_source_are_understood(number: int) -> None:
    assert agree(lambda x: square(INTEGERS[number](x) == columns(x)))


def test_index_of_a_copy_for_each_head_is_that_of_the_sample() -> None:
    sample, head, rows = Affine.of(Var("b")), Affine.of(Var("h")), sympy.Symbol("rows", positive=True, integer=True)
    copy = sample.times(4) + head
    heads = {"h": sympy.Integer(4)}
    assert within(Affine.of(Quotient(copy, sympy.Integer(4))), heads) == sample
    assert within(Affine.of(Quotient(copy, sympy.Integer(4), remainder=True)), heads) == head
    assert within(Affine.of(Quotient(Affine.of(Var("i")), rows, remainder=True)), {"i": rows}) == Affine.of(Var("i"))
    for unknown in ({}, {"h": sympy.Integer(5)}, {"h": rows}):
        kept = Affine.of(Quotient(copy, sympy.Integer(4)))
        assert within(kept, unknown) == kept


@pytest.mark.parametrize("number", [128, -129, 200])
def test_number_beyond_the_integers_that_it_is_compared_with(number: int) -> None:
    # Eager wraps it around: -128 == 128 in int8.
    agree(lambda x: square((x["small"] == number)[:, None]))
    agree(lambda x: square((x["small"] < number)[:, None]))
    agree(lambda x: square((x["small"] == torch.full((), number))[:, None]))
