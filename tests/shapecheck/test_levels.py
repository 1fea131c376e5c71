"""How much is checked, and who decides it."""

from typing import Annotated

import pytest
import torch
from jaxtyping import Float32, Int32
from torch import Tensor

from shapecheck import ContractError, InRange, OneOf, PrefixSum, SameDevice, contract
from shapecheck._levels import Level, parse_level, resolve_level

NAMES = ["off", "shape", "host", "device", "sync"]
VALID = "expected one of off, shape, host, device, sync"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    monkeypatch.delenv("SHAPECHECK", raising=False)


def plain(
    x: Float32[Tensor, "S C"],
    cu: Annotated[Int32[Tensor, "B+1"], PrefixSum(end="S"), SameDevice("x")],
    host: Annotated[list[int], PrefixSum(end="S")],
    tags: Annotated[Float32[Tensor, "S"], OneOf(0, 1)],
    n: Annotated[int, InRange(0, "S")] = 0,
):
    return x


def call(function, **changed):
    good = {
        "x": torch.zeros(3, 2),
        "cu": torch.tensor([0, 3], dtype=torch.int32),
        "host": [0, 3],
        "tags": torch.zeros(3),
    }
    return function(**{**good, **changed})


def refused(function, **changed):
    """The name of the argument that was refused, or None."""
    try:
        call(function, **changed)
    except ContractError as error:
        return error.argument
    return None


SHAPES = {  # what every level but off refuses
    "rank": {"x": torch.zeros(3)},
    "size": {"tags": torch.zeros(2)},
    "dtype": {"cu": torch.tensor([0, 3])},
    "device": {"cu": torch.zeros(2, dtype=torch.int32, device="meta")},
    "hint": {"host": ["0", "3"]},
    "number": {"n": 3},  # an invariant of a number is a guard
}
VALUES = {  # what is seen from host on
    "boundaries": {"cu": torch.tensor([0, 2], dtype=torch.int32)},
    "list": {"host": [0, 2]},
    "tags": {"tags": torch.full((3,), 2.0)},
}


@pytest.mark.parametrize("level", NAMES)
def test_what_each_level_checks(level):
    function = contract(level=level)(plain)
    assert refused(function) is None
    for changed in SHAPES.values():
        assert (refused(function, **changed) is None) == (level == "off")
    for changed in VALUES.values():
        (argument,) = changed
        assert refused(function, **changed) == (argument if level in ("host", "device", "sync") else None)


@pytest.mark.parametrize("level", ["shape", "host", "device", "sync"])
def test_values_without_storage_are_read_at_no_level(level):
    function = contract(level=level)(plain)
    meta = {
        "x": torch.zeros(3, 2, device="meta"),
        "cu": torch.tensor([0, 2], dtype=torch.int32, device="meta"),
        "tags": torch.full((3,), 2.0, device="meta"),
    }
    assert call(function, **meta) is meta["x"]


def test_off_returns_the_very_same_function(monkeypatch):
    assert contract(level="off")(plain) is plain
    monkeypatch.setenv("SHAPECHECK", "off")
    assert contract(plain) is plain
    assert contract(level=None)(plain) is plain

    def unresolvable(x: "Nope"): ...

    assert contract(unresolvable) is unresolvable  # nothing is read, nothing is refused


def test_off_keeps_static_and_class_methods():
    class Model:
        @contract(level="off")
        @staticmethod
        def static(x: Float32[Tensor, "S"]):
            return x

        @contract(level="off")
        @classmethod
        def of_class(cls, x: Float32[Tensor, "S"]):
            return cls

    assert (Model.static(3), Model.of_class(3)) == (3, Model)


@pytest.mark.parametrize("name", NAMES)
def test_the_environment_sets_the_level(monkeypatch, name):
    monkeypatch.setenv("SHAPECHECK", name)
    assert resolve_level(None) is Level[name.upper()]
    function = contract(plain)
    assert (
        getattr(function, "__contract__", None) is None
        if name == "off"
        else function.__contract__.level.name == name.upper()
    )


@pytest.mark.parametrize(
    ("text", "level"), [("", Level.HOST), ("  ", Level.HOST), (" Sync\n", Level.SYNC), ("OFF", Level.OFF)]
)
def test_spelling_in_the_environment(monkeypatch, text, level):
    monkeypatch.setenv("SHAPECHECK", text)
    assert resolve_level(None) is level


def test_host_is_the_default():
    assert resolve_level(None) is Level.HOST
    assert contract(plain).__contract__.level is Level.HOST


def test_the_contract_s_own_level_precedes_the_environment(monkeypatch):
    for environment, own in (("off", "host"), ("sync", "off"), ("nonsense", "shape")):
        monkeypatch.setenv("SHAPECHECK", environment)
        assert resolve_level(own) is Level[own.upper()]
    monkeypatch.setenv("SHAPECHECK", "off")
    assert refused(contract(level="host")(plain), **VALUES["boundaries"]) == "cu"


def test_the_level_is_settled_when_decorating(monkeypatch):
    function = contract(plain)
    monkeypatch.setenv("SHAPECHECK", "off")
    assert refused(function, **VALUES["boundaries"]) == "cu"


def test_unknown_levels_are_refused(monkeypatch):
    with pytest.raises(ValueError, match=f"^level='all': {VALID}$"):
        contract(level="all")
    with pytest.raises(ValueError, match=f"^level='': {VALID}$"):
        contract(level="")
    monkeypatch.setenv("SHAPECHECK", "1")
    with pytest.raises(ValueError, match=f"^SHAPECHECK='1': {VALID}$"):
        contract(plain)


@pytest.mark.parametrize("level", [3, False])
def test_levels_that_are_no_strings_are_refused(level):
    with pytest.raises(ValueError, match=f"^level={level}: {VALID}$"):
        contract(level=level)


def test_each_level_includes_those_before_it():
    assert [level.name.lower() for level in sorted(Level)] == NAMES
    assert parse_level("host", "level") > parse_level("shape", "level")
