"""The generated checks against jaxtyping and beartype themselves, on random signatures and calls.

Each signature is decorated twice, once per engine, and called with values that fit and with values that almost fit;
both engines must accept, or both refuse. The third engine, `diagnose`, is in it too: a refusal that it cannot explain
is an AssertionError.

Known differences, each by intention, none of which this test has to step around because the normalization
(`shapecheck._contract._normalize`) removes them from jaxtyping's side:

- an expression whose symbol nothing binds (`B+1` alone) binds it; jaxtyping raises AnnotationError on every call;
- an expression before the argument that binds its symbol is checked; jaxtyping raises AnnotationError;
- `S//P` with P = 0 says nothing; in jaxtyping the ZeroDivisionError of the expression escapes;
- beartype accepts an int where a float is annotated (PEP 484), in both engines.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, Phase, assume, given, settings
from jaxtyping import Bool, Float, Float32, Int, Int32, Shaped
from torch import Tensor

from shapecheck import AnnotationError, ContractError, InRange, OneOf, PrefixSum, contract
from shapecheck._contract._dims import parse_dims

SYMBOLS = ("S", "C", "B")
AXES = (
    "1",
    "2",
    "S",
    "C",
    "B",
    "S",
    "B",
    "_",
    "n=2",
    "B+1",
    "2*S",
    "S-1",
    "S//2",
    "S+C",
    "S*C",
    "S//C",
    "S%2",
    "2*B+1",
)
RUNS = ("...", "*rest", "*rest")
DTYPES: dict[Any, torch.dtype] = {
    Float: torch.float32,
    Float32: torch.float32,
    Int: torch.int64,
    Int32: torch.int32,
    Bool: torch.bool,
    Shaped: torch.float16,
}
FAULTS = ("size", "size", "size", "drop axis", "add axis", "dtype", "none", "list")


@dataclass(frozen=True)
class Parameter:
    kind: Any
    dims: str
    optional: bool


@st.composite
def parameters(draw: st.DrawFn, *, optional: bool = True) -> Parameter:
    axes = draw(st.lists(st.sampled_from(AXES), max_size=3))
    if draw(st.integers(0, 5)) == 0:
        axes.insert(draw(st.integers(0, len(axes))), draw(st.sampled_from(RUNS)))
    return Parameter(draw(st.sampled_from(list(DTYPES))), " ".join(axes), optional and draw(st.booleans()))


@dataclass(frozen=True)
class Signature:
    parameters: tuple[Parameter, ...]
    result: Parameter | None

    def function(self) -> Callable[..., Any]:
        """A function that returns its last argument, the result to be."""
        names = [f"a{i}{'=None' if p.optional else ''}" for i, p in enumerate(self.parameters)]
        namespace: dict[str, Any] = {}
        exec(f"def f({', '.join(sorted(names, key=lambda name: '=' in name))}, *, result): return result", namespace)
        function: Callable[..., Any] = namespace["f"]
        for i, p in enumerate(self.parameters):
            annotation = p.kind[Tensor, p.dims]
            function.__annotations__[f"a{i}"] = annotation | None if p.optional else annotation
        if self.result is not None:
            function.__annotations__["return"] = self.result.kind[Tensor, self.result.dims]
        return function


@st.composite
def signatures(draw: st.DrawFn) -> Signature:
    some = tuple(draw(st.lists(parameters(), min_size=1, max_size=4)))
    result = draw(parameters(optional=False)) if draw(st.booleans()) else None
    return Signature(some, result)


def fitting(p: Parameter, sizes: dict[str, int], run: list[int]) -> Tensor:
    shape: list[int] = []
    for dim in parse_dims(p.dims):
        if dim.kind == "run":
            shape += run
        elif dim.kind == "any":
            shape.append(3)
        elif dim.kind == "fixed":
            shape.append(dim.size)
        elif dim.kind == "name":
            shape.append(sizes[dim.name])
        else:
            try:
                shape.append(max(0, dim.expression.evaluate(sizes)))
            except ZeroDivisionError:
                shape.append(1)
    return torch.zeros(shape, dtype=DTYPES[p.kind])


def broken(value: Tensor, fault: str, axis: int, by: int) -> Any:
    shape = list(value.shape)
    if fault == "size" and shape:
        shape[axis % len(shape)] = max(0, shape[axis % len(shape)] + by)
        return torch.zeros(shape, dtype=value.dtype)
    if fault == "drop axis" and shape:
        return torch.zeros(shape[1:], dtype=value.dtype)
    if fault == "add axis":
        return value[None]
    if fault == "dtype":
        return value.to(torch.complex64 if value.dtype is torch.float32 else torch.float32)
    return [1, 2] if fault == "list" else None


@st.composite
def calls(draw: st.DrawFn, signature: Signature) -> dict[str, Any]:
    sizes = {symbol: draw(st.integers(0, 4)) for symbol in SYMBOLS}
    run = draw(st.lists(st.integers(0, 2), max_size=2))
    values: dict[str, Any] = {}
    for i, p in enumerate(signature.parameters):
        if not (p.optional and draw(st.integers(0, 3)) == 0):
            values[f"a{i}"] = fitting(p, sizes, run)
    values["result"] = fitting(signature.result, sizes, run) if signature.result else None
    if draw(st.booleans()):
        name = draw(st.sampled_from(sorted(values)))
        if isinstance(values[name], Tensor):
            fault = draw(st.sampled_from(FAULTS))
            values[name] = broken(values[name], fault, draw(st.integers(0, 3)), draw(st.sampled_from((-1, 1, 2))))
    return values


def verdict(function: Callable[..., Any], values: dict[str, Any]) -> bool:
    """Whether the call passes. Anything but a ContractError is a crash inside the checker."""
    try:
        function(**values)
    except ContractError:
        return False
    return True


CALLS_PER_SIGNATURE = 10


@pytest.mark.slow
# Not shrunk: a signature is small as it is, and shrinking through the compiler takes minutes.
@settings(
    max_examples=1000,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(data=st.data())
def test_same_verdict_on_shapes(data: st.DataObject) -> None:
    signature = data.draw(signatures())
    try:
        generated = contract(level="shape")(signature.function())
    except AnnotationError:
        assume(False)
    reference = contract(level="shape", engine="reference")(signature.function())
    for _ in range(CALLS_PER_SIGNATURE):
        values = data.draw(calls(signature))
        assert verdict(generated, values) == verdict(reference, values), generated.__contract__.source


def valued(
    x: Float[Tensor, "1 S C"],
    tags: Annotated[Int[Tensor, "S"], OneOf(-1, 0, 2)],
    cu_seqlens: Annotated[Int[Tensor, "B+1"] | None, PrefixSum(end="S", tail="allow")],
    index: Annotated[Int[Tensor, "B"], InRange(0, "S")],
    host: Annotated[tuple[int, ...], PrefixSum(end="S")] = (0, 6),
) -> None: ...


@settings(max_examples=600, deadline=None)
@given(
    tags=st.lists(st.sampled_from((-1, 0, 2, 0, 2, 1)), min_size=6, max_size=6),
    cu_seqlens=st.none()
    | st.lists(st.integers(0, 7), min_size=3, max_size=3).map(sorted).map(lambda v: [0, *v[1:]])
    | st.lists(st.integers(0, 7), min_size=3, max_size=3),
    index=st.lists(st.integers(-1, 6), min_size=2, max_size=2),
    host=st.sampled_from([(0, 6), (0, 3, 6), (0, 7), (0,), (), (1, 6), (0, 4, 3, 6)]),
)
def test_same_verdict_on_values(
    tags: list[int], cu_seqlens: list[int] | None, index: list[int], host: tuple[int, ...]
) -> None:
    values = {
        "x": torch.zeros(1, 6, 2),
        "tags": torch.tensor(tags),
        "cu_seqlens": None if cu_seqlens is None else torch.tensor(cu_seqlens),
        "index": torch.tensor(index),
        "host": host,
    }
    generated, reference = contract(valued), contract(engine="reference")(valued)
    good = (
        set(tags) <= {-1, 0, 2}
        and (cu_seqlens is None or (cu_seqlens[0] == 0 and cu_seqlens == sorted(cu_seqlens) and cu_seqlens[-1] <= 6))
        and all(0 <= one < 6 for one in index)
        and len(host) > 1
        and host[0] == 0
        and list(host) == sorted(host)
        and host[-1] == 6
    )
    assert verdict(generated, values) == verdict(reference, values) == good


def hinted(x: Float[Tensor, "S"], count: int, scale: float = 1.0, names: list[str] | None = None) -> int:
    return count


@pytest.mark.parametrize("count", [3, True, "a", 1.5, None])
@pytest.mark.parametrize("scale", [1.0, 2, "a"])
@pytest.mark.parametrize("names", [None, ["a"], [1], "a"])
def test_same_verdict_on_hints(count: Any, scale: Any, names: Any) -> None:
    values = {"x": torch.zeros(2), "count": count, "scale": scale, "names": names}
    good = isinstance(count, int) and not isinstance(scale, str) and names in (None, ["a"])
    assert verdict(contract(hinted), values) == verdict(contract(engine="reference")(hinted), values) == good


def test_the_reference_engine_is_jaxtyping() -> None:
    def f(x: Float[Tensor, "S"], tags: Int[Tensor, "S"]) -> None: ...

    with pytest.raises(ContractError) as caught:
        contract(engine="reference")(f)(torch.zeros(2), torch.zeros(3, dtype=torch.long))
    assert type(caught.value.__cause__).__module__.startswith("jaxtyping")
