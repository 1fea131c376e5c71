"""Compiling a real model with the backend, and what became of its attentions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from shapecheck.compile_backend import rewrite
from shapecheck.compile_backend.report import Report, Site
from torch import Tensor, nn
from torch._dynamo.backends.registry import lookup_backend


@dataclass
class Recorder:
    """The backend's pass with `inner` behind it, which keeps the report of every graph."""

    inner: str = "aot_eager"
    reports: list[Report] = field(default_factory=list)

    def __call__(self, graph: torch.fx.GraphModule, examples: list[Any]) -> Any:
        graph, report = rewrite(graph)
        self.reports.append(report)
        return lookup_backend(self.inner)(graph, examples)

    @property
    def sites(self) -> list[Site]:
        assert all(not report.failure for report in self.reports), [report.failure for report in self.reports]
        return [site for report in self.reports for site in report.sites]

    @property
    def lowered(self) -> int:
        return sum(site.lowered for site in self.sites)

    @property
    def reasons(self) -> list[str]:
        return [site.reason for site in self.sites if not site.lowered]


def tensors(output: Any) -> list[Tensor]:
    """The floating tensors of a model's output, whatever class holds them."""
    if isinstance(output, Tensor):
        return [output] if output.is_floating_point() else []
    if isinstance(output, Mapping):
        output = tuple(output.values())
    return [tensor for item in output for tensor in tensors(item)] if isinstance(output, tuple | list) else []


def results(
    model: nn.Module, run: Any, inputs: dict[str, Any], *, train: bool, seed: int = 7
) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Outputs of `run(**inputs)`, and the gradients of all parameters of `model` for a random cotangent if `train`."""
    model.train(train)
    model.zero_grad(set_to_none=True)
    with torch.set_grad_enabled(train):
        outputs = tensors(run(**inputs))
    if train:
        generator = torch.Generator().manual_seed(seed)
        loss = sum((output * torch.randn(output.shape, generator=generator)).sum() for output in outputs)
        assert isinstance(loss, Tensor)
        loss.backward()  # type: ignore[no-untyped-call]
    gradients = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    model.zero_grad(set_to_none=True)
    return [output.detach() for output in outputs], gradients


def check_equal(model: nn.Module, run: Any, inputs: dict[str, Any], *, train: bool) -> None:
    """Assert that `run` computes what `model` does: outputs and, if `train`, every gradient, to float32 rounding."""
    expected, expected_gradients = results(model, model, inputs, train=train)
    actual, gradients = results(model, run, inputs, train=train)
    assert expected
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected, strict=True):
        assert_near(ours, theirs)
    assert gradients.keys() == expected_gradients.keys()
    assert bool(gradients) is train
    # Some gradients are zero but for rounding, such as that of the bias of keys: the largest one is the measure.
    scale = max((gradient.abs().max().item() for gradient in expected_gradients.values()), default=0.0)
    for name, gradient in expected_gradients.items():
        assert_near(gradients[name], gradient, name, scale)


def assert_near(actual: Tensor, expected: Tensor, name: str = "output", scale: float = 0.0) -> None:
    """Assert equality to float32 rounding of numbers up to `scale`, by default the largest of `expected`."""
    assert actual.dtype == expected.dtype
    assert torch.isfinite(expected).all(), name
    atol = 1e-6 * max(scale, expected.abs().max().item())
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=atol, msg=lambda text: f"{name}: {text}")


def compiled(model: nn.Module, inputs: dict[str, Any], *, train: bool, fullgraph: bool = True) -> Recorder:
    """Compile `model`, assert that it computes what it did, and return the record of its attentions."""
    torch._dynamo.reset()
    recorder = Recorder()
    check_equal(model, torch.compile(model, backend=recorder, fullgraph=fullgraph), inputs, train=train)
    return recorder
