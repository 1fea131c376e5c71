"""Masks with a tensor on the way that is copied and written in place: what is read is what it held then."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from shapecheck.compile_backend import rewrite
from shapecheck.compile_backend.report import Report
from torch import Tensor

BATCH, HEADS, ROWS = 3, 2, 9
POSITIONS = torch.tensor([[0, 1, 2, 0, 1, 0, 1, 2, 3], [0, 1, 2, 3, 4, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 6, 7, 8]])
VALID = torch.arange(ROWS) >= torch.tensor([4, 0, 2])[:, None]


def attend(mask: Callable[[Tensor], Tensor], given: Tensor) -> Report:
    """The report of attention under `mask(given)`, which equals that of eager."""
    return report_of(lambda q, k, v, given: F.scaled_dot_product_attention(q, k, v, mask(given)), given)


def report_of(attention: Callable[..., Tensor], given: Tensor) -> Report:
    """The report of `attention(q, k, v, given)`, which equals that of eager."""
    torch._dynamo.reset()
    reports: list[Report] = []

    def backend(graph: torch.fx.GraphModule, _: list[Any]) -> Any:
        graph, report = rewrite(graph)
        reports.append(report)
        return graph.forward

    q, k, v = torch.randn(3, BATCH, HEADS, ROWS, 8, generator=torch.Generator().manual_seed(0))
    actual = torch.compile(attention, backend=backend, fullgraph=True)(q, k, v, given)
    torch.testing.assert_close(actual, attention(q, k, v, given))
    (report,) = reports
    assert not report.failure
    return report


def both(valid: Tensor) -> Tensor:
    return valid[:, None, None, :] & valid[:, None, :, None]


def seeing_the_first(valid: Tensor) -> Tensor:
    mask = both(valid)
    mask[..., 0] = True
    return mask


COPIES: dict[str, Callable[[Tensor], Tensor]] = {
    "clone": lambda mask: mask.clone(),
    "contiguous": lambda mask: mask.expand(-1, HEADS, -1, -1).contiguous(),
    "reshape": lambda mask: mask.expand(-1, HEADS, -1, -1).reshape(-1, ROWS, ROWS).view(BATCH, HEADS, ROWS, ROWS),
    "repeat": lambda mask: mask.repeat(1, HEADS, 1, 1),
    "repeat_interleave": lambda mask: mask.repeat_interleave(HEADS, 0).view(BATCH, HEADS, ROWS, ROWS),
}


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
def test_copy_of_a_mask_is_the_mask(copy: Callable[[Tensor], Tensor]) -> None:
    assert len(attend(lambda valid: copy(both(valid)), VALID).lowered) == 1


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
def test_copy_of_a_mask_that_was_written_is_not_what_it_was_made_from(copy: Callable[[Tensor], Tensor]) -> None:
    report = attend(lambda valid: copy(seeing_the_first(valid)), VALID)
    assert not report.lowered
    assert "in place" in report.sites[0].reason


def test_copy_that_was_taken_before_the_mask_is_written() -> None:
    def mask(valid: Tensor) -> Tensor:
        made = both(valid)
        copy = made.clone()
        made[..., 0] = True
        return copy

    assert len(attend(mask, VALID).lowered) == 1


def packed(positions: Tensor, change: str) -> Tensor:
    """The mask of packed sequences, with a copy of `change` written on the way."""

    def written(name: str, held: Tensor, value: Any) -> Tensor:
        if name == change:
            held = held.clone()
            held[:, 5] = value
        return held

    counted = written("positions", positions, 99)
    steps = written("steps", torch.diff(counted, prepend=counted[:, :1] - 1), 1)
    tags = written("tags", written("starts", steps != 1, False).cumsum(-1), 0)
    causal = positions[:, None, None, :] <= positions[:, None, :, None]
    return (tags[:, None, :, None] == tags[:, None, None, :]) & causal


def test_positions_that_begin_segments() -> None:
    assert len(attend(lambda positions: packed(positions, "nothing"), POSITIONS).lowered) == 1


@pytest.mark.parametrize("change", ["positions", "steps", "starts", "tags"])
def test_positions_of_which_a_copy_was_written_need_not_begin_segments(change: str) -> None:
    assert len(attend(lambda positions: packed(positions, change), POSITIONS).lowered) == 0


def weights_of(q: Tensor, k: Tensor, valid: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2)
    return scores.masked_fill(valid[:, None, None, :] != valid[:, None, :, None], float("-inf")).softmax(-1)


def doubled(weights: Tensor) -> Tensor:
    weights[..., 0] *= 2
    return weights


def test_weights_that_are_not_changed() -> None:
    assert len(report_of(lambda q, k, v, valid: weights_of(q, k, valid).clone() @ v, VALID).lowered) == 1


@pytest.mark.parametrize("copied", [False, True], ids=["themselves", "copied"])
def test_weights_that_are_changed_before_they_are_used(copied: bool) -> None:
    def attention(q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
        weights = weights_of(q, k, valid)
        return doubled(weights.clone() if copied else weights) @ v

    assert not report_of(attention, VALID).lowered


def test_weights_that_are_changed_after_they_were_used() -> None:
    def attention(q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
        weights = weights_of(q, k, valid)
        out = weights @ v
        doubled(weights)
        return out

    assert len(report_of(attention, VALID).lowered) == 1
