"""Runs a program through `torch.compile(backend="shapecheck")` and compares with eager."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.backends.registry import lookup_backend
from torch.fx import GraphModule

from shapecheck import ContractError

from .program import Adverse, Program, Sizes

OPERATOR = "shapecheck::varlen_attention"
SEED = 20


def lowered_sites(module: GraphModule) -> int:
    """How many nodes of a graph and of the graphs inside it call the operator."""
    return sum(
        getattr(node.target, "_schema", None) is not None and node.target._schema.name == OPERATOR
        for graph_module in module.modules()
        if isinstance(graph_module, GraphModule)
        for node in graph_module.graph.nodes
        if node.op == "call_function"
    )


class Inner:
    """The backend that gets the rewritten graphs: counts what was lowered and hands them on."""

    def __init__(self, name: str) -> None:
        self.backend = lookup_backend(name)
        self.graphs = 0
        self.lowered = 0

    def __call__(self, module: GraphModule, example_inputs: Sequence[Any]) -> Any:
        lowered = lowered_sites(module)
        compiled = self.backend(module, list(example_inputs))  # raises where Dynamo has to capture once more
        self.graphs += 1
        self.lowered += lowered
        return compiled


@dataclass(frozen=True)
class Outcome:
    """What a call did: its outputs, the gradients of the arguments that need one, the arguments afterwards."""

    outputs: tuple[Tensor, ...]
    gradients: tuple[Tensor, ...]
    arguments: tuple[Any, ...]


def call(function: Any, arguments: tuple[Any, ...], *, training: bool) -> Outcome:
    """Calls from a fixed random state; in training, gradients of a fixed weighting of all outputs."""
    torch.manual_seed(SEED)
    result = function(*arguments)
    outputs = result if isinstance(result, tuple) else (result,)
    gradients: tuple[Tensor, ...] = ()
    if training:
        leaves = [value for value in arguments if isinstance(value, Tensor) and value.requires_grad]
        roots = [output for output in outputs if output.requires_grad]
        generator = torch.Generator().manual_seed(SEED)
        weights = [torch.randn(root.shape, generator=generator).to(root) for root in roots]
        found = torch.autograd.grad(roots, leaves, weights, allow_unused=True)
        gradients = tuple(
            torch.zeros_like(leaf) if gradient is None else gradient
            for leaf, gradient in zip(leaves, found, strict=True)
        )
    return Outcome(tuple(output.detach() for output in outputs), gradients, arguments)


def compare(actual: Outcome, expected: Outcome, tolerance: float) -> None:
    """Outputs and arguments within the tolerance, gradients within five times; NaN where the expected one is."""
    for name, factor in (("outputs", 1), ("gradients", 5), ("arguments", 1)):
        limit = factor * tolerance
        found, wanted = getattr(actual, name), getattr(expected, name)
        try:
            torch.testing.assert_close(found, wanted, atol=limit, rtol=limit, equal_nan=True)
        except AssertionError as error:
            error.add_note(f"of the {name}")
            raise


def judge(program: Program, *, dynamic: bool, training: bool, inner: str = "aot_eager", thorough: bool = True) -> None:
    """Asserts that one compiled function equals eager in its sizes and under all adverse inputs, and lowers as expected.

    Args:
        program: the program.
        dynamic, training, inner: how it is compiled and run.
        thorough: in all sizes; else in the first two, and under adverse inputs in the first.

    Raises:
        AssertionError: it does not.
    """
    torch.compiler.reset()
    counter = Inner(inner)
    compiled = torch.compile(program.function, backend="shapecheck", dynamic=dynamic, options={"inner": counter})
    for index, sizes in enumerate(program.sizes if thorough else program.sizes[:2]):
        counter.graphs = counter.lowered = 0
        actual = _run(program, None, compiled, sizes, index, training=training)
        compare(actual, _run(program, None, program.expected, sizes, index, training=training), program.tolerance)
        assert counter.graphs or index
        if index == 0 or (counter.graphs and not dynamic):
            assert program.lowered in {None, counter.lowered}, f"{counter.lowered} sites were lowered"
    for adverse in program.adverse:
        for index, sizes in enumerate(program.sizes[: 2 if thorough else 1]):
            expected = _run(program, adverse, program.expected, sizes, index, training=training)
            try:
                actual = _run(program, adverse, compiled, sizes, index, training=training)
            except ContractError:
                assert adverse.invalid, adverse.name
            else:
                compare(actual, expected, program.tolerance)


def _run(
    program: Program, adverse: Adverse | None, function: Any, sizes: Sizes, seed: int, *, training: bool
) -> Outcome:
    arguments = (adverse or program).inputs(sizes, seed, torch.device("cpu"), torch.float32, training)
    return call(function, arguments, training=training)
