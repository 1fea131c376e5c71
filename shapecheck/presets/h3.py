"""MiniMax-H3's transformer: its forward, its prompt refiner and its rope cache.

Source: sglang 0.5.23, `MiniMaxH3DiTModel`, and the layouts that its packed-sequence builder makes; for
`vllm_omni_forward` the model and the builders of vllm-omni.

Symbols: S rows of the packed sequence with padding; T text, V image and video, A audio rows, and U = T + V + A the used
ones; M unique timesteps; G rows whose video logits are returned; L rows of S that this rank holds. The model flattens
the arrays of one entry per row, so `[S]` and `[1, S]` are both fine.
"""

from typing import Annotated, Any, NotRequired, TypedDict

from jaxtyping import Float, Integer, Real, Shaped
from torch import Tensor

from shapecheck._contract import Fields, preset
from shapecheck._invariants import (
    AtLeastLongest,
    InRange,
    MultipleOf,
    OneOf,
    Partition,
    PrefixSum,
    SameAsHost,
    SameDevice,
)

VERSION = "sglang 0.5.23"
"""The release whose `MiniMaxH3DiTModel` `forward`, `refine_prompt_embeds` and `build_rope_cache` describe."""

_WITH_X = SameDevice("x")


class ImageRows(TypedDict):
    """`img_pos_info`: the rows of images and video. With those of text and audio they name each used row once."""

    position_ids: Annotated[
        Integer[Tensor, "... V"],
        Partition("audio_pos_info.position_ids", "text_pos_info.position_ids", of="T+V+A"),
        _WITH_X,
    ]


class AudioRows(TypedDict):
    """`audio_pos_info`: the rows of audio, in the order of the audio logits."""

    position_ids: Annotated[Integer[Tensor, "... A"], InRange(0, "S"), _WITH_X]


class TextRows(TypedDict):
    """`text_pos_info`: the rows of text, the first of the sequence."""

    position_ids: Annotated[Integer[Tensor, "... T"], Partition(of="T"), _WITH_X]


class OutputRows(TypedDict):
    """`img_pos_for_infer_output_info`: the rows whose video logits are returned."""

    position_ids: Annotated[Integer[Tensor, "... G"], Partition(of="S", covers=False), _WITH_X]


class PackedSeqParams(TypedDict):
    """`packed_seq_params`: boundaries `[0, U, S]`, the padding as the last segment, and U."""

    cu_seqlens_q: Annotated[Integer[Tensor, "3"], PrefixSum(end="S"), SameAsHost("cu_seqlens_q_host"), _WITH_X]
    cu_seqlens_q_host: NotRequired[Annotated[Any, PrefixSum(end="S")]]
    max_seqlen_q: Annotated[
        int | Integer[Tensor, "..."],
        AtLeastLongest("cu_seqlens_q", padding="segment"),
        InRange("T+V+A", "T+V+A+1"),
    ]


class RefinerSeqParams(TypedDict):
    """`refiner_packed_seq_params`: boundaries `[0, live, live]` of the live text rows, and their number."""

    cu_seqlens_q: Annotated[Integer[Tensor, "3"], PrefixSum(end="P", tail="allow"), _WITH_X]
    max_seqlen_q: Annotated[
        int | Integer[Tensor, "..."], AtLeastLongest("cu_seqlens_q", padding="segment"), InRange(1, "T+1")
    ]


class LocalEmbeddingLayout(TypedDict):
    """`local_embedding_layout`: what this rank writes where, without a look at the position maps."""

    text_source_start: Annotated[int, InRange(0, "T+1")]
    text_source_stop: Annotated[int, InRange(0, "T+1")]
    img_global_ids: Annotated[Integer[Tensor, "Vl"], InRange(0, "S"), _WITH_X]
    img_row_ids: Annotated[Integer[Tensor, "Vl"], Partition("audio_row_ids", of="L", covers=False), _WITH_X]
    audio_global_ids: Annotated[Integer[Tensor, "Al"], InRange(0, "S"), _WITH_X]
    audio_row_ids: Annotated[Integer[Tensor, "Al"], InRange(0, "L"), _WITH_X]


RopeCache = tuple[
    Annotated[Float[Tensor, "L 96"], _WITH_X],
    Annotated[Integer[Tensor, "L"], InRange(0, "L"), _WITH_X],
]
"""The cosines and sines of this rank's rows, and their positions in that table."""


@preset
def forward(
    *,
    x: Annotated[Float[Tensor, "1 S 96"], MultipleOf(64, of="S")],
    audio_x: Annotated[Float[Tensor, "1 S 32"], _WITH_X],
    img_position_ids: Annotated[Real[Tensor, "1 S 3"], _WITH_X],
    unique_timesteps: Annotated[Real[Tensor, "... M"], _WITH_X],
    inverse_indices: Annotated[Integer[Tensor, "... S"], InRange(0, "M"), _WITH_X],
    update_mask: Annotated[Shaped[Tensor, "..."], _WITH_X],
    prompt_embeds: Annotated[Float[Tensor, "P _"], _WITH_X],
    img_pos_info: Annotated[Any, Fields(ImageRows)],
    audio_pos_info: Annotated[Any, Fields(AudioRows)],
    text_pos_info: Annotated[Any, Fields(TextRows)],
    img_pos_for_infer_output_info: Annotated[Any, Fields(OutputRows)],
    packed_seq_params: Annotated[Any, Fields(PackedSeqParams)],
    refiner_packed_seq_params: Annotated[Any, Fields(RefinerSeqParams)],
    token_tags: Annotated[Integer[Tensor, "... S"], OneOf(-1, 0, 1, 2), _WITH_X] | None = None,
    block_token_tags: Annotated[Integer[Tensor, "... L"], OneOf(0, 1, 2), _WITH_X] | None = None,
    block_combined_indices: Annotated[Integer[Tensor, "... L"], InRange(0, "3*M"), _WITH_X] | None = None,
    rope_cache: RopeCache | None = None,
    refined_prompt_embeds_length: Annotated[int | Integer[Tensor, "..."], InRange(1, "T+1")] | None = None,
    update_audio_mask: Annotated[Shaped[Tensor, "... A"], _WITH_X] | None = None,
    local_embedding_layout: Annotated[Any, Fields(LocalEmbeddingLayout)] | None = None,
    subblock_sparse_query_block_mask: Annotated[Shaped[Tensor, "..."], _WITH_X] | None = None,
    skip_mask_out_condition: Any = False,
    adaln_cache_slot: Any = None,
) -> tuple[Float[Tensor, "G 96"], Float[Tensor, "A 32"]]:
    """`MiniMaxH3DiTModel.forward`: its 23 keyword arguments and its two results.

    `update_mask` is not counted: the model compares it with the rows it returns, and only where
    `skip_mask_out_condition` is false. Widths are those of the released model: video rows 24 * 1 * 2 * 2 = 96, audio
    rows 32, rotary channels 96.
    """
    raise NotImplementedError


class BatchedImageRows(TypedDict):
    """`img_pos_info` of several requests, with padding between them."""

    position_ids: Annotated[
        Integer[Tensor, "... V"],
        Partition("audio_pos_info.position_ids", "text_pos_info.position_ids", of="S", covers=False),
        _WITH_X,
    ]


class BatchedTextRows(TypedDict):
    """`text_pos_info` of several requests."""

    position_ids: Annotated[Integer[Tensor, "... T"], InRange(0, "S"), _WITH_X]


class BatchedSeqParams(TypedDict):
    """`packed_seq_params` of several requests, and of one."""

    cu_seqlens_q: Annotated[Integer[Tensor, "B+1"], PrefixSum(end="S"), _WITH_X]
    max_seqlen_q: Annotated[int | Integer[Tensor, "..."], AtLeastLongest("cu_seqlens_q", padding="segment")]


class BatchedRefinerParams(TypedDict):
    """`refiner_packed_seq_params` of several requests, and of one."""

    cu_seqlens_q: Annotated[Integer[Tensor, "_"], PrefixSum(end="P", tail="allow"), _WITH_X]
    max_seqlen_q: Annotated[int | Integer[Tensor, "..."], AtLeastLongest("cu_seqlens_q", padding="segment")]


@preset
def vllm_omni_forward(
    *,
    x: Annotated[Float[Tensor, "1 S 96"], MultipleOf(64, of="S")],
    audio_x: Annotated[Float[Tensor, "1 S 32"], _WITH_X],
    img_position_ids: Annotated[Real[Tensor, "1 S 3"], _WITH_X],
    unique_timesteps: Annotated[Real[Tensor, "... M"], _WITH_X],
    inverse_indices: Annotated[Integer[Tensor, "... S"], InRange(0, "M"), _WITH_X],
    update_mask: Annotated[Shaped[Tensor, "..."], _WITH_X],
    token_tags: Annotated[Integer[Tensor, "... S"], OneOf(-1, 0, 1, 2), _WITH_X],
    prompt_embeds: Annotated[Float[Tensor, "P 5120"], _WITH_X],
    img_pos_info: Annotated[Any, Fields(BatchedImageRows)],
    audio_pos_info: Annotated[Any, Fields(AudioRows)],
    text_pos_info: Annotated[Any, Fields(BatchedTextRows)],
    img_pos_for_infer_output_info: Annotated[Any, Fields(OutputRows)],
    packed_seq_params: Annotated[Any, Fields(BatchedSeqParams)],
    refiner_packed_seq_params: Annotated[Any, Fields(BatchedRefinerParams)],
    update_audio_mask: Annotated[Shaped[Tensor, "... A"], _WITH_X] | None = None,
    rope_table: Annotated[Float[Tensor, "_ 96"], _WITH_X] | None = None,
    skip_mask_out_condition: Any = False,
    video_token_layout: Any = None,
) -> tuple[Float[Tensor, "G 96"], Float[Tensor, "A 32"]]:
    """vllm-omni's `MiniMaxH3DiTModel.forward`: its 18 keyword arguments, for one request or several in one row."""
    raise NotImplementedError


@preset
def refine_prompt_embeds(
    prompt_embeds: Float[Tensor, "P 5120"],
    refiner_cu_seqlens: Annotated[Integer[Tensor, "3"], PrefixSum(end="P", tail="allow")],
) -> Float[Tensor, "_ 5376"]:
    """`MiniMaxH3DiTModel.refine_prompt_embeds`: text features of width 5120, refined to the hidden width 5376."""
    raise NotImplementedError


@preset
def build_rope_cache(img_position_ids: Real[Tensor, "1 S 3"]) -> tuple[Float[Tensor, "L 96"], Integer[Tensor, "L"]]:
    """`MiniMaxH3DiTModel.build_rope_cache`: rows of coordinates (t, h, w) to the cache of this rank's rows."""
    raise NotImplementedError
