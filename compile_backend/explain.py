"""`shapecheck.explain`: runs a call once on a backend that records what this one would do, and what it meets."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from shapecheck.compile_backend import capture, rewrite
from shapecheck.compile_backend.boundaries import Boundaries, read_boundaries
from shapecheck.compile_backend.calls_operators import OWN
from shapecheck.compile_backend.explanation import Break, ExplainedSite, Explanation
from shapecheck.compile_backend.report import Report
from torch import Tensor, fx, nn
from torch._dynamo.utils import counters, graph_break_reasons

import shapecheck._attention  # noqa: F401  registers the operator

capture.install()


def explain(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Explanation:
    """What `torch.compile(fn, backend="shapecheck")` makes of `fn(*args, **kwargs)`, attention by attention.

    Runs the call once, in the caller's grad mode, with the lowered graphs executed eagerly; so state that a call
    changes, such as a cache or running means, is changed. A function or module that is compiled already, or a module
    with compiled parts, is captured in the regions that it is compiled in, with this backend instead of its own;
    anything else as a whole. As `torch._dynamo.explain` does, it forgets the graphs compiled in this process before
    and after: compiled functions compile anew at their next call.

    Args:
        fn: a function or module.
        args: its positional arguments.
        kwargs: its keyword arguments.

    Returns:
        The explanation: `print` it, or write a page with `to_html`.

    Raises:
        Whatever the call raises.
    """
    recorder = _Recorder()
    target = fn if _is_compiled(fn) else torch.compile(fn, backend=recorder)
    torch._dynamo.reset()
    frames = dict(counters["frames"])
    try:
        with torch.compiler.set_stance("default", force_backend=recorder):
            target(*args, **kwargs)
        breaks = _breaks()
        skipped = _since(frames, "total") - _since(frames, "ok")
    finally:
        torch._dynamo.reset()
    return Explanation(
        reports=tuple(one.report for one in recorder.graphs),
        sites=tuple(site for number, one in enumerate(recorder.graphs, 1) for site in one.sites(number)),
        breaks=breaks,
        skipped=skipped,
    )


def _is_compiled(fn: Callable[..., Any]) -> bool:
    parts = list(fn.modules()) if isinstance(fn, nn.Module) else [fn]
    return any(
        isinstance(part, torch._dynamo.OptimizedModule)
        or getattr(part, "_compiled_call_impl", None) is not None
        or hasattr(vars(part).get("forward") if isinstance(part, nn.Module) else part, "_torchdynamo_orig_callable")
        for part in parts
    )


def _since(before: dict[str, int], name: str) -> int:
    return counters["frames"][name] - before.get(name, 0)


def _breaks() -> tuple[Break, ...]:
    """The graph breaks since Dynamo was reset. One inside a called function is recorded for its callers too."""
    found: dict[tuple[str, str], Break] = {}
    for one in graph_break_reasons:
        at = one.user_stack[-1] if one.user_stack else None
        location = f"{at.filename}:{at.lineno}" if at else ""
        found.setdefault((one.reason, location), Break(one.reason.strip(), location))
    return tuple(found.values())


@dataclass
class _Graph:
    """One captured graph, and the boundaries that each of its lowered nodes got, call by call."""

    report: Report
    observed: list[list[Boundaries]] = field(default_factory=list)

    def sites(self, number: int) -> Iterator[ExplainedSite]:
        """The sites with what was seen; the lowered ones in the order of the nodes that replaced them.

        Calls of the operator itself that the user wrote are among these nodes.
        """
        nodes = iter(self.observed)
        for site in self.report.sites:
            seen = next(nodes, []) if site.lowered or site.form == OWN else []
            yield ExplainedSite(number, site, tuple(seen))


class _Recorder:
    """A backend for Dynamo: rewrites each graph as ours does, and runs it as it is."""

    def __init__(self) -> None:
        self.graphs: list[_Graph] = []
        self._read: dict[tuple[Any, ...], tuple[Boundaries, Any]] = {}

    def __call__(self, module: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        module, report = rewrite(module)
        observed: dict[fx.Node, list[Boundaries]] = {}
        # A body that is called twice has one node for two sites; both then show what the node met.
        nodes = list(_attentions(module))
        self.graphs.append(_Graph(report, [observed.setdefault(node, []) for node in nodes]))
        for node, seen in observed.items():
            node.target = self._watched(seen)
        for part in module.modules():
            if isinstance(part, fx.GraphModule):
                part.recompile()
        forward: Callable[..., Any] = module.forward
        return forward

    def _watched(self, seen: list[Boundaries]) -> Callable[..., Any]:
        """The operator, noting the boundaries that it gets: under a dispatch mode Dynamo would capture nothing."""

        def varlen_attention(q: Tensor, k: Tensor, v: Tensor, *rest: Any, **named: Any) -> Any:
            seen.append(self._boundaries(q, k, *rest, **named))
            return torch.ops.shapecheck.varlen_attention(q, k, v, *rest, **named)

        return varlen_attention

    def _boundaries(
        self,
        q: Tensor,
        k: Tensor,
        cu_seqlens_q: Tensor,
        cu_seqlens_k: Tensor,
        max_seqlen_q: int,
        max_seqlen_k: int,
        causal: bool,
        window_left: int,
        window_right: int,
        scale: float,
        zero_tail: bool,
        order_q: Tensor | None = None,
        order_k: Tensor | None = None,
    ) -> Boundaries:
        """Read once for all layers that share them: with the boundaries, their tensors are kept, so no id is reused."""
        tensors = (cu_seqlens_q, cu_seqlens_k, order_q, order_k)
        key = (*map(id, tensors), q.shape[0], k.shape[0], causal, window_left, window_right)
        if key not in self._read:
            read = read_boundaries(
                q.shape[0],
                k.shape[0],
                cu_seqlens_q,
                cu_seqlens_k,
                causal,
                (window_left, window_right),
                order_q,
                order_k,
            )
            self._read[key] = (read, tensors)
        return self._read[key][0]


def _attentions(module: fx.GraphModule) -> Iterator[fx.Node]:
    """The lowered attentions in the order of execution, those of bodies included."""
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        if node.target in (torch.ops.shapecheck.varlen_attention, torch.ops.shapecheck.varlen_attention.default):
            yield node
        for argument in node.args:
            if isinstance(argument, fx.Node) and argument.op == "get_attr":
                body = getattr(module, str(argument.target), None)
                if isinstance(body, fx.GraphModule):
                    yield from _attentions(body)
