"""`Attention`: a query layout and a key layout, and the arguments that attention functions take for them."""

from collections.abc import Sequence
from dataclasses import FrozenInstanceError
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

from shapecheck._layout._fail import fail
from shapecheck._layout.consumers.ascend import npu_fusion_attention
from shapecheck._layout.consumers.fla import fla
from shapecheck._layout.consumers.flash_attn import flash_attn
from shapecheck._layout.consumers.thd import thd
from shapecheck._layout.consumers.torch_varlen import varlen_attn
from shapecheck._layout.consumers.transformers import transformers
from shapecheck._layout.consumers.vllm import vllm
from shapecheck._layout.consumers.xformers import xformers

if TYPE_CHECKING:
    from shapecheck._layout._layout import PackedLayout


class Attention:
    """Queries of one packed layout attending keys of another, segment by segment. Made by `PackedLayout.attend`.

    Immutable. Every tensor is the layouts' own or is built here once, without a synchronisation; each method returns
    a new dictionary of the same objects. Build it outside compiled regions and pass it in.
    """

    q: "PackedLayout"
    k: "PackedLayout"
    cu_seqlens_q: Tensor
    cu_seqlens_k: Tensor
    max_seqlen_q: int
    max_seqlen_k: int
    segments: int
    rows_q: int
    segment_lengths_q: tuple[int, ...]
    segment_lengths_k: tuple[int, ...]
    ends_q: tuple[int, ...]
    ends_k: tuple[int, ...]
    same_boundaries: bool
    seq_lens_k: Tensor
    cu_seqlens_q_cpu: Tensor
    cu_seqlens_int64: Tensor
    cu_seqlens_int64_cpu: Tensor

    flash_attn = flash_attn
    varlen_attn = varlen_attn
    transformers = transformers
    thd = thd
    fla = fla
    vllm = vllm
    npu_fusion_attention = npu_fusion_attention
    xformers = xformers

    def __init__(self, q: "PackedLayout", k: "PackedLayout") -> None:
        """Pairs two layouts.

        Raises:
            LayoutError: other numbers of segments, other devices, or a call inside a compiled region.
        """
        if torch.compiler.is_compiling():
            fail(
                "attend: an Attention is built inside a compiled region\n"
                "  fix: build it before the call and pass it as an argument"
            )
        host_q, host_k = q.cu_seqlens_host, k.cu_seqlens_host
        if len(host_q) != len(host_k):
            fail(
                f"attend: the queries have {len(host_q) - 1} segments, the keys {len(host_k) - 1}\n"
                f"  queries: {q!r}\n  keys: {k!r}\n"
                "  fix: one key segment per query segment; pack both with the same padding="
            )
        if q.device != k.device:
            fail(
                f"attend: the queries are on {q.device} and the keys on {k.device}\n"
                "  fix: move both layouts to one device with .to"
            )
        fake = isinstance(q.cu_seqlens, FakeTensor) or isinstance(k.cu_seqlens, FakeTensor)
        derived = _derive(q, k) if fake else _derive_real(q, k)
        self.__dict__.update(
            q=q,
            k=k,
            cu_seqlens_q=q.cu_seqlens,
            cu_seqlens_k=k.cu_seqlens,
            max_seqlen_q=q.max_seqlen,
            max_seqlen_k=k.max_seqlen,
            segments=len(host_q) - 1,
            rows_q=host_q[-1],
            segment_lengths_q=_lengths(host_q),
            segment_lengths_k=_lengths(host_k),
            ends_q=host_q[1:],
            ends_k=host_k[1:],
            same_boundaries=host_q == host_k,
            **derived,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"an Attention is immutable, {name!r} cannot be assigned")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"an Attention is immutable, {name!r} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return Attention, (self.q, self.k)

    def __repr__(self) -> str:
        return f"Attention(q={self.q!r}, k={self.k!r})"


def attend(q: "PackedLayout", k: "PackedLayout | None", k_lengths: Sequence[int] | None) -> Attention:
    """`q` attending `k`, or keys of `k_lengths` rows per sample, or itself. See `PackedLayout.attend`."""
    if k is not None and k_lengths is not None:
        fail("attend: k and k_lengths are both given\n  fix: pass one of them")
    if k_lengths is None:
        return Attention(q, q if k is None else k)
    padded = len(q.cu_seqlens_host) - 1 > len(q.lengths)
    keys = type(q).from_lengths(k_lengths, padding="segment" if padded else "none")
    return Attention(q, keys.to(q.device))


def _lengths(boundaries: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(stop - start for start, stop in pairwise(boundaries))


def _derive(q: "PackedLayout", k: "PackedLayout") -> dict[str, Tensor]:
    return {
        "seq_lens_k": k.cu_seqlens.diff(),
        "cu_seqlens_q_cpu": torch.tensor(q.cu_seqlens_host, dtype=torch.int32, device="cpu"),
        "cu_seqlens_int64": q.cu_seqlens.long(),
        "cu_seqlens_int64_cpu": torch.tensor(q.cu_seqlens_host, dtype=torch.int64, device="cpu"),
    }


def _derive_real(q: "PackedLayout", k: "PackedLayout") -> dict[str, Tensor]:
    # Real layouts keep real tensors, and tensors that autograd may save, whatever mode the caller is in.
    with unset_fake_temporarily(), torch.inference_mode(False):
        return _derive(q, k)
