"""Calls of `shapecheck::varlen_attention` for `benchmarks.gpu_check`, and what they must give, segment by segment."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from shapecheck._attention._call import Call

HALF, BRAIN, SINGLE = torch.float16, torch.bfloat16, torch.float32
FLEX = "FlexAttention"
VARLEN = "varlen_attn"
GATHERED = "varlen_attn, gathered rows"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One call but its values.

    Attributes:
        name: what is special about it.
        path: the code of the CUDA kernel that has to take it.
        lengths_q: rows of each query segment.
        lengths_k: of each key segment; None: as `lengths_q`, and one tensor of boundaries for both.
        orders: how rows are named: not at all, by one tensor for queries and keys, or by two.
        repeats: how often the last boundary is repeated.
        tail: rows behind the last boundary.
        strided: q, k and v are slices of one wider tensor.
    """

    name: str
    path: str
    lengths_q: tuple[int, ...]
    lengths_k: tuple[int, ...] | None = None
    dtype: torch.dtype = BRAIN
    heads: tuple[int, int] = (4, 4)
    width: tuple[int, int] = (64, 64)
    causal: bool = False
    window: tuple[int, int] = (-1, -1)
    orders: str = "none"
    repeats: int = 0
    tail: int = 0
    index: torch.dtype = torch.int32
    strided: bool = False


class Inputs(NamedTuple):
    """Tensors of one call."""

    q: Tensor
    k: Tensor
    v: Tensor
    grad_out: Tensor
    call: Call
    """What follows v in the operator's arguments."""


class Results(NamedTuple):
    """What a call gives, forward and backward."""

    out: Tensor
    lse: Tensor
    dq: Tensor
    dk: Tensor
    dv: Tensor


def cases(scale: int) -> tuple[Case, ...]:
    """Every path of the CUDA kernel, with the layouts that are easy to get wrong. Lengths are multiples of `scale`."""
    few = tuple(scale * length for length in (9, 1, 4, 0, 2))
    other = tuple(scale * length for length in (5, 3, 0, 2, 7))
    ragged = tuple(length + 3 * (length > 0) for length in few)
    return (
        Case(name="full", path=VARLEN, lengths_q=few),
        Case(name="fp16, causal, lengths like 131", path=VARLEN, lengths_q=ragged, dtype=HALF, causal=True),
        Case(name="window (40, 0)", path=VARLEN, lengths_q=ragged, window=(40, 0)),
        Case(name="window (7, 30)", path=VARLEN, lengths_q=ragged, window=(7, 30)),
        Case(name="cross attention, empty on either side", path=VARLEN, lengths_q=few, lengths_k=other),
        Case(name="cross attention, causal", path=VARLEN, lengths_q=few, lengths_k=other, causal=True),
        Case(name="8 query heads for 2", path=VARLEN, lengths_q=ragged, heads=(8, 2), causal=True),
        Case(name="head dim 128", path=VARLEN, lengths_q=ragged, width=(128, 128), causal=True),
        Case(name="head dim 256", path=VARLEN, lengths_q=few, heads=(2, 2), width=(256, 256)),
        Case(name="head dims 20 and 24, padded", path=VARLEN, lengths_q=ragged, width=(20, 24), causal=True),
        Case(name="rows in no segment", path=VARLEN, lengths_q=ragged, tail=70, causal=True),
        Case(name="last boundary repeated, int64", path=VARLEN, lengths_q=few, repeats=40, tail=5, index=torch.int64),
        Case(name="slices of one projection", path=VARLEN, lengths_q=ragged, strided=True),
        Case(name="one row in each segment, 4 heads for 1", path=VARLEN, lengths_q=(1,) * scale, heads=(4, 1)),
        Case(name="no rows at all", path=VARLEN, lengths_q=(0, 0)),
        Case(name="no row in a segment", path=VARLEN, lengths_q=(0, 0), tail=5),
        Case(name="any groups", path=GATHERED, lengths_q=ragged, lengths_k=other, orders="two"),
        Case(name="any groups, causal", path=GATHERED, lengths_q=ragged, orders="same", causal=True, tail=9),
        Case(name="any groups, window", path=FLEX, lengths_q=ragged, orders="same", window=(50, 3)),
        Case(
            name="key padding, causal",
            path=FLEX,
            lengths_q=(8 * scale,),
            lengths_k=(5 * scale,),
            orders="two",
            causal=True,
        ),
        Case(
            name="one segment for each row", path=FLEX, lengths_q=ragged, orders="same", causal=True, repeats=16 * scale
        ),
        Case(
            name="one segment for each row, 8 heads for 2",
            path=FLEX,
            lengths_q=ragged,
            heads=(8, 2),
            repeats=16 * scale,
        ),
        Case(name="fp32", path=FLEX, lengths_q=ragged, dtype=SINGLE, tail=11),
        Case(
            name="fp32, causal, cross attention", path=FLEX, lengths_q=few, lengths_k=other, dtype=SINGLE, causal=True
        ),
        Case(name="fp32, head dims 8 and 24", path=FLEX, lengths_q=ragged, width=(8, 24), dtype=SINGLE),
        Case(name="fp32, head dim 128", path=FLEX, lengths_q=ragged, width=(128, 128), dtype=SINGLE),
        Case(name="fp32, fewer rows than a block", path=FLEX, lengths_q=(20, 0, 31), dtype=SINGLE, causal=True),
    )


def inputs(case: Case, device: torch.device, seed: int = 0) -> Inputs:
    """Random tensors for a case; q, k and v are leaves that require gradients."""
    random = torch.Generator(device).manual_seed(seed)
    cu_q = _boundaries(case.lengths_q, case, device)
    cu_k = cu_q if case.lengths_k is None else _boundaries(case.lengths_k, case, device)
    lengths_k = case.lengths_k or case.lengths_q
    rows_q = sum(case.lengths_q) + case.tail
    # Keys are named by rows of the same numbering as queries where both are one batch.
    rows_k = rows_q if case.lengths_k is None or (case.orders == "two" and case.causal) else sum(lengths_k) + case.tail
    (heads_q, heads_k), (width, width_v) = case.heads, case.width

    def draw(rows: int, heads: int, columns: int) -> Tensor:
        return torch.randn(rows, heads, columns, generator=random, device=device).to(case.dtype)

    if case.strided:
        fused = draw(rows_q, 3 * heads_q, width)
        q, k, v = (fused[:, heads_q * one : heads_q * (one + 1)] for one in range(3))
    else:
        q, k, v = draw(rows_q, heads_q, width), draw(rows_k, heads_k, width), draw(rows_k, heads_k, width_v)
    order_q = None if case.orders == "none" else _order(cu_q, rows_q, random)
    order_k = order_q if case.orders != "two" else _order(cu_k, rows_k, random)
    longest = max(case.lengths_q), max(lengths_k)
    call = Call(cu_q, cu_k, *longest, case.causal, case.window, width**-0.5, True, order_q, order_k)
    q, k, v = (one.detach().requires_grad_() for one in (q, k, v))
    return Inputs(q, k, v, draw(rows_q, heads_q, width_v), call)


def forward(given: Inputs) -> tuple[Tensor, Tensor]:
    """The operator's result and log-sum-exp."""
    q, k, v, _, call = given
    out, lse = torch.ops.shapecheck.varlen_attention(
        q,
        k,
        v,
        call.cu_seqlens_q,
        call.cu_seqlens_k,
        call.max_seqlen_q,
        call.max_seqlen_k,
        call.causal,
        *call.window,
        call.scale,
        call.zero_tail,
        call.order_q,
        call.order_k,
    )
    return out, lse


def run(given: Inputs) -> Results:
    """The operator, forward and backward."""
    out, lse = forward(given)
    dq, dk, dv = torch.autograd.grad(out, (given.q, given.k, given.v), given.grad_out)
    return Results(out.detach(), lse, dq, dk, dv)


def by_definition(given: Inputs) -> Results:
    """In float64, one dense mask for each segment."""
    return _by_segment(given, torch.float64, _dense)


def by_sdpa(given: Inputs) -> Results:
    """PyTorch's own attention in the tensors' dtype, segment by segment: the error that this dtype has anyway."""
    return _by_segment(given, given.q.dtype, _sdpa)


Attend = Callable[[Tensor, Tensor, Tensor, Tensor, float], Tensor]


def _by_segment(given: Inputs, dtype: torch.dtype, attend: Attend) -> Results:
    q, k, v, grad_out, call = given
    order_q, order_k, scale, (left, right) = call.order_q, call.order_k, call.scale, call.window
    boundaries = (pairwise(one.tolist()) for one in (call.cu_seqlens_q, call.cu_seqlens_k))
    out = torch.zeros_like(grad_out, dtype=dtype)
    dq, dk, dv = (torch.zeros_like(one, dtype=dtype) for one in (q, k, v))
    lse = torch.full((q.shape[1], q.shape[0]), -torch.inf, dtype=torch.float64, device=q.device)
    for (start_q, end_q), (start_k, end_k) in zip(*boundaries, strict=True):
        if start_q == end_q or start_k == end_k:
            continue
        rows = torch.arange(start_q, end_q, device=q.device)
        keys = torch.arange(start_k, end_k, device=q.device)
        ahead = (keys - end_k) - (rows - end_q)[:, None]
        if order_q is not None and order_k is not None:
            rows, keys = order_q[rows], order_k[keys]
            ahead = keys - rows[:, None]
        mask = torch.ones_like(ahead, dtype=torch.bool)
        mask &= (ahead <= 0) if call.causal else mask
        mask &= (ahead >= -left) if left >= 0 else mask
        mask &= (ahead <= right) if right >= 0 else mask
        sees = mask.any(1)
        rows, mask = rows[sees], mask[sees]
        share = q.shape[1] // k.shape[1]
        for head in range(k.shape[1]):  # one by one, for the memory: a document of S=32768 has 2 ** 25 scores
            of_q, of_k = slice(head * share, (head + 1) * share), slice(head, head + 1)
            parts = ((q, rows, of_q), (k, keys, of_k), (v, keys, of_k))
            of_head = (one.detach()[at, of].to(dtype).transpose(0, 1).requires_grad_() for one, at, of in parts)
            query, key, value = of_head
            result = attend(query, key, value, mask, scale)
            gradients = torch.autograd.grad(result, (query, key, value), grad_out[rows, of_q].to(dtype).transpose(0, 1))
            out[rows, of_q] = result.detach().transpose(0, 1)
            if dtype == torch.float64:
                lse[of_q, rows] = _scores(query, key, mask, scale).logsumexp(-1).detach()
            for whole, (_, at, of), part in zip((dq, dk, dv), parts, gradients, strict=True):
                whole[at, of] = part.transpose(0, 1)
    return Results(out, lse, dq, dk, dv)


def _scores(q: Tensor, k: Tensor, mask: Tensor, scale: float) -> Tensor:
    k = k.repeat_interleave(q.shape[0] // k.shape[0], 0)
    return (q @ k.mT * scale).masked_fill(~mask, -torch.inf)


def _dense(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float) -> Tensor:
    return _scores(q, k, mask, scale).softmax(-1) @ v.repeat_interleave(q.shape[0] // v.shape[0], 0)


def _sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float) -> Tensor:
    share = q.shape[0] // k.shape[0]
    k, v = k.repeat_interleave(share, 0), v.repeat_interleave(share, 0)
    return scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask, scale=scale)[0]


def _boundaries(lengths: tuple[int, ...], case: Case, device: torch.device) -> Tensor:
    return torch.tensor([*accumulate((*lengths, *(0,) * case.repeats), initial=0)], dtype=case.index, device=device)


def _order(cu_seqlens: Tensor, rows: int, random: torch.Generator) -> Tensor:
    """Rows of the segments anywhere, increasing inside each."""
    order = torch.randperm(rows, generator=random, device=cu_seqlens.device)
    for start, end in pairwise(cu_seqlens.tolist()):
        order[start:end] = order[start:end].sort().values
    return order
