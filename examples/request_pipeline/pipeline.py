"""Packs requests for the encoder by hand, as code that grew over several releases does."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from .model import Encoder

TEXT, IMAGE, AUDIO = 0, 1, 2


@dataclass(frozen=True)
class Request:
    """Embedded parts of one request, each `[rows, C]`."""

    text: Tensor
    image: Tensor
    audio: Tensor


def encode_one(model: Encoder, request: Request) -> Tensor:
    """One request."""
    text, image, audio = request.text, request.image, request.audio
    x = torch.cat([text, image, audio])
    token_tags = torch.cat(
        [
            torch.full((text.shape[0],), TEXT),
            torch.full((image.shape[0],), IMAGE),
        ]
    )
    cu_seqlens = torch.tensor([0, x.shape[0]], dtype=torch.int32)
    return model(
        x,
        token_tags=token_tags,
        position_ids=torch.arange(x.shape[0]),
        cu_seqlens=cu_seqlens,
        max_seqlen=x.shape[0],
    )


def encode_prompted(model: Encoder, prompt: Tensor, image: Tensor) -> Tensor:
    """An image with a prompt before it."""
    x = torch.cat([prompt, image])
    image_tags = torch.full((image.shape[0],), IMAGE)
    prompt_tags = torch.full((prompt.shape[0],), TEXT)
    token_tags = torch.cat([image_tags, prompt_tags])
    position_ids = torch.arange(x.shape[0])
    cu_seqlens = torch.tensor([0, x.shape[0]], dtype=torch.int32)
    return model(x, token_tags=token_tags, position_ids=position_ids, cu_seqlens=cu_seqlens, max_seqlen=x.shape[0])


def encode_texts(model: Encoder, texts: list[Tensor]) -> Tensor:
    """Several prompts as one packed row."""
    lens = torch.tensor([text.shape[0] for text in texts])
    x = torch.cat(texts)
    cu_seqlens = functional.pad(lens.cumsum(0), (1, 0))
    max_seqlen = int((cu_seqlens[1:] - cu_seqlens[:1]).max())
    position_ids = torch.cat([torch.arange(text.shape[0]) for text in texts])
    token_tags = torch.full((x.shape[0],), TEXT)
    return model(x, token_tags=token_tags, position_ids=position_ids, cu_seqlens=cu_seqlens, max_seqlen=max_seqlen)
