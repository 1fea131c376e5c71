"""The backend that `torch.compile(model, backend="shapecheck")` runs, found through its entry point."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from shapecheck.compile_backend import capture, log, settings
from shapecheck.compile_backend.calls_divergence import diverging
from shapecheck.compile_backend.pipeline import rewrite
from torch import Tensor, fx

capture.install()  # torch.compile loads its backend before it captures anything


def backend(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Lower what is proved, and let another backend compile the graph.

    Args:
        gm: the graph that Dynamo captured.
        example_inputs: its inputs.
        mode: as in `torch.compile`, for Inductor.
        options: as in `torch.compile`; see `shapecheck.compile_backend.settings.parse`.

    Raises:
        ValueError: for a mode or an option that is none.
    """
    log.configure()
    asked = settings.parse(mode, options)
    import shapecheck._attention._op  # noqa: F401 - registers the operator

    gm, report = rewrite(gm)
    log.report(report)
    refusal = diverging(report, asked.on_divergence) or capture.unsupported(gm, report)
    if refusal is not None:
        return refusal
    inner = asked.inner if asked.inner is not None else settings.default_inner(_device(gm))
    if inner == "inductor":
        from torch._inductor.compile_fx import compile_fx

        compiled: Any = compile_fx(gm, list(example_inputs), config_patches=asked.patches or None)
    else:
        compiler: Any = torch._dynamo.lookup_backend(inner) if isinstance(inner, str) else inner
        compiled = compiler(gm, list(example_inputs))
    return cast("Callable[..., Any]", compiled)


def _device(gm: fx.GraphModule) -> str:
    """The kind of device that a graph runs on: an accelerator, if any input lives on one."""
    kinds = {
        held.device.type
        for node in gm.graph.nodes
        if node.op == "placeholder" and isinstance(held := node.meta.get("example_value"), Tensor)
    }
    return next(iter(sorted(kinds - {"cpu", "meta"})), "cpu")
