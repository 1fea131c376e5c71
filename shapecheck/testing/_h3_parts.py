"""Calls of MiniMax-H3's prompt refiner and rope cache, valid and broken ones."""

from collections.abc import Iterator

import torch

from shapecheck._layout import PackedLayout
from shapecheck.testing._edits import boundaries, required, unlike
from shapecheck.testing._oracle import Call, Mutant, replaced


def refiner_call(layout: PackedLayout) -> Call:
    """The text rows of `layout`, of which the first sample's are live."""
    live = int(layout.part_index("text").numel())
    return {
        "prompt_embeds": torch.zeros(live + 3, 5120, dtype=torch.bfloat16, device=layout.device),
        "refiner_cu_seqlens": torch.tensor([0, live, live], dtype=torch.int32, device=layout.device),
    }


def refiner_mutants(call: Call) -> Iterator[Mutant]:
    """`refiner_call` with one thing broken."""
    embeds, path = call["prompt_embeds"], "refiner_cu_seqlens"
    yield from required(call, "prompt_embeds")
    yield unlike(call, "prompt_embeds", "refined already", torch.cat([embeds, embeds[:, :256]], 1))
    yield unlike(call, "prompt_embeds", "a batch axis", embeds[None])
    yield unlike(call, "prompt_embeds", "token ids", embeds.long())
    yield from required(call, path)
    yield from boundaries(call, path, tail=False)
    yield unlike(call, path, "without the empty segment", call[path][:2])
    over = torch.full_like(call[path], embeds.shape[0] + 1)
    over[0] = 0
    yield Mutant(f"{path}: more rows than there are", replaced(call, path, over), "host")


def rope_call(layout: PackedLayout) -> Call:
    """The coordinates of every row."""
    return {"img_position_ids": torch.zeros(1, layout.seq_len, 3, device=layout.device)}


def rope_mutants(call: Call) -> Iterator[Mutant]:
    """`rope_call` with one thing broken."""
    path = "img_position_ids"
    ids = call[path]
    yield from required(call, path)
    yield unlike(call, path, "no batch axis", ids[0])
    yield unlike(call, path, "a batch of two", ids.expand(2, -1, -1))
    yield unlike(call, path, "coordinates of two axes", ids[..., :2])
    yield unlike(call, path, "complex", ids.to(torch.complex64))
