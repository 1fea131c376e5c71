"""Where the rows of a request are: text, reference image, audio, video, then padding."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from shapecheck import PackedLayout, Part

TAGS = {"text": 1, "image": 0, "audio": 2, "video": 0}
"""The tag of each part's rows, which picks their modulation. Padding is tagged -1."""

ALIGN = 64
"""The packed row is a multiple of it, so that it divides among ranks and tiles."""


@dataclass(frozen=True)
class RequestSize:
    """Rows of one request, as grids of latent patches `(t, h, w)`.

    Attributes:
        text: live text tokens.
        image: the reference image, `(1, h, w)`; None without one.
        audio: `(t, 1, 2)`, two rows a frame.
        video: `(t, h, w)`.
    """

    text: int
    image: tuple[int, int, int] | None
    audio: tuple[int, int, int]
    video: tuple[int, int, int]

    def parts(self) -> list[Part]:
        """The parts in row order. A request without an image has one of 0 rows, so that every layout has all names."""
        return [
            Part("text", self.text),
            Part("image", self.image or 0),
            Part("audio", self.audio),
            Part("video", self.video),
        ]


SIZES = {
    "720p": RequestSize(text=128, image=(1, 22, 40), audio=(75, 1, 2), video=(16, 45, 80)),  # 58,758 rows: S = 58,816
    "small": RequestSize(text=14, image=(1, 4, 6), audio=(5, 1, 2), video=(3, 4, 6)),
    "tiny": RequestSize(text=7, image=None, audio=(3, 1, 2), video=(2, 3, 4)),
}
"""Requests by name: the real one, and two that run in milliseconds."""


def pack_requests(sizes: Sequence[RequestSize]) -> PackedLayout:
    """One layout for all requests, a segment each, and the padding as the last segment."""
    return PackedLayout.pack([size.parts() for size in sizes], align=ALIGN, tags=TAGS)


def row_positions(layout: PackedLayout) -> Float[Tensor, "1 S 3"]:
    """The position of every row on the axes (t, h, w), float32; 0 for padding.

    Text counts up on all three axes; what follows it starts where the text ends.
    """
    grids: dict[str, list[Tensor]] = {}
    for sample in layout.samples:
        text = sum(part.rows for part in sample if part.name == "text")
        for part in sample:
            grids.setdefault(part.name, []).append(_grid(part.size, 0 if part.name == "text" else text))
    return layout.cat(grids, dim=0).float().unsqueeze(0).to(layout.device)


def _grid(size: int | tuple[int, ...], start: int) -> Int64[Tensor, "rows 3"]:
    if isinstance(size, int):
        return torch.arange(start, start + size).unsqueeze(1).expand(-1, 3)
    axes = torch.meshgrid(*(torch.arange(n) for n in size), indexing="ij")
    grid = torch.stack(axes, dim=-1).reshape(-1, 3)
    return grid + torch.tensor([start, 0, 0])
