"""`SameDevice`: a copy between devices that nobody asked for."""

from dataclasses import asdict

import pytest
import torch

from shapecheck import SameDevice
from shapecheck._invariants import Operand, Scope

CPU, META = torch.zeros(2), torch.zeros(2, device="meta")


@pytest.mark.parametrize(("mine", "theirs"), [(CPU, CPU), (META, META), (CPU, META), (META, CPU)])
def test_refusal_code_is_find_static(mine, theirs):
    same = mine.device == theirs.device
    found = SameDevice("x").find_static(mine, Scope(arguments={"x": theirs}))
    assert (found is None) == same
    code = SameDevice("x").refusal_code(Operand("mine", "mine.shape"), {}, {"x": Operand("x", "x.shape")})
    assert eval(code, {"mine": mine, "x": theirs}) == (not same)


def test_finding():
    found = SameDevice("x").find_static(CPU, Scope(arguments={"x": META}))
    assert found.problem == " is on cpu, expected meta as x is"
    assert (found.expected, found.actual, found.axis, found.bound_by) == ("meta", "cpu", None, "x")
    assert found.notes == ()
    assert found.hint == "move it once, where it is made: .to('meta'), or layout.to('meta')"


def test_an_absent_argument_is_silent():
    assert SameDevice("x").find_static(CPU, Scope()) is None
    assert SameDevice("x").refusal_code(Operand("mine", "mine.shape"), {}, {}) is None


def test_is_data():
    invariant = SameDevice("x")
    assert SameDevice.rebuild(asdict(invariant)) == invariant
    assert len({invariant, SameDevice("x"), SameDevice("y")}) == 2
    assert repr(invariant) == "SameDevice(other='x')"
    assert (invariant.symbols(), invariant.arguments(), invariant.reads_values()) == ((), ("x",), False)
