"""Errors of the lowered module against attention in float64."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from benchmarks import attention_peers as peers
from benchmarks.attention_cases import Batch, Case
from benchmarks.attention_measure import Finding, Unit

_LAYOUTS = [(1, 1), (64, 64), (300, 7), (512, 2), (640, 16), (1024, 256), (1536, 3), (1000, 1)]  # rows, documents
_FLOAT32 = {"forward": 2e-6, "gradients": 1e-5}
_HALF = 1.2  # times the error of the hand-written loop in the same dtype


def accuracy(quick: bool, before: Sequence[Finding]) -> Iterator[Unit]:
    """The largest error over several layouts: of float32 as it is, of half precision over that of a hand-written loop.

    The loop is PyTorch's own attention of each document. "rms" is the root mean square over all entries.
    """
    layouts = _LAYOUTS[:4] if quick else _LAYOUTS
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for causal in (False, True):
            case = f"{str(dtype).removeprefix('torch.')}, {'causal' if causal else 'full'}"
            yield Unit(case, partial(_errors, case, dtype, causal, layouts))
        peers.forget()


def _errors(case: str, dtype: torch.dtype, causal: bool, layouts: Sequence[tuple[int, int]]) -> Iterable[Finding]:
    ours, loop = _Errors(), _Errors()
    for seed, (rows, documents) in enumerate(layouts):
        batch = Batch.of(Case(rows, documents, dtype=dtype, causal=causal, train=True, heads=2), seed)
        exact = _results(_in_double(batch), peers.loop)
        ours.add(_results(batch, lambda batch: peers.lowered(batch, dynamic=True)), exact)
        loop.add(_results(batch, peers.loop), exact)
    return _findings(case, dtype, ours, loop)


def _findings(case: str, dtype: torch.dtype, ours: "_Errors", loop: "_Errors") -> Iterator[Finding]:
    for what, bar in _FLOAT32.items():
        note = f"loop {loop.largest[what]:.1e}"
        if dtype == torch.float32:
            yield Finding("accuracy", case, f"{what}, largest", ours.largest[what], bar, least=False, note=note)
            continue
        note = f"{ours.largest[what]:.1e} against {loop.largest[what]:.1e}"
        ratio = ours.largest[what] / loop.largest[what]
        yield Finding("accuracy", case, f"{what}, largest / loop", ratio, _HALF, least=False, note=note)
        ratio = ours.rms(what) / loop.rms(what)
        yield Finding("accuracy", case, f"{what}, rms / loop", ratio, _HALF, least=False)


class _Errors:
    """Errors over several batches."""

    def __init__(self) -> None:
        self.largest = dict.fromkeys(_FLOAT32, 0.0)
        self._squares = dict.fromkeys(_FLOAT32, 0.0)
        self._count = dict.fromkeys(_FLOAT32, 0)

    def add(self, found: dict[str, list[Tensor]], exact: dict[str, list[Tensor]]) -> None:
        """Add the results of one batch."""
        for what, tensors in found.items():
            for one, other in zip(tensors, exact[what], strict=True):
                error = one.double() - other
                self.largest[what] = max(self.largest[what], float(error.abs().max()))
                self._squares[what] += float(error.square().sum())
                self._count[what] += error.numel()

    def rms(self, what: str) -> float:
        """Root mean square."""
        return float((self._squares[what] / self._count[what]) ** 0.5)


def _results(batch: Batch, way: Callable[[Batch], peers.Attend]) -> dict[str, list[Tensor]]:
    attend = way(batch)
    gradients = attend.backward()
    return {"forward": [attend.forward().detach()], "gradients": list(gradients)}


def _in_double(batch: Batch) -> Batch:
    q, k, v = (one.detach().double().requires_grad_() for one in (batch.q, batch.k, batch.v))
    return replace(batch, q=q, k=k, v=v, grad=batch.grad.double())
