"""Ascend's attention over packed rows, layout TND.

The boundaries are host integers, the ends of the segments without the leading 0. A segment that is empty on one side
only is refused by the inference operator.

Source: torch_npu, `npu_fusion_attention` (training) and `npu_fused_infer_attention_score` (inference).
"""

from collections.abc import Sequence
from typing import Annotated, Any

from beartype.vale import Is
from jaxtyping import Float
from torch import Tensor

from shapecheck._contract import preset
from shapecheck._invariants import InRange, OneOf, SameBatch, SameDevice


def _never_decrease(ends: Sequence[int]) -> bool:
    return list(ends) == sorted(ends)


@preset
def npu_fusion_attention(
    query: Float[Tensor, "Tq _ D"],
    key: Annotated[Float[Tensor, "Tk Hk D"], SameDevice("query")],
    value: Annotated[Float[Tensor, "Tk Hk _"], SameDevice("query")],
    input_layout: Annotated[str, OneOf("TND")],
    actual_seq_qlen: Annotated[Sequence[int], Is[_never_decrease], InRange(0, "Tq+1"), SameBatch("actual_seq_kvlen")],
    actual_seq_kvlen: Annotated[Sequence[int], Is[_never_decrease], InRange(0, "Tk+1")],
) -> Any:
    """The training operator."""
    raise NotImplementedError


@preset
def npu_fused_infer_attention_score(
    query: Float[Tensor, "Tq _ D"],
    key: Annotated[Float[Tensor, "Tk Hk D"], SameDevice("query")],
    value: Annotated[Float[Tensor, "Tk Hk _"], SameDevice("query")],
    input_layout: Annotated[str, OneOf("TND")],
    actual_seq_lengths: Annotated[
        Sequence[int],
        Is[_never_decrease],
        InRange(0, "Tq+1"),
        SameBatch("actual_seq_lengths_kv", empty="both"),
    ],
    actual_seq_lengths_kv: Annotated[Sequence[int], Is[_never_decrease], InRange(0, "Tk+1")],
) -> Any:
    """The inference operator, with keys that are packed as well and not in pages."""
    raise NotImplementedError
