"""Lets Dynamo capture FlexAttention where it has no kernel, such as in training on CPU.

FlexAttention looks whether it can run while Dynamo captures, before any backend sees a graph, and raises on CPU as soon
as an input requires a gradient, and for devices that it does not know (torch 2.11 to 2.13, `_validate_device` in
`torch/nn/attention/flex_attention.py`). Lowered, it runs there. So where it is this backend that captures, it looks
later: at what was not lowered.
"""

from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import torch
from shapecheck.compile_backend import flex
from shapecheck.compile_backend.report import Report
from torch import Tensor, fx
from torch._dynamo.trace_rules import _polyfilled_function_ids
from torch.nn.attention import flex_attention as stock

_validate = FunctionType(stock._validate_device.__code__, stock.__dict__)
"""A function of its own: Dynamo takes the substitute wherever it meets torch's."""


def install() -> None:
    """Substitute torch's check in all that Dynamo captures from now on. Once is enough."""
    if id(stock._validate_device) not in _polyfilled_function_ids:
        torch.compiler.substitute_in_graph(stock._validate_device)(_validate_device)


def unsupported(gm: fx.GraphModule, report: Report) -> Callable[..., Any] | None:
    """What to run instead of a graph in which FlexAttention is left where it has no kernel: it raises what torch does.

    An exception raised in a backend would reach the user as Dynamo's `BackendCompilerFailed`.

    Args:
        gm: the rewritten graph.
        report: of the graph; the exception says, in its notes, why the attention was left.

    Returns None where all that is left can run.
    """
    for node in _left(gm):
        try:
            _validate(*(one.meta["example_value"] for one in node.args[:3]))
        except (NotImplementedError, ValueError) as error:
            reasons = [site.reason for site in report.sites if site.form == flex.NAME and not site.lowered]
            for reason in reasons or [report.failure]:
                error.add_note(f"shapecheck left the attention as it was: {reason}")
            return _raising(error)
    return None


def _left(gm: fx.GraphModule) -> Iterator[Any]:
    for module in gm.modules():
        if isinstance(module, fx.GraphModule):
            yield from (node for node in module.graph.nodes if getattr(node.target, "__name__", "") == flex.NAME)


def _raising(error: Exception) -> Callable[..., Any]:
    def refuse(*arguments: Any) -> Any:
        raise error.with_traceback(None)

    return refuse


def _validate_device(query: Tensor, key: Tensor, value: Tensor) -> None:
    if not _captured_by_us():
        _validate(query, key, value)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _captured_by_us() -> bool:
    """Whether Dynamo, which calls this while it captures, does so for a backend of this package."""
    from torch._dynamo.eval_frame import innermost_backend
    from torch._dynamo.symbolic_convert import InstructionTranslator

    compiler: Any = InstructionTranslator.current_tx().output.compiler_fn
    backend = innermost_backend(compiler)
    backend = innermost_backend(getattr(backend, "compiler_fn", backend))
    module = getattr(backend, "__module__", None) or type(backend).__module__
    return module.startswith("shapecheck.")
