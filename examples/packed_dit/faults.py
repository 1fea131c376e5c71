"""The three faults that shapecheck starts from, as careless callers write them.

Each function calls `forward`, which is the model, or the model without its contract; the demo and the tests run both.
`pipeline.prepare` shows how to do it right.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from inspect import unwrap

import torch
from torch import Tensor
from torch.nn import functional

from packed_dit.layout import ALIGN, TAGS, pack_requests
from packed_dit.model import PackedDiT
from packed_dit.pipeline import Batch
from shapecheck import PackedLayout

Forward = Callable[..., tuple[Tensor, Tensor]]


def without_contract(model: PackedDiT) -> Forward:
    """The model's forward as it would run undecorated."""
    return partial(unwrap(PackedDiT.forward), model)


def tags_of_one_modality(forward: Forward, batch: Batch) -> tuple[Tensor, Tensor]:
    # It is a video model, so the tags are made from the video.
    t, h, w = batch.sizes[0].video
    tags = torch.zeros(t * h * w, dtype=torch.int64)
    return forward(**{**batch.arguments, "token_tags": tags})


def tags_before_padding(forward: Forward, batch: Batch) -> tuple[Tensor, Tensor]:
    # Right for every part; the rows were then padded to a multiple of 64, and the tags were not.
    (parts,) = batch.layout.samples
    tags = torch.cat([torch.full((part.rows,), TAGS[part.name]) for part in parts])
    return forward(**{**batch.arguments, "token_tags": tags})


def layout_of_cached_seq_len(batch: Batch, cached_seq_len: int) -> PackedLayout:
    # Cached from the last request, which had no reference image.
    (size,) = batch.sizes
    return PackedLayout.pack(size.parts(), align=ALIGN, tags=TAGS, seq_len=cached_seq_len)


def rows_of_cached_seq_len(forward: Forward, batch: Batch, cached_seq_len: int) -> tuple[Tensor, Tensor]:
    # The same by hand. A negative amount of padding trims, and says nothing.
    missing = cached_seq_len - batch.layout.seq_len
    trimmed = {
        "x": functional.pad(batch.arguments["x"], (0, 0, 0, missing)),
        "audio_x": functional.pad(batch.arguments["audio_x"], (0, 0, 0, missing)),
        "token_tags": functional.pad(batch.arguments["token_tags"], (0, missing)),
        "inverse_indices": functional.pad(batch.arguments["inverse_indices"], (0, missing)),
        "img_position_ids": functional.pad(batch.arguments["img_position_ids"], (0, 0, 0, missing)),
    }
    return forward(**{**batch.arguments, **trimmed})


def keys_of_another_batch(forward: Forward, batch: Batch) -> tuple[Tensor, Tensor]:
    # Written when a row held one request and its padding. Now it holds two, and only the queries know.
    keys = (0, batch.layout.used, batch.layout.seq_len)
    cu_seqlens_k = torch.tensor(keys, dtype=torch.int32)
    return forward(**{**batch.arguments, "cu_seqlens_k": cu_seqlens_k, "cu_seqlens_k_host": keys})


def seq_len_without_image(batch: Batch) -> int:
    """The `seq_len` of the batch's request without its reference image: what a careless cache would hold."""
    (size,) = batch.sizes
    return pack_requests([replace(size, image=None)]).seq_len
