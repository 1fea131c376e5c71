"""Calls of MiniMax-H3's forward, valid ones. See `shapecheck.presets.h3`."""

from random import Random

import torch
from torch import Tensor

from shapecheck._layout import PackedLayout, Part
from shapecheck.testing._oracle import Call

TEXT, VIDEO, AUDIO = 1, 0, 2
"""The token tags of H3."""

_FIXED = ("cond", "ref")
"""Parts whose rows condition the others and are not updated."""


def layout(random: Random) -> PackedLayout:
    """A random request: text, maybe reference blocks and a condition, audio and video."""
    grid = (random.randint(1, 4), random.randint(1, 6), random.randint(1, 6))
    parts = [Part("text", random.randint(1, 90))]
    for _ in range(random.randint(0, 2)):
        if random.random() < 0.5:
            parts.append(Part("ref", random.randint(1, 20), kind="audio"))
        parts.append(Part("ref", (1, *grid[1:]), kind="video"))
    if random.random() < 0.5:
        parts.append(Part("cond", (1, *grid[1:]), kind="video"))
    parts += [Part("audio", 2 * random.randint(1, 30)), Part("video", grid)]
    return PackedLayout.pack(parts, align=64, tags={"text": TEXT, "video": VIDEO, "audio": AUDIO})


def call(layout: PackedLayout) -> Call:
    """A direct call of the model, as its packed-sequence builder lays the rows out.

    Args:
        layout: of one request, aligned to 64, with H3's tags.
    """
    tags, device = layout.token_tags, layout.device
    text, video, audio = (_rows(tags, tag) for tag in (TEXT, VIDEO, AUDIO))
    fixed = torch.zeros(layout.seq_len, dtype=torch.bool, device=device)
    for name in {part.name for sample in layout.samples for part in sample} & set(_FIXED):
        fixed[layout.part_index(name)] = True
    inverse = torch.zeros_like(tags)
    inverse[audio], inverse[fixed] = 1, 2
    live = len(text)
    return {
        "x": torch.zeros(1, layout.seq_len, 96, device=device),
        "audio_x": torch.zeros(1, layout.seq_len, 32, device=device),
        "img_position_ids": torch.zeros(1, layout.seq_len, 3, device=device),
        "unique_timesteps": torch.tensor([0.25, 0.5, 1.0], device=device),
        "inverse_indices": inverse,
        "update_mask": ~fixed[video],
        "update_audio_mask": ~fixed[audio],
        "token_tags": tags.clone(),
        "skip_mask_out_condition": False,
        "prompt_embeds": torch.zeros(live, 5120, dtype=torch.bfloat16, device=device),
        "img_pos_info": {"position_ids": video},
        "audio_pos_info": {"position_ids": audio},
        "text_pos_info": {"position_ids": text},
        "img_pos_for_infer_output_info": {"position_ids": video.clone()},
        "packed_seq_params": {
            "cu_seqlens_q": layout.cu_seqlens.clone(),
            "cu_seqlens_q_host": layout.cu_seqlens_host,
            "max_seqlen_q": layout.max_seqlen,
        },
        "refiner_packed_seq_params": {
            "cu_seqlens_q": torch.tensor([0, live, live], dtype=torch.int32, device=device),
            "max_seqlen_q": live,
        },
    }


def vllm_omni_call(layout: PackedLayout) -> Call:
    """The same request for vllm-omni's model, which takes no copy of the boundaries on the host."""
    direct = call(layout)
    params = {key: value for key, value in direct["packed_seq_params"].items() if key != "cu_seqlens_q_host"}
    return {**direct, "packed_seq_params": {**params, "num_requests": 1}}


def served_call(layout: PackedLayout, *, world_size: int = 1, rank: int = 0) -> Call:
    """A call as the serving loop makes it: text already refined, and this rank's rows worked out beforehand.

    Args:
        layout: of one request, aligned to 64, with H3's tags.
        world_size: ranks that share the rows, a divisor of 64.
        rank: this one.
    """
    direct, device = call(layout), layout.device
    rows = layout.seq_len // world_size
    mine = slice(rank * rows, (rank + 1) * rows)
    tags = direct["token_tags"][mine].clamp(min=0)
    video, audio = direct["img_pos_info"]["position_ids"], direct["audio_pos_info"]["position_ids"]
    live = len(direct["text_pos_info"]["position_ids"])
    video_here, audio_here = (one[(one >= mine.start) & (one < mine.stop)] for one in (video, audio))
    del direct["token_tags"]
    return {
        **direct,
        "skip_mask_out_condition": True,
        "prompt_embeds": torch.zeros(live, 5376, dtype=torch.bfloat16, device=device),
        "refined_prompt_embeds_length": live,
        "img_pos_for_infer_output_info": {"position_ids": video[direct["update_mask"]]},
        "block_token_tags": tags,
        "block_combined_indices": tags + 3 * direct["inverse_indices"][mine],
        "rope_cache": (
            torch.zeros(rows, 96, dtype=torch.bfloat16, device=device),
            torch.arange(rows, device=device),
        ),
        "local_embedding_layout": {
            "text_source_start": min(live, mine.start),
            "text_source_stop": min(live, mine.stop),
            "img_global_ids": video_here,
            "img_row_ids": video_here - mine.start,
            "audio_global_ids": audio_here,
            "audio_row_ids": audio_here - mine.start,
        },
    }


def _rows(tags: Tensor, tag: int) -> Tensor:
    return (tags == tag).nonzero().flatten()
