"""Calls of the operator: hypothesis strategies over layouts, and the tensors that go with one."""

import math
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from hypothesis import strategies as st
from torch import Tensor

import shapecheck._attention  # noqa: F401  registers the operator

from .reference import attention, visible

OPERATOR = torch.ops.shapecheck.varlen_attention


def boundaries(lengths: list[int], dtype: torch.dtype = torch.int32, start: int = 0) -> Tensor:
    """`[start, start + first length, ...]`."""
    return torch.tensor(list(accumulate(lengths, initial=start)), dtype=dtype)


def order(cu_seqlens: Tensor, rows: int, seed: int) -> Tensor:
    """A random order: rows of the segments anywhere, increasing inside each."""
    placed = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    for start, end in pairwise(cu_seqlens.tolist()):
        placed[start:end] = placed[start:end].sort().values
    return placed


@dataclass(frozen=True)
class Layout:
    """One call but its tensors."""

    cu_seqlens_q: Tensor
    cu_seqlens_k: Tensor
    rows_q: int
    rows_k: int
    causal: bool = False
    window: tuple[int, int] = (-1, -1)
    order_q: Tensor | None = None
    order_k: Tensor | None = None
    heads_q: int = 2
    heads_k: int = 2
    width: int = 8
    width_v: int = 8
    scale: float = 0.3

    @classmethod
    def of(cls, lengths_q: list[int], lengths_k: list[int] | None = None, **rest: object) -> "Layout":
        """Segments of these lengths, which fill the tensors."""
        cu_seqlens_q, cu_seqlens_k = (boundaries(one) for one in (lengths_q, lengths_k or lengths_q))
        return cls(cu_seqlens_q, cu_seqlens_k, sum(lengths_q), sum(lengths_k or lengths_q), **rest)

    def tensors(self, dtype: torch.dtype = torch.float64, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v from N(0, 1), leaves that require gradients."""
        random = torch.Generator().manual_seed(seed)
        shapes = (
            (self.rows_q, self.heads_q, self.width),
            (self.rows_k, self.heads_k, self.width),
            (self.rows_k, self.heads_k, self.width_v),
        )
        return tuple(torch.randn(shape, generator=random).to(dtype).requires_grad_() for shape in shapes)

    @property
    def rest(self) -> tuple[object, ...]:
        """The operator's arguments behind v."""
        longest_q, longest_k = (
            int(one.diff().max()) if len(one) > 1 else 0 for one in (self.cu_seqlens_q, self.cu_seqlens_k)
        )
        numbers = (longest_q, longest_k, self.causal, *self.window, self.scale, True)
        return self.cu_seqlens_q, self.cu_seqlens_k, *numbers, self.order_q, self.order_k

    def run(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """The operator's result and log-sum-exp."""
        return OPERATOR(q, k, v, *self.rest)

    def mask(self) -> Tensor:
        """Which query row sees which key row, by the definition."""
        return visible(
            self.rows_q,
            self.rows_k,
            self.cu_seqlens_q,
            self.cu_seqlens_k,
            causal=self.causal,
            window=self.window,
            order_q=self.order_q,
            order_k=self.order_k,
        )

    def expect(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Result and log-sum-exp by the definition, in float64."""
        return attention(q, k, v, self.mask(), self.scale)


_lengths = st.one_of(
    st.lists(st.sampled_from([0, 1, 2, 3, 5, 8, 16, 17, 32, 33, 40]), max_size=8),
    st.lists(st.integers(0, 4), min_size=8, max_size=80),  # very many tiny ones
    st.builds(lambda length, count: [length] * count, st.integers(1, 40), st.integers(1, 12)),
    st.builds(lambda a, b, count: [a, b] * count, st.integers(1, 50), st.integers(33, 50), st.integers(1, 3)),
    st.builds(lambda count: [1] * count, st.integers(1, 150)),
    st.builds(lambda huge: [2, huge, 0, 3], st.integers(100, 200)),
)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Any call that the operator takes."""
    lengths_q = draw(_lengths)
    kind = draw(st.sampled_from(["same", "same", "near", "any"]))
    if kind == "same":
        lengths_k = lengths_q
    elif kind == "near":
        lengths_k = [max(0, length + (7 * i) % 11 - 4) for i, length in enumerate(lengths_q)]
    else:
        lengths_k = [(0, 1, 40, 4)[i % 4] for i in range(len(lengths_q))]
    padding = [0] * draw(st.sampled_from([0, 0, 100]))
    dtype = draw(st.sampled_from([torch.int32, torch.int64]))
    cu_seqlens_q = boundaries([*lengths_q, *padding], dtype, start=draw(st.sampled_from([0, 0, 2])))
    cu_seqlens_k = boundaries([*lengths_k, *padding], dtype, start=draw(st.sampled_from([0, 0, 1])))
    rows_q = int(cu_seqlens_q[-1]) + draw(st.sampled_from([0, 0, 5]))
    rows_k = int(cu_seqlens_k[-1]) + draw(st.sampled_from([0, 0, 3]))
    orders: tuple[Tensor, Tensor] | tuple[None, None] = (None, None)
    how = draw(st.sampled_from(["none", "none", "none", "any", "identity", "equal"]))
    seed = draw(st.integers(0, 100))
    if how == "any":
        orders = order(cu_seqlens_q, rows_q, seed), order(cu_seqlens_k, rows_k, seed + 1)
    elif how == "identity":
        orders = torch.arange(rows_q), torch.arange(rows_k)
    elif how == "equal":
        cu_seqlens_k, rows_k = cu_seqlens_q, rows_q
        orders = (order(cu_seqlens_q, rows_q, seed),) * 2
    heads_k, width = draw(st.integers(1, 2)), draw(st.sampled_from([1, 4, 8]))
    return Layout(
        cu_seqlens_q,
        cu_seqlens_k,
        rows_q,
        rows_k,
        causal=draw(st.booleans()),
        window=draw(st.sampled_from([(-1, -1), (-1, -1), (-1, -1), (3, -1), (0, 0), (7, 2), (-1, 4), (70, 0)])),
        order_q=orders[0],
        order_k=orders[1],
        heads_q=heads_k * draw(st.sampled_from([1, 1, 2, 3])),
        heads_k=heads_k,
        width=width,
        width_v=draw(st.sampled_from([width, width, 3, 12])),
        scale=draw(st.sampled_from([0.3, 1 / math.sqrt(width)])),
    )
