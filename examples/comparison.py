"""A model compiled by Inductor as it is, and with backend="shapecheck" before it."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from shapecheck.compile_backend.explanation import Explanation
from torch import Tensor, nn

from shapecheck import explain

ROUNDS = 3

TOLERANCE = 1e-5
"""Of a result's largest entry. Both sum the same float32 numbers, in another order."""

Call = Callable[[Callable[..., Any]], Sequence[Tensor]]
"""Calls what it is given, the model in some form, and returns all that shall be equal: outputs, gradients."""


@dataclass(frozen=True)
class Comparison:
    """What came of it.

    Attributes:
        stock, ours: seconds of a call, compiled by Inductor alone and with the backend; the median of `ROUNDS`.
        difference: the largest difference of two results, each relative to its largest entry.
        explanation: what the backend did.
    """

    stock: float
    ours: float
    difference: float
    explanation: Explanation

    @property
    def passed(self) -> bool:
        """Whether the results are equal but for rounding, and every attention was lowered."""
        sites = self.explanation.sites
        return self.difference <= TOLERANCE and len(sites) > 0 and self.explanation.lowered == sites


def compare(model: nn.Module, call: Call, explained: Callable[[], Explanation]) -> Comparison:
    """Compiles `model` both ways, holds the results of `call` against each other and takes the time, in turns."""
    torch._dynamo.reset()
    forms = [torch.compile(model, backend=backend, fullgraph=True) for backend in ("inductor", "shapecheck")]
    expected, results = (call(form) for form in forms)
    pairs = zip(expected, results, strict=True)
    difference = max(float((one - other).abs().max() / one.abs().max()) for one, other in pairs)
    seconds = [[_seconds(call, form) for form in forms] for _ in range(ROUNDS)]
    stock, ours = (median(one) for one in zip(*seconds, strict=True))
    return Comparison(stock, ours, difference, explained())


def compare_inference(model: nn.Module, arguments: dict[str, Any]) -> Comparison:
    """The outputs of a model that returns a tuple of tensors."""
    return compare(model, lambda form: form(**arguments), lambda: explain(model, **arguments))


def compare_training(model: nn.Module, loss: Callable[[Callable[..., Any]], Tensor]) -> Comparison:
    """The loss, and the gradients of all parameters."""

    def call(form: Callable[..., Any]) -> Sequence[Tensor]:
        value = loss(form)
        return [value.detach(), *torch.autograd.grad(value, list(model.parameters()))]

    return compare(model, call, lambda: explain(loss, model))


def _seconds(call: Call, form: Callable[..., Any]) -> float:
    started = time.perf_counter()
    call(form)
    return time.perf_counter() - started


@contextmanager
def own_cache() -> Iterator[None]:
    """Inside, Inductor writes its code to a folder that is deleted afterwards."""
    name = "TORCHINDUCTOR_CACHE_DIR"
    before = os.environ.get(name)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[name] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ[name]
            else:
                os.environ[name] = before
