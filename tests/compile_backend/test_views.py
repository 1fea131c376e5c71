"""Where views read their elements from, against real tensors."""

import math

import sympy
import torch
from hypothesis import given
from hypothesis import strategies as st
from shapecheck.compile_backend.expressions import Affine, Quotient, Var
from shapecheck.compile_backend.views import reshaped

FACTORS = st.lists(st.sampled_from((1, 2, 3)), min_size=1, max_size=4)


def at(value: Affine, running: dict[str, int]) -> int:
    total = int(value.const)
    for atom, coefficient in value.terms:
        if isinstance(atom, Var):
            total += coefficient * running[atom.name]
        else:
            assert isinstance(atom, Quotient)
            whole, rest = divmod(at(atom.dividend, running), int(atom.divisor))
            total += coefficient * (rest if atom.remainder else whole)
    return total


@given(st.data(), FACTORS)
def test_reshape_reads_the_elements_that_torch_reads(data, factors):
    def grouped():
        cuts = sorted(data.draw(st.sets(st.integers(1, len(factors)))))
        return [math.prod(factors[a:b]) for a, b in zip([0, *cuts], [*cuts, len(factors)], strict=True)]

    old, new = grouped(), data.draw(st.one_of(st.builds(grouped), st.just([math.prod(factors)])))
    names = "abcdefgh"[: len(new)]
    index = tuple(Affine.of(Var(name)) for name in names)
    found = reshaped([sympy.Integer(n) for n in old], [sympy.Integer(n) for n in new], index)
    if found is None:
        return
    source = torch.arange(math.prod(factors)).view(old)
    for place in torch.cartesian_prod(*map(torch.arange, new)).view(-1, len(new)).tolist():
        read = tuple(at(one, dict(zip(names, place, strict=True))) for one in found)
        assert source[read] == source.view(new)[tuple(place)]


def test_symbolic_sizes_are_split_and_merged():
    rows = sympy.Symbol("s0", integer=True, positive=True)
    i = Affine.of(Var("i"))
    assert reshaped([rows], [sympy.Integer(1), rows], (Affine.of(0), i)) == (i,)
    assert reshaped([sympy.Integer(2), rows], [2 * rows], (i,)) is not None
    assert reshaped([rows], [rows + 1], (i,)) is None
