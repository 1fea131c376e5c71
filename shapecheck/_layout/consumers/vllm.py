"""The start and length fields of vLLM's attention metadata."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shapecheck._layout._attend import Attention


def vllm(pair: "Attention") -> dict[str, Any]:
    """`query_start_loc` and `query_start_loc_cpu` (int32 [B + 1]), `seq_lens` (key rows, int32 [B]) and host ints.

    The host ints are `num_reqs`, `num_actual_tokens`, `max_query_len` and `max_seq_len`. A padding segment counts as
    a request. Block table and slot mapping stay the engine's.

    Source: vllm/v1/attention/backend.py, `CommonAttentionMetadata`.
    """
    return {
        "query_start_loc": pair.cu_seqlens_q,
        "query_start_loc_cpu": pair.cu_seqlens_q_cpu,
        "seq_lens": pair.seq_lens_k,
        "num_reqs": pair.segments,
        "num_actual_tokens": pair.rows_q,
        "max_query_len": pair.max_seqlen_q,
        "max_seq_len": pair.max_seqlen_k,
    }
