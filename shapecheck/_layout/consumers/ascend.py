"""Ascend's TND operators."""

from typing import TYPE_CHECKING, Any

from shapecheck._layout._fail import fail, shown

if TYPE_CHECKING:
    from shapecheck._layout._attend import Attention


def npu_fusion_attention(pair: "Attention") -> dict[str, Any]:
    """`actual_seq_qlen`, `actual_seq_kvlen`: cumulative ends without the leading 0, host ints.

    Source: the call in transformers 5.24.0, integrations/npu_flash_attention.py.

    Raises:
        LayoutError: a segment that is empty on one side only.
    """
    for index, (q, k) in enumerate(zip(pair.segment_lengths_q, pair.segment_lengths_k, strict=True)):
        if (q == 0) != (k == 0):
            fail(
                f"npu_fusion_attention: segment {index} has {shown(q)} query rows and {shown(k)} key rows, expected "
                "both empty or neither\n"
                "  fix: drop that segment from both layouts"
            )
    return {"actual_seq_qlen": pair.ends_q, "actual_seq_kvlen": pair.ends_k}
