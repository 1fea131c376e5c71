"""What is measured: packed batches, and the module with the dense mask that a user would write."""

import random
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

Lengths = Literal["skewed", "equal"]


def lengths_of(rows: int, documents: int, kind: Lengths) -> list[int]:
    """Lengths of `documents` documents, at least 1 each, `rows` in all.

    "skewed": in proportion to 1, 2, 3, ..., shuffled; 16 of 4,096 rows have a sum of squares of 0.081 times 4,096
    squared, and padded to the longest they are 1.9 times as many rows. "equal": as equal as they can be.
    """
    weights = range(1, documents + 1) if kind == "skewed" else [1] * documents
    total, spare = sum(weights), rows - documents
    lengths = [1 + spare * weight // total for weight in weights]
    for i in range(rows - sum(lengths)):
        lengths[-1 - i] += 1
    if kind == "skewed":
        random.Random(0).shuffle(lengths)
    return lengths


@dataclass(frozen=True)
class Case:
    """One batch and how it attends.

    Attributes:
        rows: tokens in all.
        documents: their number.
        lengths: how long they are.
        dtype: of queries, keys and values.
        causal: whether a token sees those before it only.
        train: whether the backward pass is measured too.
        heads: number of heads, of queries as of keys.
        width: head dim.
    """

    rows: int
    documents: int
    lengths: Lengths = "skewed"
    dtype: torch.dtype = torch.float32
    causal: bool = False
    train: bool = False
    heads: int = 8
    width: int = 64

    def __str__(self) -> str:
        words = [
            f"S={self.rows}",
            f"{self.documents} {self.lengths}",
            str(self.dtype).removeprefix("torch."),
            "causal" if self.causal else "full",
            "forward+backward" if self.train else "forward",
        ]
        return ", ".join(words) + (f", H={self.heads}" if self.heads != 8 else "")


@dataclass(frozen=True)
class Batch:
    """The tensors of a case.

    Attributes:
        case: the case.
        lengths: of the documents.
        cu_seqlens: `[B+1]` int64.
        q: `[S, H, D]`, as the projections of a packed model leave them; k and v likewise. Leaves that want a gradient
            where the case trains.
        grad: `[S, H, D]`, the gradient of the result.
    """

    case: Case
    lengths: list[int]
    cu_seqlens: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    grad: Tensor

    @classmethod
    def of(cls, case: Case, seed: int = 0) -> "Batch":
        """Normally distributed values."""
        generator = torch.Generator().manual_seed(seed)
        shape = (case.rows, case.heads, case.width)
        q, k, v, grad = (torch.randn(shape, generator=generator).to(case.dtype) for _ in range(4))
        if case.train:
            for leaf in (q, k, v):
                leaf.requires_grad_()
        lengths = lengths_of(case.rows, case.documents, case.lengths)
        return cls(case, lengths, torch.tensor([0, *accumulate(lengths)]), q, k, v, grad)


class Masked(nn.Module):
    """Packed attention as it is usually written: a dense mask of equal segment numbers."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor) -> Tensor:
        """q, k and v `[S, H, D]`, cu_seqlens `[B+1]` -> `[S, H, D]`."""
        rows = torch.arange(q.shape[0], device=q.device)
        segment = torch.searchsorted(cu_seqlens[1:], rows, right=True)
        mask = segment[:, None] == segment
        if self.causal:
            mask = mask & (rows <= rows[:, None])
        q, k, v = (one.transpose(0, 1)[None] for one in (q, k, v))
        return scaled_dot_product_attention(q, k, v, attn_mask=mask)[0].transpose(0, 1)


class Padded(nn.Module):
    """The same attention of a padded batch."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
        """q, k and v `[B, H, L, D]`, lengths `[B]` -> `[B, H, L, D]`."""
        places = torch.arange(q.shape[2], device=q.device)
        mask = (places < lengths[:, None])[:, None, None]  # [B, 1, 1, L]
        if self.causal:
            mask = mask & (places <= places[:, None])
        return scaled_dot_product_attention(q, k, v, attn_mask=mask)


class Model(nn.Module):
    """A small packed transformer, whose layers share one dense mask."""

    def __init__(self, layers: int, heads: int = 4, width: int = 32) -> None:
        super().__init__()
        size = heads * width
        self.heads = heads
        self.qkv = nn.ModuleList(nn.Linear(size, 3 * size) for _ in range(layers))
        self.project = nn.ModuleList(nn.Linear(size, size) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(2 * layers))
        self.up = nn.ModuleList(nn.Linear(size, 4 * size) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(4 * size, size) for _ in range(layers))

    def forward(self, x: Tensor, cu_seqlens: Tensor) -> Tensor:
        """x `[S, heads * width]`, cu_seqlens `[B+1]` -> as x."""
        rows = torch.arange(x.shape[0], device=x.device)
        segment = torch.searchsorted(cu_seqlens[1:], rows, right=True)
        mask = segment[:, None] == segment
        for i, (qkv, project, up, down) in enumerate(zip(self.qkv, self.project, self.up, self.down, strict=True)):
            q, k, v = qkv(self.norms[2 * i](x)).view(x.shape[0], 3, self.heads, -1).permute(1, 2, 0, 3)[:, None]
            attended = scaled_dot_product_attention(q, k, v, attn_mask=mask)[0].transpose(0, 1).flatten(1)
            x = x + project(attended)
            x = x + down(gelu(up(self.norms[2 * i + 1](x))))
        return x
