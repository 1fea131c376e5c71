"""Attention that is more, or something else, than softmax(Q K^T * scale + mask) V, under a mask that is blocks."""

# mypy: disable-error-code="no-any-return"
# Any is what `**` and untyped functions of torch return.

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from . import claims, metadata
from .positive_forms import CU, INF, same_segment, sdpa
from .program import HEADS, Corpus, packed

WRONG_ATTENTION = Corpus()


def scores_of(q: Tensor, k: Tensor, cu: Tensor) -> Tensor:
    """[1, H, S, S], scaled and masked."""
    return (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(~same_segment(q, cu), INF)


# Dropout.


@WRONG_ATTENTION(CU, 0, why="dropout in training", claim=claims.blocks)
def dropout_of_sdpa(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=same_segment(q, cu), dropout_p=0.3)


@WRONG_ATTENTION(CU, 0, why="dropout in training", claim=claims.blocks)
def dropout_of_weights(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return F.dropout(scores_of(q, k, cu).softmax(-1), p=0.3, training=True) @ v


class Dropout(nn.Module):
    """Explicit attention with dropout, in training."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.4)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
        return self.dropout(scores_of(q, k, cu).softmax(-1)) @ v


_dropout = Dropout().train()


@WRONG_ATTENTION(CU, 0, why="dropout in training", claim=claims.blocks)
def dropout_of_a_module(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return _dropout(q, k, v, cu)


@WRONG_ATTENTION(CU, 0, why="dropout of whole scores before the softmax", claim=claims.blocks)
def dropout_of_scores(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = F.dropout(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, 0.5)
    return scores.masked_fill(~same_segment(q, cu), INF).softmax(-1) @ v


# The softmax.


@WRONG_ATTENTION(CU, 0, why="softmax over the queries", claim=claims.blocks)
def softmax_over_queries(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return scores_of(q, k, cu).softmax(-2) @ v


@WRONG_ATTENTION(CU, 0, why="softmax over the heads")
def softmax_over_heads(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = (q @ k.transpose(-1, -2)).masked_fill(~same_segment(q, cu), -1e9)
    return torch.softmax(scores, dim=1) @ v


@WRONG_ATTENTION(CU, 0, why="softmax over both axes")
def softmax_over_all(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = scores_of(q, k, cu)
    return scores.flatten(-2).softmax(-1).view_as(scores) @ v


@WRONG_ATTENTION(CU, 0, why="sigmoid, no softmax", claim=claims.blocks)
def sigmoid_attention(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return scores_of(q, k, cu).sigmoid() @ v


@WRONG_ATTENTION(CU, 0, why="log_softmax, no softmax")
def log_softmax_attention(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = (q @ k.transpose(-1, -2)).masked_fill(~same_segment(q, cu), -1e3)
    return scores.log_softmax(-1) @ v


@WRONG_ATTENTION(CU, 0, why="two softmaxes", claim=claims.blocks)
def softmax_twice(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return scores_of(q, k, cu).softmax(-1).softmax(-1) @ v


@WRONG_ATTENTION(CU, 0, why="the mask is applied after the softmax, nothing is normalized", claim=claims.blocks)
def masked_after_softmax(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return ((q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1) * same_segment(q, cu)) @ v


@WRONG_ATTENTION(
    packed(metadata.cu_seqlens(), lambda *_: torch.tensor([0.5, -1.0])),
    0,
    why="a sink takes weight",
    claim=claims.blocks,
)
def sink_appended(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, sinks: Tensor) -> Tensor:
    sink = sinks[None, :, None, None].expand(1, -1, q.shape[2], 1)
    return torch.cat([scores_of(q, k, cu), sink], -1).softmax(-1)[..., :-1] @ v


@WRONG_ATTENTION(CU, 0, why="one more in the denominator", claim=claims.blocks)
def softmax_off_by_one(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    weights = scores_of(q, k, cu).exp()
    return weights / (1 + weights.sum(-1, keepdim=True)) @ v


# The scores.


@WRONG_ATTENTION(CU, 0, why="soft-capped scores", claim=claims.blocks)
def softcap(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    scores = 0.5 * torch.tanh(scores / 0.5)
    return scores.masked_fill(~same_segment(q, cu), INF).softmax(-1) @ v


@WRONG_ATTENTION(CU, 0, why="soft-capped after the mask: it leaks", claim=claims.blocks)
def softcap_after_the_mask(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return torch.tanh(scores_of(q, k, cu)).softmax(-1) @ v


@WRONG_ATTENTION(CU, 0, why="squared scores", claim=claims.blocks)
def squared_scores(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = (q @ k.transpose(-1, -2)) ** 2
    return scores.masked_fill(~same_segment(q, cu), INF).softmax(-1) @ v


@WRONG_ATTENTION(
    packed(metadata.cu_seqlens(), lambda *_: torch.tensor([0.3, 2.0]).view(HEADS, 1, 1)),
    None,
    why="each head has a temperature",
    claim=claims.blocks,
)
def temperature_of_heads(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, temperature: Tensor) -> Tensor:
    scores = (q @ k.transpose(-1, -2)) * temperature
    return scores.masked_fill(~same_segment(q, cu), INF).softmax(-1) @ v


class Temperature(nn.Module):
    """A learned scale."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((1, HEADS, 1, 1), 0.7))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
        scores = (q @ k.transpose(-1, -2)) * self.scale.clamp(max=2.0).exp()
        return scores.masked_fill(~same_segment(q, cu), INF).softmax(-1) @ v


_temperature = Temperature()


@WRONG_ATTENTION(CU, None, why="the scale is learned", claim=claims.blocks)
def temperature_learned(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return _temperature(q, k, v, cu)


@WRONG_ATTENTION(
    packed(metadata.cu_seqlens(), lambda sizes, _: torch.arange(1, sum(sizes) + 1).float().log()),
    None,
    why="each query has a scale",
    claim=claims.blocks,
)
def scale_of_queries(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, scale: Tensor) -> Tensor:
    scores = (q @ k.transpose(-1, -2)) * scale[:, None]
    return scores.masked_fill(~same_segment(q, cu), INF).softmax(-1) @ v


@WRONG_ATTENTION(CU, 0, why="each key has a scale, in the scores", claim=claims.blocks)
def scale_of_lengths(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)
    scores = (q @ k.transpose(-1, -2)) / mask.sum(-1, keepdim=True).sqrt()
    return (scores + mask.cumsum(-1) * 0.1).masked_fill(~mask, INF).softmax(-1) @ v


@WRONG_ATTENTION(CU, None, why="q and k change roles", claim=claims.blocks)
def queries_and_keys_swapped(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return (k @ q.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(~same_segment(q, cu), INF).softmax(-1) @ v


@WRONG_ATTENTION(CU, None, why="the scores are transposed before the softmax", claim=claims.blocks)
def scores_transposed(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return scores_of(q, k, cu).transpose(-1, -2).softmax(-1) @ v


@WRONG_ATTENTION(CU, 0, why="the weights are transposed after the softmax", claim=claims.blocks)
def weights_transposed(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return scores_of(q, k, cu).softmax(-1).transpose(-1, -2) @ v


@WRONG_ATTENTION(CU, 0, why="an einsum that sums over the queries", claim=claims.blocks)
def einsum_over_queries(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return torch.einsum("bhqk,bhqd->bhkd", scores_of(q, k, cu).softmax(-1), v)


@WRONG_ATTENTION(CU, 0, why="an einsum that mixes the heads", claim=claims.blocks)
def einsum_over_heads(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = torch.einsum("bhqd,bgkd->bhqk", q, k) * q.shape[-1] ** -0.5
    return scores.masked_fill(~same_segment(q, cu), INF).softmax(-1) @ v


@WRONG_ATTENTION(CU, 0, why="talking heads: a product over heads between scores and softmax", claim=claims.blocks)
def talking_heads(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mix = torch.tensor([[1.0, 0.5], [-0.5, 1.0]], device=q.device)
    scores = torch.einsum("bhqk,hg->bgqk", q @ k.transpose(-1, -2), mix)
    return scores.masked_fill(~same_segment(q, cu), INF).softmax(-1) @ v


@WRONG_ATTENTION(CU, None, why="keys are flipped, tags are not", claim=claims.blocks)
def keys_flipped(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k.flip(2), v, same_segment(q, cu))


@WRONG_ATTENTION(CU, None, why="values are those of the next row", claim=claims.blocks)
def values_rolled(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return scores_of(q, k, cu).softmax(-1) @ v.roll(1, 2)


@WRONG_ATTENTION(CU, 0, why="the scores of another pair are added", claim=claims.blocks)
def sum_of_two_scores(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2) + v @ k.transpose(-1, -2)
    return scores.masked_fill(~same_segment(q, cu), INF).softmax(-1) @ v


@WRONG_ATTENTION(CU, None, why="the scale is negative")
def negative_scale(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=same_segment(q, cu), scale=-0.7)


@WRONG_ATTENTION(CU, None, why="no scale at all in the scores", claim=claims.blocks)
def no_scale(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return (q @ k.transpose(-1, -2)).masked_fill(~same_segment(q, cu), INF).softmax(-1) @ v


@WRONG_ATTENTION(CU, None, why="scaled twice", claim=claims.blocks)
def scaled_twice(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q / math.sqrt(q.shape[-1]), k, v, same_segment(q, cu))


# The weights, used or changed.


@WRONG_ATTENTION(CU, 0, why="the weights are returned")
def weights_returned(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> tuple[Tensor, Tensor]:
    weights = scores_of(q, k, cu).softmax(-1)
    return weights @ v, weights


@WRONG_ATTENTION(CU, None, why="the scores are returned")
def scores_returned(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> tuple[Tensor, Tensor]:
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return scores.masked_fill(~same_segment(q, cu), INF).softmax(-1) @ v, scores


@WRONG_ATTENTION(CU, 0, why="a loss on the weights")
def entropy_of_weights(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    weights = scores_of(q, k, cu).softmax(-1)
    return weights @ v - (weights * (weights + 1e-9).log()).sum(-1, keepdim=True)


@WRONG_ATTENTION(CU, 0, why="small weights are cut off", claim=claims.blocks)
def weights_cut_off(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    weights = scores_of(q, k, cu).softmax(-1)
    return torch.where(weights > 0.2, weights, 0.0) @ v


@WRONG_ATTENTION(
    packed(metadata.cu_seqlens(), lambda sizes, generator: torch.rand(sum(sizes), generator=generator)),
    None,
    why="weights are multiplied, and normalized again",
    claim=claims.blocks,
)
def weights_renormalized(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, importance: Tensor) -> Tensor:
    weights = scores_of(q, k, cu).softmax(-1) * importance
    return weights / weights.sum(-1, keepdim=True) @ v


@WRONG_ATTENTION(CU, 0, why="weights changed in place", claim=claims.blocks)
def weights_changed_in_place(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    weights = scores_of(q, k, cu).softmax(-1).clone()
    weights[..., 0] *= 2
    return weights @ v


@WRONG_ATTENTION(CU, 0, why="scores changed in place after the mask", claim=claims.blocks)
def scores_changed_in_place(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = scores_of(q, k, cu)
    scores[..., :2] = 0.0
    return scores.softmax(-1) @ v


@WRONG_ATTENTION(CU, 0, why="a view of the scores is changed after the mask", claim=claims.blocks)
def view_of_scores_changed(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = scores_of(q, k, cu)
    scores.transpose(-1, -2)[..., 1:3, :].fill_(0.3)
    return scores.softmax(-1) @ v


@WRONG_ATTENTION(CU, None, why="the gradient of the weights is stopped")
def weights_detached(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return scores_of(q, k, cu).softmax(-1).detach() @ v + q


@WRONG_ATTENTION(CU, None, why="the gradient of the scores is stopped")
def scores_detached(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = (q @ k.transpose(-1, -2)).detach()
    return scores.masked_fill(~same_segment(q, cu), INF).softmax(-1) @ v + k


@WRONG_ATTENTION(CU, None, why="the weights have no gradient, the values do")
def weights_without_gradients(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    with torch.no_grad():
        weights = scores_of(q, k, cu).softmax(-1)
    return weights @ v + q + k


@WRONG_ATTENTION(CU, None, why="a part of the keys has no gradient")
def keys_partly_detached(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    k = torch.cat([k[:, :, :3].detach(), k[:, :, 3:]], 2)
    return sdpa(q, k, v, same_segment(q, cu))


# q, k, v changed in place between their uses.


@WRONG_ATTENTION(CU, None, why="the keys are changed after the scores", claim=claims.blocks)
def keys_changed_after_the_scores(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    with torch.no_grad():
        kept = k.clone()
        scores = q @ kept.transpose(-1, -2)
        kept.zero_()
    return scores.masked_fill(~same_segment(q, cu), INF).softmax(-1) @ (v + kept) + 0 * k


@WRONG_ATTENTION(CU, None, why="the queries are changed after the scores", claim=claims.blocks)
def queries_changed_after_the_scores(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    with torch.no_grad():
        kept = q * 1
        scores = kept @ k.transpose(-1, -2) * 0.1
        kept.mul_(30.0)
        out = scores.masked_fill(~same_segment(q, cu), INF).softmax(-1) @ v
    return out + q * 0 + kept * 0


@WRONG_ATTENTION(CU, None, why="the values are changed before the attention, through a view", claim=claims.blocks)
def values_changed_before(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    values = v.clone()
    values[:, :, 2:4].zero_()
    return scores_of(q, k, cu).softmax(-1) @ values


@WRONG_ATTENTION(CU, None, why="the output is changed in place")
def output_changed(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    out = sdpa(q, k, v, same_segment(q, cu)).clone()
    out[:, :, 0] = 0
    return out.mul_(2)


@WRONG_ATTENTION(
    packed(metadata.cu_seqlens(), lambda sizes, _: torch.zeros(1, HEADS, sum(sizes), 8)),
    None,
    why="keys go through a cache, which the caller reads",
    training=False,
)
def keys_of_a_cache(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, cache: Tensor) -> Tensor:
    cache.copy_(k.detach())
    out = sdpa(q, cache, v, same_segment(q, cu))
    cache.zero_()
    return out + k


# Regions that graphs treat in their own way.


class Straight(torch.autograd.Function):
    """Attention with a gradient of its own: four times the output's, for the values alone."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return sdpa(q, k, v, mask)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, 4 * grads[0], None


# Without gradients Dynamo sees no more than the forward pass, which is attention.
@WRONG_ATTENTION(CU, None, why="a custom gradient around the attention")
def custom_gradient(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return Straight.apply(q, k, v, same_segment(q, cu)) + q + k  # type: ignore[no-untyped-call]


class ScaledGradient(torch.autograd.Function):
    """The identity, with a scaled gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0] * 3


@WRONG_ATTENTION(CU, None, why="a custom gradient of the scores")
def custom_gradient_of_scores(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = ScaledGradient.apply(q @ k.transpose(-1, -2))  # type: ignore[no-untyped-call]
    return scores.masked_fill(~same_segment(q, cu), INF).softmax(-1) @ v


@WRONG_ATTENTION(CU, None, why="a custom gradient of the queries, before")
def custom_gradient_of_queries(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(ScaledGradient.apply(q), k, v, same_segment(q, cu))  # type: ignore[no-untyped-call]


@WRONG_ATTENTION(
    packed(metadata.cu_seqlens(), lambda sizes, _: torch.tensor(len(sizes) % 2 == 0)),
    None,
    why="one of two attentions, by a value",
    training=False,
)
def one_of_two_branches(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, local: Tensor) -> Tensor:
    def inside(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
        return sdpa(q, k, v, same_segment(q, cu))

    def everywhere(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v)

    return torch.cond(local, inside, everywhere, (q, k, v, cu))


@WRONG_ATTENTION(
    packed(metadata.cu_seqlens(), lambda sizes, _: torch.tensor(len(sizes) % 2 == 0)),
    None,
    why="one of two masks, by a value",
)
def one_of_two_masks(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, local: Tensor) -> Tensor:
    return sdpa(q, k, v, torch.where(local, same_segment(q, cu), True))


@WRONG_ATTENTION(CU, None, why="a branch of Python on a value: the graph breaks")
def branch_on_a_value(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)
    if cu[1] > 3:
        mask = mask.tril()
    return sdpa(q, k, v, mask)


@WRONG_ATTENTION(CU, 0, why="the graph breaks between mask and attention: the mask is an input")
def graph_break_after_the_mask(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)
    torch._dynamo.graph_break()
    return sdpa(q, k, v, mask)


@WRONG_ATTENTION(CU, None, why="the graph breaks between tags and mask: they are ids of an input")
def graph_break_after_the_tags(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags = torch.searchsorted(cu, torch.arange(q.shape[2]), right=True) % 2
    torch._dynamo.graph_break()
    return sdpa(q, k, v, tags[:, None] == tags[None, :])


@WRONG_ATTENTION(
    packed(lambda sizes, _: torch.stack([torch.arange(sum(sizes)) // 3, torch.arange(sum(sizes)) % 3])),
    None,
    why="vmap over sets of ids",
)
def vmap_over_ids(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    def one(tags: Tensor) -> Tensor:
        scores = (q @ k.transpose(-1, -2)).masked_fill(tags[:, None] != tags[None, :], INF)
        return scores.softmax(-1) @ v

    return torch.vmap(one)(ids)


@WRONG_ATTENTION(CU, None, why="a gradient inside the graph", training=False)
def gradient_inside(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)
    return torch.func.grad(lambda x: sdpa(x, k, v, mask).square().sum())(q)


@WRONG_ATTENTION(CU, 0, why="dropout in a checkpoint")
def dropout_in_a_checkpoint(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)

    def body(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=0.2)

    return checkpoint(body, q, k, v, use_reentrant=False)


@WRONG_ATTENTION(CU, 0, why="the mask is changed in the checkpoint's body", claim=claims.blocks)
def mask_changed_in_a_checkpoint(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)

    def body(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return sdpa(q, k, v, mask | (torch.arange(k.shape[2], device=k.device) == 2))

    return checkpoint(body, q, k, v, use_reentrant=False)


@WRONG_ATTENTION(
    packed(metadata.cu_seqlens(), lambda sizes, _: torch.tensor([0, sum(sizes)], dtype=torch.int32)),
    None,
    why="one checkpoint body, called with two masks",
    claim=claims.blocks,
)
def one_body_with_two_masks(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, whole: Tensor) -> Tensor:
    first = checkpoint(sdpa, q, k, v, same_segment(q, cu), use_reentrant=False)
    return checkpoint(sdpa, first, k, v, same_segment(q, whole), use_reentrant=False)


@WRONG_ATTENTION(
    CU, 0, why="autocast rounds the scores to bfloat16 before a fill that float16 cannot hold", tolerance=5e-2
)
def fill_that_leaks_under_autocast(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    with torch.autocast(q.device.type, dtype=torch.bfloat16):
        scores = torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        return torch.matmul(scores.masked_fill(~same_segment(q, cu), -3.0).softmax(-1), v).to(q.dtype)
