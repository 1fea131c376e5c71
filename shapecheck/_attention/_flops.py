"""FLOP formulas for `torch.utils.flop_counter.FlopCounterMode`.

As PyTorch counts its own attention: matrix products only, masked scores inside a segment included, so that causal
attention counts as much as full attention.
"""

from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils.flop_counter import register_flop_formula


def register_flops() -> None:
    """Register the formulas of both operators."""
    register = register_flop_formula(torch.ops.shapecheck.varlen_attention, get_raw=True)
    register(_forward)
    register = register_flop_formula(torch.ops.shapecheck.varlen_attention_backward, get_raw=True)
    register(_backward)


def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    *rest: Any,
    **named: Any,
) -> int:
    scores = q.shape[1] * _pairs(cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    return 2 * scores * (q.shape[2] + v.shape[2])


def _backward(
    grad_out: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, *rest: Any, **named: Any
) -> int:
    scores = q.shape[1] * _pairs(*rest[:4])
    # The scores again, and the gradients of q and k; those of the weights and of v.
    return 2 * scores * (3 * q.shape[2] + 2 * v.shape[2])


def _pairs(cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, max_seqlen_q: int, max_seqlen_k: int) -> int:
    """Pairs of a query and a key of one segment; at most, where the boundaries' values are not known."""
    for boundaries in (cu_seqlens_q, cu_seqlens_k):
        if isinstance(boundaries, (FakeTensor, FunctionalTensor)) or boundaries.is_meta:
            return (boundaries.shape[0] - 1) * max_seqlen_q * max_seqlen_k
    lengths_q, lengths_k = (one.long().diff().cpu() for one in (cu_seqlens_q, cu_seqlens_k))
    return int((lengths_q * lengths_k).sum())
