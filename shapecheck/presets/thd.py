"""TransformerEngine's and Megatron's `thd` format.

Source: transformer-engine, `DotProductAttention.forward`; megatron-core, megatron/core/packed_seq_params.py. Neither
checks any of this: not that padded boundaries lie at or beyond the valid ones, nor that context parallelism can cut
every padded segment into 2 * cp chunks.
"""

from typing import Annotated, Any

from jaxtyping import Float, Int32
from torch import Tensor

from shapecheck._contract import Fields, Preset, preset
from shapecheck._invariants import AtLeastLongest, Invariant, MultipleOf, OneOf, PrefixSum, SameAsHost, SameDevice


def dot_product_attention(*, cp_size: int = 1) -> Preset:
    """`DotProductAttention.forward` with `qkv_format="thd"`.

    Args:
        cp_size: ranks of context parallelism. Each holds 1 / cp_size of the rows, while the boundaries are those of
            all; a padded segment must then be a multiple of 2 * cp_size.

    Raises ValueError for a `cp_size` below 1.
    """
    q_rows, kv_rows, cut = f"{cp_size}*Tq", f"{cp_size}*Tk", _cut(cp_size)

    def forward(
        query_layer: Float[Tensor, "Tq _ D"],
        key_layer: Annotated[Float[Tensor, "Tk Hk D"], SameDevice("query_layer")],
        value_layer: Annotated[Float[Tensor, "Tk Hk _"], SameDevice("query_layer")],
        cu_seqlens_q: Annotated[
            Int32[Tensor, "B+1"],
            PrefixSum(end=q_rows, tail="allow"),
            SameAsHost("cu_seqlens_q_padded", relation="upper_bound"),
            SameDevice("query_layer"),
        ],
        cu_seqlens_kv: Annotated[
            Int32[Tensor, "B+1"],
            PrefixSum(end=kv_rows, tail="allow"),
            SameAsHost("cu_seqlens_kv_padded", relation="upper_bound"),
            SameDevice("query_layer"),
        ],
        qkv_format: Annotated[str, OneOf("thd")] | None = None,
        cu_seqlens_q_padded: Annotated[
            Int32[Tensor, "B+1"], PrefixSum(end=q_rows, tail="allow"), cut, SameDevice("query_layer")
        ]
        | None = None,
        cu_seqlens_kv_padded: Annotated[
            Int32[Tensor, "B+1"], PrefixSum(end=kv_rows, tail="allow"), cut, SameDevice("query_layer")
        ]
        | None = None,
        max_seqlen_q: Annotated[int, AtLeastLongest("cu_seqlens_q")] | None = None,
        max_seqlen_kv: Annotated[int, AtLeastLongest("cu_seqlens_kv")] | None = None,
    ) -> Any:
        raise NotImplementedError

    return preset(forward)


def packed_seq_params(*, cp_size: int = 1) -> Preset:
    """A function that takes Megatron's `packed_seq_params`, a `PackedSeqParams` or None for batches that are not
    packed.

    Args:
        cp_size: as in `dot_product_attention`.

    Raises ValueError for a `cp_size` below 1.
    """
    cut = _cut(cp_size)

    class PackedSeqParams:
        qkv_format: Annotated[str, OneOf("thd")] | None = None
        cu_seqlens_q: Annotated[
            Int32[Tensor, "B+1"], PrefixSum(), SameAsHost("cu_seqlens_q_padded", relation="upper_bound")
        ]
        cu_seqlens_kv: Annotated[
            Int32[Tensor, "B+1"], PrefixSum(), SameAsHost("cu_seqlens_kv_padded", relation="upper_bound")
        ]
        cu_seqlens_q_padded: Annotated[Int32[Tensor, "B+1"], PrefixSum(), cut] | None = None
        cu_seqlens_kv_padded: Annotated[Int32[Tensor, "B+1"], PrefixSum(), cut] | None = None
        max_seqlen_q: Annotated[int, AtLeastLongest("cu_seqlens_q")] | None = None
        max_seqlen_kv: Annotated[int, AtLeastLongest("cu_seqlens_kv")] | None = None

    def forward(*, packed_seq_params: Annotated[Any, Fields(PackedSeqParams)] | None = None) -> Any:
        raise NotImplementedError

    return preset(forward)


def _cut(cp_size: int) -> Invariant:
    if cp_size < 1:
        raise ValueError(f"cp_size={cp_size!r}: expected 1 or more ranks")
    return MultipleOf(2 * cp_size if cp_size > 1 else 1)
