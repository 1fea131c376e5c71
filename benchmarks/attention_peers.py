"""The ways to attend packed documents that are measured beside each other.

Each takes the batch in the layout that suits it, prepared before the clock starts: padded batches are padded, nested
tensors built, FlexAttention's block masks made. What a program computes anew from the boundaries in every call, such as
a dense mask, is measured.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.utils.rnn import pad_sequence

from benchmarks.attention_cases import Batch, Masked, Padded


@dataclass(frozen=True)
class Attend:
    """One way, ready to run on one batch.

    Attributes:
        forward: computes the result in its own layout.
        leaves: q, k and v in that layout.
        grad: gradient of the result, in the result's layout.
        packed: brings a result, or the gradient of a leaf, to `[S, H, D]`.
    """

    forward: Callable[[], Tensor]
    leaves: tuple[Tensor, ...]
    grad: Tensor
    packed: Callable[[Tensor], Tensor]

    def backward(self) -> tuple[Tensor, ...]:
        """Forward and backward: the gradients of the leaves."""
        return torch.autograd.grad(self.forward(), self.leaves, self.grad)


Way = Callable[[Batch], Attend]

_BLOCK = 128  # rows and keys of a block of FlexAttention


class UnavailableError(Exception):
    """What a way cannot do."""


@functools.cache
def _compiled(module: type[Masked] | type[Padded], causal: bool, backend: str, dynamic: bool) -> Callable[..., Tensor]:
    return torch.compile(module(causal), backend=backend, dynamic=dynamic)


def forget() -> None:
    """Drop all that is compiled."""
    _compiled.cache_clear()
    torch._dynamo.reset()


def lowered(batch: Batch, dynamic: bool = False) -> Attend:
    """The module with the dense mask, compiled by this backend."""
    return _masked(batch, "shapecheck", dynamic)


def stock(batch: Batch, dynamic: bool = False) -> Attend:
    """The same module, compiled by Inductor."""
    return _masked(batch, "inductor", dynamic)


def _masked(batch: Batch, backend: str, dynamic: bool) -> Attend:
    module = _compiled(Masked, batch.case.causal, backend, dynamic)
    leaves = (batch.q, batch.k, batch.v)
    return Attend(lambda: module(*leaves, batch.cu_seqlens), leaves, batch.grad, _as_it_is)


def loop(batch: Batch) -> Attend:
    """A hand-written loop over the documents, whose results are concatenated."""
    leaves = (batch.q, batch.k, batch.v)

    def forward() -> Tensor:
        documents = zip(*(torch.split(one, batch.lengths) for one in leaves), strict=True)
        return torch.cat([_attended(q, k, v, batch.case.causal) for q, k, v in documents])

    return Attend(forward, leaves, batch.grad, _as_it_is)


def loop_in_place(batch: Batch) -> Attend:
    """The loop, whose results are written into one tensor: forward only."""
    if batch.case.train:
        raise UnavailableError("autograd copies the whole result for each document that is written into it")
    leaves = (batch.q, batch.k, batch.v)

    def forward() -> Tensor:
        out = torch.empty_like(batch.q)
        documents = zip(*(torch.split(one, batch.lengths) for one in (out, *leaves)), strict=True)
        for here, q, k, v in documents:
            here.copy_(_attended(q, k, v, batch.case.causal))
        return out

    return Attend(forward, leaves, batch.grad, _as_it_is)


def _attended(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    q, k, v = (one.transpose(0, 1)[None] for one in (q, k, v))
    return scaled_dot_product_attention(q, k, v, is_causal=causal)[0].transpose(0, 1)


def padded(batch: Batch, dynamic: bool = False) -> Attend:
    """A batch padded to its longest document, with a mask, compiled by Inductor."""
    leaves = tuple(_leaf(_pad(one, batch), batch) for one in (batch.q, batch.k, batch.v))
    module = _compiled(Padded, batch.case.causal, "inductor", dynamic)
    lengths = torch.tensor(batch.lengths)
    valid = torch.arange(max(batch.lengths)) < lengths[:, None]
    return Attend(
        lambda: module(*leaves, lengths),
        leaves,
        _pad(batch.grad, batch),
        lambda out: out.transpose(1, 2)[valid],
    )


def _pad(packed: Tensor, batch: Batch) -> Tensor:
    documents = torch.split(packed.detach(), batch.lengths)
    return pad_sequence(list(documents), batch_first=True).transpose(1, 2).contiguous()


def nested(batch: Batch) -> Attend:
    """Nested tensors of jagged layout."""
    if batch.case.causal:
        raise UnavailableError("causal nested tensors need a fused kernel, and the CPU has none")
    leaves = (batch.q, batch.k, batch.v)
    longest, shortest = max(batch.lengths), min(batch.lengths)

    def forward() -> Tensor:
        q, k, v = (
            torch.nested.nested_tensor_from_jagged(
                one, batch.cu_seqlens, min_seqlen=shortest, max_seqlen=longest
            ).transpose(1, 2)
            for one in leaves
        )
        out = scaled_dot_product_attention(q, k, v, is_causal=batch.case.causal)
        values: Tensor = out.transpose(1, 2).contiguous().values()
        return values

    return Attend(forward, leaves, batch.grad, _as_it_is)


def flex(batch: Batch) -> Attend:
    """FlexAttention, compiled, its block mask made before: forward only."""
    if batch.case.train:
        raise UnavailableError("FlexAttention has no backward on the CPU")
    numbers = torch.repeat_interleave(torch.tensor(batch.lengths))
    segment, visible = _visible(batch.case.rows, batch.case.causal)
    mask = _block_mask(numbers, batch.case.causal, visible)
    leaves = tuple(one.detach().transpose(0, 1)[None] for one in (batch.q, batch.k, batch.v))

    def forward() -> Tensor:
        segment.copy_(numbers)
        q, k, v = leaves
        out: Any = torch.compile(flex_attention, dynamic=False)(q, k, v, block_mask=mask)
        return out  # type: ignore[no-any-return]

    return Attend(forward, leaves, batch.grad, lambda out: out[0].transpose(0, 1))


# One closure for each shape, over a tensor that each batch fills anew: another closure would be compiled anew.
@functools.cache
def _visible(rows: int, causal: bool) -> tuple[Tensor, Callable[..., Tensor]]:
    segment = torch.zeros(rows, dtype=torch.int64)

    def visible(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        same = segment[q] == segment[k]
        return same & (k <= q) if causal else same

    return segment, visible


def _block_mask(segment: Tensor, causal: bool, visible: Callable[..., Tensor]) -> BlockMask:
    """What `create_block_mask` makes, which takes seconds in eager mode and half a minute to compile."""
    blocks = segment.view(-1, _BLOCK)
    first, last = blocks[:, 0], blocks[:, -1]
    some = (first[:, None] <= last) & (first <= last[:, None])
    every = (first == last)[:, None] & (first == last) & (first[:, None] == first)
    if causal:
        some, every = some.tril(), every.tril(-1)
    return BlockMask.from_kv_blocks(*_ordered(some & ~every), *_ordered(every), BLOCK_SIZE=_BLOCK, mask_mod=visible)


def _ordered(blocks: Tensor) -> tuple[Tensor, Tensor]:
    order = blocks.int().argsort(dim=1, descending=True, stable=True)
    return blocks.sum(1).int()[None, None], order.int()[None, None]


def _leaf(tensor: Tensor, batch: Batch) -> Tensor:
    return tensor.requires_grad_(batch.case.train)


def _as_it_is(packed: Tensor) -> Tensor:
    return packed
