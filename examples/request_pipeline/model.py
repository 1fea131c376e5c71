"""A packed encoder: text, image and audio of several requests in one row, each request attending to itself."""

from itertools import pairwise
from typing import Annotated

import torch
from jaxtyping import Float, Int32, Int64
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from shapecheck import OneOf, PrefixSum, contract


class Encoder(nn.Module):
    """Two attention blocks, with a learned embedding for each modality."""

    def __init__(self, width: int = 16, heads: int = 2, depth: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.modality = nn.Embedding(3, width)
        self.blocks = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(depth))

    @contract(level="host")
    def forward(
        self,
        x: Float[Tensor, "S C"],
        token_tags: Annotated[Int64[Tensor, "S"], OneOf(0, 1, 2)],
        position_ids: Int64[Tensor, "S"],
        cu_seqlens: Annotated[Int32[Tensor, "B+1"], PrefixSum(end="S")],
        max_seqlen: int,
    ) -> Float[Tensor, "S C"]:
        """Encode packed rows.

        Args:
            x: the rows of all requests.
            token_tags: 0 text, 1 image, 2 audio.
            position_ids: the place of each row in its request.
            cu_seqlens: the boundaries of the requests.
            max_seqlen: rows of the longest request.
        """
        x = x + self.modality(token_tags) + (position_ids[:, None] / max(max_seqlen, 1)).to(x.dtype)
        for block in self.blocks:
            q, k, v = block(x).view(x.shape[0], 3, self.heads, -1).unbind(1)
            x = x + self.attend(q, k, v, cu_seqlens)
        return x

    def attend(self, q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor) -> Tensor:
        """Attention of each request to itself."""
        parts = []
        for start, stop in pairwise(cu_seqlens.tolist()):
            one = scaled_dot_product_attention(*(t[start:stop].transpose(0, 1) for t in (q, k, v)))
            parts.append(one.transpose(0, 1).flatten(1))
        return torch.cat(parts)
