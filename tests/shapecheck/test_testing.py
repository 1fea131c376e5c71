"""`shapecheck.testing`: what users get to test their own kernels with."""

import subprocess
import sys
from random import Random

import pytest
import torch
from hypothesis import given, settings

from shapecheck import ContractError, contract
from shapecheck.testing import ORACLES, Mutant, strategies

pytest_plugins = ["pytester"]

USES_THE_PLUGIN = """
import pytest
pytest_plugins = ["shapecheck.testing.plugin"]

def test_mutants(shapecheck_oracle, shapecheck_layout, shapecheck_call, shapecheck_mutants):
    assert len({mutant.name for mutant in shapecheck_mutants}) >= 6
    assert shapecheck_layout.seq_len > 0

@pytest.mark.parametrize("shapecheck_oracle", ["flash_attn"], indirect=True)
def test_one(shapecheck_call):
    assert "cu_seqlens_q" in shapecheck_call
"""


def test_the_plugin(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(USES_THE_PLUGIN)
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "-W", "error").assert_outcomes(passed=len(ORACLES) + 1)


def test_hypothesis_is_imported_by_the_strategies_only() -> None:
    program = "import sys, shapecheck.testing; print('hypothesis' in sys.modules, 'pytest' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("name", sorted(ORACLES))
def test_a_call_is_determined_by_its_layout(name: str) -> None:
    oracle = ORACLES[name]
    first, second = oracle.sample(Random(3)), oracle.sample(Random(3))
    assert first == second
    one, other = oracle.call(first), oracle.call(second)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one if isinstance(one[key], torch.Tensor))


@pytest.mark.parametrize("name", sorted(ORACLES))
def test_mutants_differ_from_the_call_and_have_names_of_their_own(name: str) -> None:
    oracle = ORACLES[name]
    call = oracle.call(oracle.sample(Random(5)))
    mutants = list(oracle.mutants(call))
    assert len({mutant.name for mutant in mutants}) == len(mutants)
    assert all(mutant.call is not call for mutant in mutants)


@given(strategies.calls("flash_attn"))
@settings(max_examples=25, deadline=None)
def test_valid_calls_of_a_strategy(call: dict[str, object]) -> None:
    contract(ORACLES["flash_attn"].preset, level="sync")(lambda **kwargs: None)(**call)


@given(strategies.mutants("thd"))
@settings(max_examples=25, deadline=None)
def test_mutants_of_a_strategy(mutant: Mutant) -> None:
    with pytest.raises(ContractError):
        contract(ORACLES["thd"].preset, level="sync")(lambda **kwargs: None)(**mutant.call)


def test_an_unknown_oracle() -> None:
    with pytest.raises(KeyError):
        strategies.calls("flash")
