"""flash-linear-attention's operators."""

from typing import TYPE_CHECKING, Any

from shapecheck._layout._fail import fail

if TYPE_CHECKING:
    from shapecheck._layout._attend import Attention


def fla(pair: "Attention") -> dict[str, Any]:
    """`cu_seqlens` and its CPU copy `cu_seqlens_cpu`, int64 [B + 1].

    Source: fla 0.6.0, fla/ops/utils/index.py (`LongTensor`).

    Raises:
        LayoutError: keys that are not packed as the queries are.
    """
    if not pair.same_boundaries:
        fail(
            "fla: the keys have other boundaries than the queries, and fla takes one cu_seqlens for both\n"
            "  fix: use attend() without keys, or keys of the same lengths"
        )
    return {"cu_seqlens": pair.cu_seqlens_int64, "cu_seqlens_cpu": pair.cu_seqlens_int64_cpu}
