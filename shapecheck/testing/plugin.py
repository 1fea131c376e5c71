"""Pytest fixtures. In the top `conftest.py`: `pytest_plugins = ["shapecheck.testing.plugin"]`.

Every fixture runs its test for one layout of a fixed seed; parametrize `shapecheck_oracle` indirectly with a name to
stay with one function:

    @pytest.mark.parametrize("shapecheck_oracle", ["flash_attn"], indirect=True)
    def test_kernel(shapecheck_call): ...
"""

from random import Random

import pytest

from shapecheck._layout import PackedLayout
from shapecheck.testing._oracle import Call, Mutant, Oracle
from shapecheck.testing._oracles import ORACLES


@pytest.fixture(params=sorted(ORACLES))
def shapecheck_oracle(request: pytest.FixtureRequest) -> Oracle:
    """Each oracle in turn."""
    return ORACLES[request.param]


@pytest.fixture
def shapecheck_layout(shapecheck_oracle: Oracle) -> PackedLayout:
    """A layout that the oracle's function takes, the same in every run."""
    return shapecheck_oracle.sample(Random(0))


@pytest.fixture
def shapecheck_call(shapecheck_oracle: Oracle, shapecheck_layout: PackedLayout) -> Call:
    """The keyword arguments of a valid call."""
    return shapecheck_oracle.call(shapecheck_layout)


@pytest.fixture
def shapecheck_mutants(shapecheck_oracle: Oracle, shapecheck_call: Call) -> list[Mutant]:
    """The same call with one thing broken, in each way."""
    return list(shapecheck_oracle.mutants(shapecheck_call))
