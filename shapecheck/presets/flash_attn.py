"""FlashAttention's `flash_attn_varlen_func`: FlashAttention 2, 3 and 4, and the forks that keep its argument names.

Rows beyond the last boundary are left alone, segments may be empty on either side. What the functions look at
themselves (head counts, head sizes, one dtype) is left to them.

Source: flash-attn 2.8 and 3 (`cu_seqlens_*` int32, contiguous), flash-attn 4's and vLLM's interfaces.
"""

from typing import Annotated, Any

from jaxtyping import Float, Int, Int32
from torch import Tensor

from shapecheck._contract import preset
from shapecheck._invariants import AtLeastLongest, PrefixSum, SameDevice


@preset
def flash_attn_varlen_func(
    q: Float[Tensor, "Tq _ D"],
    k: Annotated[Float[Tensor, "Tk Hk D"], SameDevice("q")],
    v: Annotated[Float[Tensor, "Tk Hk _"], SameDevice("q")],
    cu_seqlens_q: Annotated[Int32[Tensor, "B+1"], PrefixSum(end="Tq", tail="allow"), SameDevice("q")],
    cu_seqlens_k: Annotated[Int32[Tensor, "B+1"], PrefixSum(end="Tk", tail="allow"), SameDevice("q")],
    max_seqlen_q: Annotated[int | Int[Tensor, ""], AtLeastLongest("cu_seqlens_q")],
    max_seqlen_k: Annotated[int | Int[Tensor, ""], AtLeastLongest("cu_seqlens_k")],
) -> Any:
    """Packed queries `[Tq, heads, D]` and keys `[Tk, heads, D]`, without `block_table` and `seqused_*`."""
    raise NotImplementedError


@preset
def flash_attn_varlen_func_paged(
    q: Float[Tensor, "Tq _ D"],
    k: Annotated[Float[Tensor, "... Hk D"], SameDevice("q")],
    v: Annotated[Float[Tensor, "... Hk _"], SameDevice("q")],
    cu_seqlens_q: Annotated[Int32[Tensor, "B+1"], PrefixSum(end="Tq", tail="allow"), SameDevice("q")],
    max_seqlen_q: int | Int[Tensor, ""],
    max_seqlen_k: int | Int[Tensor, ""],
    cu_seqlens_k: Annotated[Int32[Tensor, "B+1"], PrefixSum(), SameDevice("q")] | None = None,
    seqused_q: Annotated[Int32[Tensor, "B"], SameDevice("q")] | None = None,
    seqused_k: Annotated[Int32[Tensor, "B"], SameDevice("q")] | None = None,
    block_table: Annotated[Int32[Tensor, "B _"], SameDevice("q")] | None = None,
    page_table: Annotated[Int32[Tensor, "B _"], SameDevice("q")] | None = None,
) -> Any:
    """The same with keys in pages, or with `seqused_*`: lengths shorter than the segments, so that neither the rows
    of the keys nor the longest segment say what the maxima have to be."""
    raise NotImplementedError
