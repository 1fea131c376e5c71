"""The language model: a Llama on narrow widths, with grouped heads and a packed causal mask."""

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu

from packed_lm.documents import VOCABULARY
from shapecheck import InRange, contract


@dataclass(frozen=True)
class Config:
    """Widths. `hidden / heads` is the head dimension, even; `heads` is a multiple of `key_heads`."""

    hidden: int = 64
    heads: int = 4
    key_heads: int = 2
    depth: int = 2


class PackedLM(nn.Module):
    """A causal language model over one packed row of documents."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(VOCABULARY, config.hidden)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.depth))
        self.norm = nn.RMSNorm(config.hidden)
        self.out = nn.Linear(config.hidden, VOCABULARY, bias=False)

    @contract
    def forward(
        self,
        tokens: Annotated[Int64[Tensor, "1 S"], InRange(0, VOCABULARY)],
        position_ids: Annotated[Int64[Tensor, "1 S"], InRange(0, "S")],
    ) -> Float[Tensor, "1 S _vocabulary"]:
        """Predicts the token that follows each token.

        Args:
            tokens: of all documents, one behind the other.
            position_ids: the place of each token in its document, from 0.

        Returns:
            Logits.
        """
        rows = self.embedding(tokens)
        mask = packed_causal_mask(position_ids)
        rotation = rotations(position_ids, self.config.hidden // self.config.heads)
        for block in self.blocks:
            rows = block(rows, rotation, mask)
        logits: Tensor = self.out(self.norm(rows))
        return logits


class Block(nn.Module):
    """Attention and MLP."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        hidden, width = config.hidden, config.hidden // config.heads
        self.heads, self.key_heads = config.heads, config.key_heads
        self.norm = nn.RMSNorm(hidden)
        self.q = nn.Linear(hidden, hidden, bias=False)
        self.k = nn.Linear(hidden, config.key_heads * width, bias=False)
        self.v = nn.Linear(hidden, config.key_heads * width, bias=False)
        self.attention_out = nn.Linear(hidden, hidden, bias=False)
        self.mlp_norm = nn.RMSNorm(hidden)
        self.gate = nn.Linear(hidden, 4 * hidden, bias=False)
        self.up = nn.Linear(hidden, 4 * hidden, bias=False)
        self.down = nn.Linear(4 * hidden, hidden, bias=False)

    def forward(
        self,
        rows: Float[Tensor, "1 S H"],
        rotation: tuple[Float[Tensor, "1 1 S D/2"], Float[Tensor, "1 1 S D/2"]],
        mask: Bool[Tensor, "1 1 S S"],
    ) -> Float[Tensor, "1 S H"]:
        normed = self.norm(rows)
        q = self.q(normed).unflatten(2, (self.heads, -1)).transpose(1, 2)
        k = self.k(normed).unflatten(2, (self.key_heads, -1)).transpose(1, 2)
        v = self.v(normed).unflatten(2, (self.key_heads, -1)).transpose(1, 2)
        share = self.heads // self.key_heads
        attended = scaled_dot_product_attention(
            rotate(q, rotation),
            rotate(k, rotation).repeat_interleave(share, dim=1),
            v.repeat_interleave(share, dim=1),
            attn_mask=mask,
        )
        rows = rows + self.attention_out(attended.transpose(1, 2).flatten(2))
        normed = self.mlp_norm(rows)
        changed: Tensor = self.down(silu(self.gate(normed)) * self.up(normed))
        return rows + changed


def packed_causal_mask(position_ids: Int64[Tensor, "1 S"]) -> Bool[Tensor, "1 1 S S"]:
    """Which query (axis 2) sees which key (axis 3): the tokens up to itself in its own document.

    A document begins where a position does not follow the one before.
    """
    begins = torch.diff(position_ids, prepend=position_ids[:, :1] - 1, dim=-1) != 1
    document = begins.cumsum(-1)
    row = torch.arange(position_ids.shape[1], device=position_ids.device)
    same = document[:, None, :, None] == document[:, None, None, :]
    return same & (row[None, :] <= row[:, None])


def rotations(position_ids: Int64[Tensor, "1 S"], width: int) -> tuple[Tensor, Tensor]:
    """Cosine and sine, each [1, 1, S, width / 2], of rotary positions."""
    powers = torch.arange(width // 2, device=position_ids.device) / (width // 2)
    angle = (position_ids.unsqueeze(2) * 10_000.0**-powers).unsqueeze(1)
    return angle.cos(), angle.sin()


def rotate(x: Float[Tensor, "1 heads S D"], rotation: tuple[Tensor, Tensor]) -> Float[Tensor, "1 heads S D"]:
    """`x` with its pairs of channels (i, i + D/2) rotated."""
    cosine, sine = rotation
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


def build_model(config: Config | None = None, seed: int = 0) -> PackedLM:
    """A model with reproducible random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return PackedLM(config or Config())
