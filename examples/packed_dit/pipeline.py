"""From requests to the forward's arguments, and a few denoising steps.

Every argument that describes rows comes from one layout, and the layout from the sizes of the tensors that get packed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import torch
from jaxtyping import Float
from torch import Tensor

from packed_dit.layout import RequestSize, pack_requests, row_positions
from packed_dit.model import Config, PackedDiT
from shapecheck import PackedLayout

PATCH = 2  # latent rows and columns of a video or image patch


@dataclass(frozen=True)
class Request:
    """The latents of one request.

    Attributes:
        text: embedded prompt.
        image: latent of the reference image, or None.
        audio: noise to denoise into audio.
        video: noise to denoise into video.
    """

    text: Float[Tensor, "L Ht"]
    image: Float[Tensor, "c 1 2h 2w"] | None
    audio: Float[Tensor, "Ca t 2"]
    video: Float[Tensor, "c t 2h 2w"]

    @property
    def size(self) -> RequestSize:
        """The rows it takes."""
        image = None if self.image is None else _patches(self.image)
        return RequestSize(self.text.shape[0], image, (self.audio.shape[1], 1, 2), _patches(self.video))


@dataclass(frozen=True)
class Result:
    """What was made of one request, shaped as its noise was."""

    audio: Float[Tensor, "Ca t 2"]
    video: Float[Tensor, "c t 2h 2w"]


class Arguments(TypedDict):
    """Arguments of `PackedDiT.forward`, which says what they are."""

    x: Tensor
    audio_x: Tensor
    prompt_embeds: Tensor
    token_tags: Tensor
    unique_timesteps: Tensor
    inverse_indices: Tensor
    img_position_ids: Tensor
    img_pos: Tensor
    audio_pos: Tensor
    text_pos: Tensor
    update_mask: Tensor
    cu_seqlens_q: Tensor
    cu_seqlens_k: Tensor
    cu_seqlens_q_host: tuple[int, ...]
    cu_seqlens_k_host: tuple[int, ...]
    max_seqlen: int


@dataclass(frozen=True)
class Batch:
    """Packed requests.

    Attributes:
        layout: where their rows are.
        sizes: of each request.
        arguments: for the first denoising step, at timestep 1.
    """

    layout: PackedLayout
    sizes: tuple[RequestSize, ...]
    arguments: Arguments


def prepare(requests: Sequence[Request], device: torch.device | str = "cpu") -> Batch:
    """Packs `requests` into one row on `device`."""
    sizes = tuple(request.size for request in requests)
    layout = pack_requests(sizes).to(device)
    images = [request.image for request in requests if request.image is not None]
    video = {"video": [patchify(request.video) for request in requests], "image": [patchify(image) for image in images]}
    audio = {"audio": [request.audio.flatten(1).T for request in requests]}

    img_pos = layout.part_index("image", "video")
    denoised = layout.part_index("audio", "video")
    is_video = torch.zeros(layout.seq_len, dtype=torch.bool, device=device)
    is_video = is_video.index_fill(0, layout.part_index("video"), value=True)
    # Text and the reference image are clean: timestep 0.
    inverse_indices = torch.zeros(layout.seq_len, dtype=torch.int64, device=device).index_fill(0, denoised, 1)
    arguments = Arguments(
        x=_packed(layout, video),
        audio_x=_packed(layout, audio),
        prompt_embeds=torch.cat([request.text for request in requests]).to(device),
        token_tags=layout.token_tags,
        unique_timesteps=torch.tensor([0.0, 1.0], device=device),
        inverse_indices=inverse_indices,
        img_position_ids=row_positions(layout),
        img_pos=img_pos,
        audio_pos=layout.part_index("audio"),
        text_pos=layout.part_index("text"),
        update_mask=is_video.index_select(0, img_pos),
        cu_seqlens_q=layout.cu_seqlens,
        cu_seqlens_k=layout.cu_seqlens,
        cu_seqlens_q_host=layout.cu_seqlens_host,
        cu_seqlens_k_host=layout.cu_seqlens_host,
        max_seqlen=layout.max_seqlen,
    )
    return Batch(layout, sizes, arguments)


@torch.no_grad()
def denoise(model: PackedDiT, batch: Batch, steps: int) -> list[Result]:
    """Runs `steps` Euler steps from noise (timestep 1) to data (timestep 0)."""
    arguments = batch.arguments.copy()
    for step in range(steps):
        arguments["unique_timesteps"] = torch.tensor([0.0, 1 - step / steps], device=batch.layout.device)
        velocity, audio_velocity = model(**arguments)
        arguments["x"] = arguments["x"].index_add(1, arguments["img_pos"], -velocity.unsqueeze(0) / steps)
        arguments["audio_x"] = arguments["audio_x"].index_add(
            1, arguments["audio_pos"], -audio_velocity.unsqueeze(0) / steps
        )
    video = arguments["x"][0].index_select(0, batch.layout.part_index("video"))
    audio = arguments["audio_x"][0].index_select(0, batch.layout.part_index("audio"))
    results, video_start, audio_start = [], 0, 0
    for size in batch.sizes:
        t, h, w = size.video
        rows = video[video_start : video_start + t * h * w]
        audio_rows = audio[audio_start : audio_start + 2 * size.audio[0]]
        video_start, audio_start = video_start + len(rows), audio_start + len(audio_rows)
        results.append(Result(audio_rows.T.reshape(-1, size.audio[0], 2), unpatchify(rows, size.video)))
    return results


def random_request(size: RequestSize, config: Config | None = None, seed: int = 0) -> Request:
    """A request of that size: a random prompt and image, and noise to denoise."""
    config = config or Config()
    generator = torch.Generator().manual_seed(seed)
    channels = config.channels // PATCH**2

    def latent(grid: tuple[int, int, int]) -> Tensor:
        return torch.randn(channels, grid[0], PATCH * grid[1], PATCH * grid[2], generator=generator)

    return Request(
        text=torch.randn(size.text, config.text_channels, generator=generator),
        image=None if size.image is None else latent(size.image),
        audio=torch.randn(config.audio_channels, size.audio[0], 2, generator=generator),
        video=latent(size.video),
    )


def patchify(latent: Float[Tensor, "c t 2h 2w"]) -> Float[Tensor, "rows 4c"]:
    """One row for each patch of 1 x 2 x 2, in the order (t, h, w)."""
    t, h, w = _patches(latent)
    patches = latent.view(-1, t, h, PATCH, w, PATCH)
    return patches.permute(1, 2, 4, 0, 3, 5).reshape(t * h * w, -1)


def unpatchify(rows: Float[Tensor, "rows 4c"], grid: tuple[int, int, int]) -> Float[Tensor, "c t 2h 2w"]:
    """The inverse of `patchify`."""
    t, h, w = grid
    patches = rows.view(t, h, w, -1, PATCH, PATCH)
    return patches.permute(3, 0, 1, 4, 2, 5).reshape(-1, t, PATCH * h, PATCH * w)


def _patches(latent: Tensor) -> tuple[int, int, int]:
    """The grid `(t, h, w)` of its patches."""
    _, t, height, width = latent.shape
    return t, height // PATCH, width // PATCH


def _packed(layout: PackedLayout, rows: dict[str, list[Tensor]]) -> Float[Tensor, "1 S width"]:
    """The packed row that holds these parts of all requests; 0 in the rows of all other parts."""
    first = next(tensors[0] for tensors in rows.values() if tensors)
    parts = {}
    for name in layout.geometry.names:
        tensors = rows.get(name) or [first.new_zeros(len(layout.part_index(name)), first.shape[1])]
        parts[name] = torch.cat(tensors).unsqueeze(0).to(layout.device)
    return layout.cat(parts, dim=1)
