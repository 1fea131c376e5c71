"""What happens with a violation, and who decides it."""

import threading
import warnings
from typing import Annotated

import pytest
import torch
from jaxtyping import Float32, Int32
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

import shapecheck
import shapecheck._settings as settings
from shapecheck import ContractError, ContractWarning, PrefixSum, configure, contract


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHAPECHECK", raising=False)
    monkeypatch.setattr(settings, "_process", settings.Settings())


def double(
    x: Float32[Tensor, "S C"], cu: Annotated[Int32[Tensor, "B+1"], PrefixSum(end="S")]
) -> Float32[Tensor, "S C"]:
    return x * 2


X, CU = torch.ones(3, 2), torch.tensor([0, 3], dtype=torch.int32)
BAD = CU + 1


def test_a_function_gets_the_error_and_the_call_goes_on() -> None:
    seen: list[ContractError] = []
    function = contract(on_violation=seen.append)(double)
    assert torch.equal(function(X, BAD), X * 2)
    assert [error.argument for error in seen] == ["cu"]
    assert torch.equal(function(X, CU), X * 2)
    assert len(seen) == 1


def test_a_wrong_result_is_returned_all_the_same() -> None:
    seen: list[ContractError] = []

    @contract(on_violation=seen.append)
    def flat(x: Float32[Tensor, "S C"]) -> Float32[Tensor, "S C"]:
        return x[0]

    assert flat(X).shape == (2,)
    assert [error.argument for error in seen] == ["return"]


async def _call(function: object) -> object:
    return await function(X, BAD)  # type: ignore[operator]


def test_coroutines_go_on_too() -> None:
    import asyncio

    async def later(x: Float32[Tensor, "S C"], cu: Annotated[Int32[Tensor, "B+1"], PrefixSum(end="S")]) -> Tensor:
        return x

    seen: list[ContractError] = []
    assert asyncio.run(_call(contract(on_violation=seen.append)(later))) is X
    assert len(seen) == 1


def test_warnings_come_once_from_each_line() -> None:
    function = contract(on_violation="warn")(double)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(5):
            function(X, BAD)
        function(X, BAD)
    assert [warning.category for warning in caught] == [ContractWarning] * 2
    assert {warning.filename for warning in caught} == {__file__}
    assert "cu[0] is 1, expected 0" in str(caught[0].message)


def test_a_scope_ends() -> None:
    function = contract(double)
    with configure(level="shape"):
        function(X, BAD)
        with configure(level="off"):
            function(1, 2)
        with pytest.raises(ContractError):
            function(X[0], CU)
    with pytest.raises(ContractError):
        function(X, BAD)


def test_the_process_default_and_who_comes_first() -> None:
    function, own = contract(double), contract(level="host")(double)
    configure(level="shape")
    function(X, BAD)
    with pytest.raises(ContractError):
        own(X, BAD)
    with configure(level="host"), pytest.raises(ContractError):
        function(X, BAD)
    assert function.__contract__.level.name == "SHAPE"  # type: ignore[attr-defined]


def test_a_scope_is_of_its_thread() -> None:
    function, failed = contract(double), []

    def other() -> None:
        try:
            function(X, BAD)
        except ContractError as error:
            failed.append(error)

    with configure(level="shape"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        function(X, BAD)
    assert len(failed) == 1


def test_the_environment_comes_after_configure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHAPECHECK", "shape")
    function = contract(double)
    function(X, BAD)
    with configure(level="host"), pytest.raises(ContractError):
        function(X, BAD)


@pytest.mark.parametrize(("argument", "value"), [("level", "loud"), ("on_violation", "shout"), ("on_violation", 3)])
def test_unknown_settings_are_refused(argument: str, value: object) -> None:
    with pytest.raises(ValueError, match=argument):
        configure(**{argument: value})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=argument):
        contract(**{argument: value})(double)  # type: ignore[call-overload]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_region_keeps_its_settings(backend: str) -> None:
    torch._dynamo.reset()
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(contract(double), backend=counter, fullgraph=True)
    compiled(X, CU)
    with configure(level="off"), pytest.raises(ContractError):
        compiled(X, BAD)
    assert counter.frame_count == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_region_goes_on(backend: str) -> None:
    torch._dynamo.reset()
    seen: list[ContractError] = []
    compiled = torch.compile(contract(on_violation=seen.append)(double), backend=backend, fullgraph=True, dynamic=False)
    assert torch.equal(compiled(X, BAD), X * 2)
    assert torch.equal(compiled(X, BAD), X * 2)
    assert [error.argument for error in seen] == ["cu", "cu"]
    assert compiled(X, BAD[:1]).shape == (3, 2)
    assert seen[-1].argument == "cu"
    assert type(seen[-1]) is shapecheck.ContractError
