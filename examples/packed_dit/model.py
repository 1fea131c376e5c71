"""The packed transformer: H3's forward contract on narrow widths."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float, Int32, Int64
from torch import Tensor, nn

from packed_dit.attention import Segments, masked_attention, segment_attention, segment_mask
from shapecheck import InRange, OneOf, PrefixSum, SameAsHost, SameBatch, SameDevice, contract

MODALITIES = 3  # video, text, audio: tags 0, 1, 2

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Attention inside the segments: queries, keys and values, each [S, heads, D], to [S, heads, D]."""

_MODULATIONS = 6  # shift, scale and gate, for the attention and for the MLP


@dataclass(frozen=True)
class Config:
    """Widths. `channels`, `audio_channels` are H3's rows: 24 x 1 x 2 x 2 of a video patch, 32 of an audio latent.

    `hidden / heads` is the head dimension: even, at least 6, so that every position axis gets a rotation.
    `attention` is how the segments attend: "segments" one after the other, or "masked" all at once, under a mask of
    S x S entries. Compile the latter with backend="shapecheck": then neither the mask nor its attention is computed.
    """

    channels: int = 96
    audio_channels: int = 32
    text_channels: int = 64
    hidden: int = 32
    heads: int = 2
    depth: int = 2
    attention: Literal["segments", "masked"] = "segments"


class PackedDiT(nn.Module):
    """A diffusion transformer over one packed row of text, image, audio and video tokens."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        hidden = config.hidden
        self.video_in = nn.Linear(config.channels, hidden)
        self.audio_in = nn.Linear(config.audio_channels, hidden)
        self.text_in = nn.Linear(config.text_channels, hidden)
        self.timestep_in = nn.Sequential(nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, hidden))
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.depth))
        self.norm = nn.LayerNorm(hidden, elementwise_affine=False)
        self.video_out = nn.Linear(hidden, config.channels)
        self.audio_out = nn.Linear(hidden, config.audio_channels)

    @contract
    def forward(
        self,
        x: Float[Tensor, "1 S C"],
        audio_x: Annotated[Float[Tensor, "1 S Ca"], SameDevice("x")],
        prompt_embeds: Annotated[Float[Tensor, "P Ht"], SameDevice("x")],
        token_tags: Annotated[Int64[Tensor, "S"], OneOf(-1, 0, 1, 2), SameDevice("x")],
        unique_timesteps: Annotated[Float[Tensor, "M"], SameDevice("x")],
        inverse_indices: Annotated[Int64[Tensor, "S"], InRange(0, "M"), SameDevice("x")],
        img_position_ids: Annotated[Float[Tensor, "1 S 3"], SameDevice("x")],
        img_pos: Annotated[Int64[Tensor, "V"], InRange(0, "S"), SameDevice("x")],
        audio_pos: Annotated[Int64[Tensor, "A"], InRange(0, "S"), SameDevice("x")],
        text_pos: Annotated[Int64[Tensor, "P"], InRange(0, "S"), SameDevice("x")],
        update_mask: Annotated[Bool[Tensor, "V"], SameDevice("x")],
        cu_seqlens_q: Annotated[
            Int32[Tensor, "B+1"], PrefixSum(end="S"), SameAsHost("cu_seqlens_q_host"), SameDevice("x")
        ],
        cu_seqlens_k: Annotated[
            Int32[Tensor, "B+1"],
            PrefixSum(end="S"),
            SameBatch("cu_seqlens_q"),
            SameAsHost("cu_seqlens_k_host"),
            SameDevice("x"),
        ],
        cu_seqlens_q_host: tuple[int, ...],
        cu_seqlens_k_host: tuple[int, ...],
        max_seqlen: Annotated[int, InRange(0, "S+1")],
    ) -> tuple[Float[Tensor, "V C"], Float[Tensor, "A Ca"]]:
        """Predicts the velocity of the video and the audio rows.

        Args:
            x: packed video and image rows; other rows are ignored.
            audio_x: packed audio rows; other rows are ignored.
            prompt_embeds: the text rows of all requests.
            token_tags: what each row is: video or image 0, text 1, audio 2, padding -1.
            unique_timesteps: the distinct timesteps of the rows.
            inverse_indices: which of them each row has.
            img_position_ids: position of each row on the axes (t, h, w).
            img_pos: the image and video rows, ascending.
            audio_pos: the audio rows.
            text_pos: the rows that `prompt_embeds` goes to.
            update_mask: for each of `img_pos`, whether it is denoised; a reference image is not.
            cu_seqlens_q, cu_seqlens_k: boundaries of the requests, and of the padding.
            cu_seqlens_q_host, cu_seqlens_k_host: their values on the host.
            max_seqlen: rows of the longest request.

        Returns:
            The velocity of `img_pos`, 0 where not to be updated, and of `audio_pos`.
        """
        rows = x.new_zeros(x.shape[1], self.config.hidden)
        rows = rows.index_copy(0, text_pos, self.text_in(prompt_embeds))
        rows = rows.index_copy(0, img_pos, self.video_in(x[0].index_select(0, img_pos)))
        rows = rows.index_copy(0, audio_pos, self.audio_in(audio_x[0].index_select(0, audio_pos)))

        timesteps = self.timestep_in(sinusoid(unique_timesteps, self.config.hidden))
        # Padding is modulated as video: nobody reads its rows.
        modulation_index = token_tags.clamp(min=0) + MODALITIES * inverse_indices
        rotation = rotations(img_position_ids[0], self.config.hidden // self.config.heads)
        segments = Segments(cu_seqlens_q, cu_seqlens_k, cu_seqlens_q_host, cu_seqlens_k_host, max_seqlen)
        attend: Attend = partial(segment_attention, segments=segments)
        if self.config.attention == "masked":
            attend = partial(masked_attention, mask=segment_mask(segments, rows.shape[0]))
        for block in self.blocks:
            rows = block(rows, timesteps, modulation_index, rotation, attend)

        rows = self.norm(rows)
        velocity: Tensor = self.video_out(rows.index_select(0, img_pos))
        audio_velocity: Tensor = self.audio_out(rows.index_select(0, audio_pos))
        return velocity * update_mask.unsqueeze(1), audio_velocity


class Block(nn.Module):
    """Attention and MLP, each modulated by what a row is and by its timestep."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        hidden = config.hidden
        self.heads = config.heads
        self.norm = nn.LayerNorm(hidden, elementwise_affine=False)
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(hidden, MODALITIES * _MODULATIONS * hidden))
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.attention_out = nn.Linear(hidden, hidden)
        self.mlp = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU("tanh"), nn.Linear(4 * hidden, hidden))

    def forward(
        self,
        rows: Float[Tensor, "S H"],
        timesteps: Float[Tensor, "M H"],
        modulation_index: Int64[Tensor, "S"],
        rotation: tuple[Float[Tensor, "S 1 D/2"], Float[Tensor, "S 1 D/2"]],
        attend: Attend,
    ) -> Float[Tensor, "S H"]:
        # One row of modulations for every pair of timestep and modality, in the order of tag + 3 * timestep.
        table = self.modulation(timesteps).view(-1, _MODULATIONS * rows.shape[1])
        shift, scale, gate, mlp_shift, mlp_scale, mlp_gate = table.index_select(0, modulation_index).chunk(
            _MODULATIONS, dim=1
        )
        q, k, v = self.qkv(self.norm(rows) * (1 + scale) + shift).unflatten(1, (3, self.heads, -1)).unbind(1)
        attended = attend(rotate(q, rotation), rotate(k, rotation), v)
        rows = rows + gate * self.attention_out(attended.flatten(1))
        changed: Tensor = mlp_gate * self.mlp(self.norm(rows) * (1 + mlp_scale) + mlp_shift)
        return rows + changed


def sinusoid(values: Float[Tensor, "M"], width: int) -> Float[Tensor, "M width"]:
    """Cosines and sines of `values` in [0, 1] at falling frequencies."""
    frequencies = torch.exp(torch.arange(width // 2, device=values.device) * (-math.log(10_000) / (width // 2)))
    angles = 1000 * values.unsqueeze(1) * frequencies
    return torch.cat([angles.cos(), angles.sin()], dim=1)


def rotations(positions: Float[Tensor, "S 3"], width: int) -> tuple[Tensor, Tensor]:
    """Cosine and sine, each [S, 1, width / 2], of three-axis rotary positions.

    The axes share the `width / 2` pairs of a head; the first takes what does not divide by 3.
    """
    each = width // 2 // 3
    angles = []
    for axis, pairs in enumerate((width // 2 - 2 * each, each, each)):
        frequencies = torch.exp(torch.arange(pairs, device=positions.device) * (-math.log(10_000) / pairs))
        angles.append(positions[:, axis : axis + 1] * frequencies)
    angle = torch.cat(angles, dim=1).unsqueeze(1)
    return angle.cos(), angle.sin()


def rotate(x: Float[Tensor, "S heads D"], rotation: tuple[Tensor, Tensor]) -> Float[Tensor, "S heads D"]:
    """`x` with its pairs of channels (i, i + D/2) rotated."""
    cosine, sine = rotation
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


def build_model(config: Config | None = None, seed: int = 0) -> PackedDiT:
    """A model with reproducible random weights, for inference."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return PackedDiT(config or Config()).eval().requires_grad_(requires_grad=False)
