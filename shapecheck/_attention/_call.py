"""What the attention operators hand to a device's kernel."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of one `shapecheck::varlen_attention` but q, k and v.

    Attributes:
        cu_seqlens_q: `[B+1]` int32 or int64, boundaries of the query segments in packed rows. May repeat (empty
            segments) and may end before the last row. On q's device, or on the host.
        cu_seqlens_k: `[B+1]`, likewise for keys: query segment `i` attends key segment `i`.
        max_seqlen_q: rows of the longest query segment, or more.
        max_seqlen_k: rows of the longest key segment, or more.
        causal: a query sees no key behind its own position.
        window: `(left, right)`: how many rows before and behind its own position a query sees; -1: no limit.
        scale: factor of the scores before the softmax.
        zero_tail: query rows of no segment are zeros in the result; else they are undefined.
        order_q: `[Tq]` int64 or None: packed row `r` of the queries is row `order_q[r]` of q, and of the result. Inside
            a segment strictly increasing. With orders, `causal` and `window` compare the rows of q and k; without,
            positions inside the segment aligned at its end: query `a` of `nq` stands at key `a + nk - nq` of `nk`.
        order_k: `[Tk]`, likewise for keys. Given exactly where `order_q` is.
    """

    cu_seqlens_q: Tensor
    cu_seqlens_k: Tensor
    max_seqlen_q: int
    max_seqlen_k: int
    causal: bool
    window: tuple[int, int]
    scale: float
    zero_tail: bool
    order_q: Tensor | None = None
    order_k: Tensor | None = None


class Kernel(Protocol):
    """One device's implementation.

    Query rows without a key to see give zeros, a log-sum-exp of -inf, and no gradient.
    """

    name: str
    """As reports show it."""

    def refuses(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> str | None:
        """Why this kernel cannot take the call, or None. Reads no values: it is asked with fake tensors too."""
        ...

    def forward(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> tuple[Tensor, Tensor]:
        """The result `[Tq, Hq, Dv]` in q's dtype, and the scores' log-sum-exp `[Hq, Tq]`; both contiguous.

        Args:
            q: `[Tq, Hq, D]`.
            k: `[Tk, Hk, D]`, `Hq` a multiple of `Hk`.
            v: `[Tk, Hk, Dv]`. All three with any strides.
            call: the rest.
        """
        ...

    def backward(
        self, grad_out: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, call: Call
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of q, k and v, contiguous, shaped and typed like them."""
        ...
