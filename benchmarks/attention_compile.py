"""What compiling costs beside stock Inductor: time, and graphs for batches of varying sizes."""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from shapecheck.compile_backend import rewrite
from shapecheck.compile_backend.report import Report
from torch import Tensor, fx, nn

from benchmarks.attention_cases import Batch, Case, Masked, Model
from benchmarks.attention_measure import Finding, Unit
from benchmarks.attention_peers import forget

_ROWS, _DOCUMENTS = 512, 8
_VARYING = [(512, 8), (640, 5), (384, 12), (1000, 3), (777, 20), (256, 2), (900, 16)]  # rows, documents


Make = Callable[[], nn.Module]


def compile_time(quick: bool, before: Sequence[Finding]) -> Iterator[Unit]:
    """Seconds of the analysis over those that stock Inductor takes for the same module, its caches off.

    Stock's are those of the first call less those of the second, so with Dynamo's capture, as users wait for them.
    """
    batch = Batch.of(Case(_ROWS, _DOCUMENTS, heads=4, width=32))
    packed = torch.randn(_ROWS, 128)
    attention = (batch.q, batch.k, batch.v, batch.cu_seqlens)
    modules: dict[str, tuple[Make, tuple[Tensor, ...]]] = {
        "attention": (lambda: Masked(causal=False), attention),
        "causal attention": (lambda: Masked(causal=True), attention),
        "transformer, 2 layers": (lambda: Model(2), (packed, batch.cu_seqlens)),
        "transformer, 8 layers": (lambda: Model(8), (packed, batch.cu_seqlens)),
    }
    if quick:
        modules = {name: modules[name] for name in ("attention", "transformer, 2 layers")}
    _first_call(nn.Linear(8, 8), "inductor", (torch.randn(2, 8),))  # imports, and the headers' compilation
    for dynamic in (False,) if quick else (False, True):
        for name, (make, inputs) in modules.items():
            case = f"{name}, {'dynamic' if dynamic else 'static'} shapes"
            yield Unit(case, partial(_analysis, case, make, inputs, dynamic, rounds=1 if quick else 3))


def _analysis(case: str, make: Make, inputs: tuple[Tensor, ...], dynamic: bool, rounds: int) -> list[Finding]:
    shares, stock, analysis, ours = [], [], [], []
    for _ in range(rounds):
        reports: list[Report] = []
        stock.append(_first_call(make(), "inductor", inputs, dynamic))
        ours.append(_first_call(make(), _reporting(reports), inputs, dynamic))
        analysis.append(sum(report.seconds for report in reports))
        shares.append(analysis[-1] / stock[-1])
        if not reports or not all(report.lowered for report in reports):
            raise RuntimeError("the module was not lowered")
    note = (
        f"analysis {statistics.median(analysis):.2f} s, stock {statistics.median(stock):.2f} s, "
        f"lowered in all {statistics.median(ours):.2f} s"
    )
    return [Finding("compile", case, "analysis / stock", statistics.median(shares), 0.1, least=False, note=note)]


def _reporting(reports: list[Report]) -> Callable[..., Any]:
    def backend(gm: fx.GraphModule, example_inputs: list[Any]) -> Any:
        from torch._inductor.compile_fx import compile_fx

        gm, report = rewrite(gm)
        reports.append(report)
        return compile_fx(gm, example_inputs)

    return backend


def _first_call(module: nn.Module, backend: Any, inputs: tuple[Tensor, ...], dynamic: bool = False) -> float:
    """Seconds that compiling adds to the first call."""
    from torch._inductor.utils import fresh_cache

    torch._dynamo.reset()
    with fresh_cache(), torch._inductor.config.patch(force_disable_caches=True), torch.no_grad():
        compiled = torch.compile(module, backend=backend, dynamic=dynamic)
        started = time.perf_counter()
        compiled(*inputs)
        first = time.perf_counter() - started
        compiled(*inputs)
        return 2 * first - (time.perf_counter() - started)


def recompiles(quick: bool, before: Sequence[Finding]) -> Iterator[Unit]:
    """Graphs that seven batches of varying rows and documents lead to, against stock's."""
    for train in (False,) if quick else (False, True):
        for dynamic in (None, True):
            case = f"{len(_VARYING)} batches, dynamic={dynamic}, {'forward+backward' if train else 'forward'}"
            yield Unit(case, partial(_more_graphs, case, dynamic, train))


def _more_graphs(case: str, dynamic: bool | None, train: bool) -> list[Finding]:
    counts = {backend: _graphs(backend, dynamic, train) for backend in ("inductor", "shapecheck")}
    note = f"stock {counts['inductor']}, lowered {counts['shapecheck']}"
    more = counts["shapecheck"] - counts["inductor"]
    return [Finding("recompiles", case, "graphs more than stock", more, 0, least=False, note=note)]


def _graphs(backend: str, dynamic: bool | None, train: bool) -> int:
    forget()
    with _counted() as count:
        module = torch.compile(Masked(causal=True), backend=backend, dynamic=dynamic)
        for rows, documents in _VARYING:
            batch = Batch.of(Case(rows, documents, train=train, heads=2, width=16))
            with torch.set_grad_enabled(train):
                out = module(batch.q, batch.k, batch.v, batch.cu_seqlens)
                if train:
                    out.backward(batch.grad)
    return count()


@contextmanager
def _counted() -> Iterator[Callable[[], int]]:
    """How many graphs Dynamo makes."""
    counters = torch._dynamo.utils.counters
    counters.clear()
    yield lambda: int(counters["stats"]["unique_graphs"])
