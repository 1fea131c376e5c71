"""`torch.nn.attention.varlen.varlen_attn`. It checks nothing of its boundaries itself.

Source: signature of torch 2.13, torch/nn/attention/varlen.py.
"""

from typing import Annotated, Any

from jaxtyping import Float, Int, Int32
from torch import Tensor

from shapecheck._contract import preset
from shapecheck._invariants import AtLeastLongest, PrefixSum, SameDevice


@preset
def varlen_attn(
    query: Float[Tensor, "Tq _ D"],
    key: Annotated[Float[Tensor, "Tk Hk D"], SameDevice("query")],
    value: Annotated[Float[Tensor, "Tk Hk D"], SameDevice("query")],
    cu_seq_q: Annotated[Int32[Tensor, "B+1"], PrefixSum(end="Tq", tail="allow"), SameDevice("query")],
    cu_seq_k: Annotated[Int32[Tensor, "B+1"], PrefixSum(end="Tk", tail="allow"), SameDevice("query")],
    max_q: Annotated[int | Int[Tensor, ""], AtLeastLongest("cu_seq_q")],
    max_k: Annotated[int | Int[Tensor, ""], AtLeastLongest("cu_seq_k")],
) -> Any:
    """Packed queries and keys, without `block_table` and `seqused_k`."""
    raise NotImplementedError
