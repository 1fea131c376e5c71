"""Hypothesis strategies: layouts, valid calls and broken ones. Needs hypothesis."""

from hypothesis import strategies as st

from shapecheck._layout import PackedLayout
from shapecheck.testing._oracle import Call, Mutant
from shapecheck.testing._oracles import ORACLES


def layouts(name: str) -> st.SearchStrategy[PackedLayout]:
    """Layouts that the function of the oracle `name` takes.

    Raises KeyError for a name that is none of `ORACLES`.
    """
    return st.randoms(use_true_random=False).map(ORACLES[name].sample)


def calls(name: str) -> st.SearchStrategy[Call]:
    """Keyword arguments of valid calls.

    Raises KeyError for a name that is none of `ORACLES`.
    """
    return layouts(name).map(ORACLES[name].call)


def mutants(name: str) -> st.SearchStrategy[Mutant]:
    """Calls with one thing broken.

    Raises KeyError for a name that is none of `ORACLES`.
    """
    oracle = ORACLES[name]

    def broken(call: Call) -> st.SearchStrategy[Mutant]:
        return st.sampled_from(list(oracle.mutants(call)))

    return calls(name).flatmap(broken)
