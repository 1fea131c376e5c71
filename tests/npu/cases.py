"""Attention calls on the simulated device, and what they must compute."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

import shapecheck._attention  # noqa: F401  registers the operators

from ..attention.reference import attention, visible

TOLERANCES = {torch.float32: 2e-5, torch.bfloat16: 4e-2, torch.float16: 6e-3}


@dataclass
class Case:
    """Tensors on the CPU and what they are attended with."""

    q: Tensor
    k: Tensor
    v: Tensor
    cu_q: Tensor
    cu_k: Tensor
    causal: bool = False
    window: tuple[int, int] = (-1, -1)
    order_q: Tensor | None = None
    order_k: Tensor | None = None

    @property
    def scale(self) -> float:
        return 0.7 / math.sqrt(self.q.shape[2])

    def run(self, q: Tensor, k: Tensor, v: Tensor, *, zero_tail: bool = True) -> tuple[Tensor, Tensor]:
        longest = [int(one.diff().max()) if len(one) > 1 else 0 for one in (self.cu_q, self.cu_k)]
        orders = () if self.order_q is None else (self.order_q.npu(), self.order_k.npu())
        if self.order_q is self.order_k and orders:
            orders = (orders[0], orders[0])
        return torch.ops.shapecheck.varlen_attention(
            q, k, v, self.cu_q, self.cu_k, *longest, self.causal, *self.window, self.scale, zero_tail, *orders
        )

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        mask = visible(
            len(q),
            len(k),
            self.cu_q,
            self.cu_k,
            causal=self.causal,
            window=self.window,
            order_q=self.order_q,
            order_k=self.order_k,
        )
        return attention(q, k, v, mask, self.scale)

    def check(self) -> None:
        """Forward and backward are the reference's; lengths and boundaries as the case has them."""
        tolerance = TOLERANCES[self.q.dtype]
        exact = [one.double().requires_grad_() for one in (self.q, self.k, self.v)]
        expected, expected_lse = self.reference(*exact)
        seed = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1)).to(self.q.dtype)
        if expected.requires_grad:
            wanted = torch.autograd.grad(expected, exact, seed.double())
        else:  # no keys at all
            wanted = tuple(torch.zeros_like(one) for one in exact)

        there = [one.npu().requires_grad_() for one in (self.q, self.k, self.v)]
        out, lse = self.run(*there)
        assert out.shape == expected.shape
        assert (out.dtype, lse.dtype) == (self.q.dtype, torch.float32)
        assert not lse.requires_grad
        close(out, expected, tolerance)
        close(lse, expected_lse, tolerance)
        for got, want, of in zip(torch.autograd.grad(out, there, seed.npu()), wanted, there, strict=True):
            assert (got.shape, got.dtype) == (of.shape, of.dtype)
            close(got, want, 4 * tolerance)


def close(got: Tensor, want: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(got.detach().cpu().double(), want.detach().double(), rtol=tolerance, atol=tolerance)


def bounds(lengths: list[int], start: int = 0, dtype: torch.dtype = torch.int32) -> Tensor:
    return torch.tensor([start, *lengths]).cumsum(0).to(dtype)


def tensors(
    rows_q: int, rows_k: int, heads: tuple[int, int], dims: tuple[int, int], dtype: torch.dtype
) -> list[Tensor]:
    random = torch.Generator().manual_seed(rows_q * 31 + rows_k)
    shapes = ((rows_q, heads[0], dims[0]), (rows_k, heads[1], dims[0]), (rows_k, heads[1], dims[1]))
    return [torch.randn(shape, generator=random).to(dtype) for shape in shapes]


def packed(lengths: list[int], *, heads=(2, 2), dims=(16, 16), dtype=torch.float32, **rest) -> Case:
    """Self attention."""
    cu = bounds(lengths)
    return Case(*tensors(sum(lengths), sum(lengths), heads, dims, dtype), cu, cu, **rest)
