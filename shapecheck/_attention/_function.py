"""`shapecheck.varlen_attention`: the operator with its contract."""

from itertools import pairwise
from typing import Annotated, Any, Literal, overload

import torch
from jaxtyping import Float, Int
from torch import Tensor

import shapecheck._attention._op  # noqa: F401  registers the operator
from shapecheck._contract import contract
from shapecheck._contract._values import host_readable
from shapecheck._errors import ContractError
from shapecheck._invariants import PrefixSum, SameBatch
from shapecheck._levels import Level, resolve_level

_CHECKS_LONGEST = resolve_level(None) >= Level.HOST


@overload
def varlen_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    *,
    causal: bool = ...,
    window: tuple[int, int] = ...,
    scale: float | None = ...,
    return_lse: Literal[False] = ...,
    tail: Literal["zero", "undefined"] = ...,
) -> Tensor: ...
@overload
def varlen_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    *,
    causal: bool = ...,
    window: tuple[int, int] = ...,
    scale: float | None = ...,
    return_lse: Literal[True],
    tail: Literal["zero", "undefined"] = ...,
) -> tuple[Tensor, Tensor]: ...
@contract
def varlen_attention(
    q: Float[Tensor, "Tq Hq D"],
    k: Float[Tensor, "Tk Hk D"],
    v: Float[Tensor, "Tk Hk Dv"],
    cu_seqlens_q: Annotated[Int[Tensor, "B+1"], PrefixSum(end="Tq", tail="allow")],
    cu_seqlens_k: Annotated[Int[Tensor, "_"], PrefixSum(end="Tk", tail="allow"), SameBatch("cu_seqlens_q")],
    max_seqlen_q: int,
    max_seqlen_k: int,
    *,
    causal: bool = False,
    window: tuple[int, int] = (-1, -1),
    scale: float | None = None,
    return_lse: bool = False,
    tail: Literal["zero", "undefined"] = "zero",
) -> Any:
    """Attention of packed sequences: each query sees the keys of its own sequence only.

    Differentiable once in q, k and v; on CPU, CUDA and (simulated so far) Ascend NPU; eager, or compiled without graph
    breaks. Segments may be empty, also on one side only. Under autocast it computes in autocast's dtype.

    Args:
        q: queries `[Tq, Hq, D]`, the sequences one behind the other.
        k: keys `[Tk, Hk, D]`; `Hq` is a multiple of `Hk` (grouped-query attention).
        v: values `[Tk, Hk, Dv]`, of q's dtype as k.
        cu_seqlens_q: boundaries `[B+1]` of the query sequences, int32 or int64: 0, then the running sum of the lengths.
        cu_seqlens_k: `[B+1]`, likewise for keys: query sequence `i` attends key sequence `i`.
        max_seqlen_q: rows of the longest query sequence. More is right, and may cost time on accelerators.
        max_seqlen_k: rows of the longest key sequence, likewise.
        causal: query `a` of `nq` sees key `b` of `nk` only where `b <= a + nk - nq`, as in flash-attn.
        window: `(left, right)`: query `a` sees key `b` only where `-left <= b - (a + nk - nq) <= right`; -1: no limit.
        scale: factor of the scores before the softmax; None: `1 / sqrt(D)`.
        return_lse: also return the log-sum-exp of each query's scores, which is not differentiable.
        tail: what the rows of the result behind the last sequence hold: `"zero"`, or anything (`"undefined"`).

    Returns `[Tq, Hq, Dv]` in q's dtype; with `return_lse` and `[Hq, Tq]` in float32 (float64 for float64). A query that
    sees no key gives zeros, and a log-sum-exp of -inf.

    Raises ContractError where arguments do not fit together, at the level of contracts (`shapecheck.contract`) set in
    the environment; NotImplementedError where the device has no kernel for the call, and under `torch.vmap`.
    """
    if _CHECKS_LONGEST and not torch.compiler.is_compiling():
        _check_longest("max_seqlen_q", max_seqlen_q, cu_seqlens_q)
        _check_longest("max_seqlen_k", max_seqlen_k, cu_seqlens_k)
    out, lse = torch.ops.shapecheck.varlen_attention(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal, *window, scale, tail == "zero"
    )
    return (out, lse) if return_lse else out


def _check_longest(name: str, longest: int, boundaries: Tensor) -> None:
    if not host_readable(boundaries, sync=False):
        return
    actual = max(end - start for start, end in pairwise(boundaries.tolist()))
    if longest < actual:
        other = name.replace("max_seqlen", "cu_seqlens")
        fix = "compute it from the same lengths as the boundaries: max(lengths)"
        raise ContractError(
            f"varlen_attention: {name} is {longest}, expected at least {actual}, the longest sequence of {other}"
            f"\n  kernels would leave rows of longer sequences out\n  fix: {fix}",
            argument=name,
            expected=f"at least {actual}",
            actual=longest,
            bound_by=other,
            hint=fix,
        )
