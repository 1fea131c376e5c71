"""Calls of `flash_attn_varlen_func` with keys in pages, valid and broken ones."""

from collections.abc import Iterator

import torch

from shapecheck._layout import PackedLayout
from shapecheck.testing._edits import boundaries, elsewhere, longer, required, unlike
from shapecheck.testing._oracle import Call, Mutant, replaced

PAGE = 16


def call(layout: PackedLayout) -> Call:
    """Queries of `layout`, each sequence with as many keys as it has queries and a page more."""
    used = layout.cu_seqlens.diff() + PAGE
    most = layout.max_seqlen // PAGE + 2
    pages = torch.zeros(most * used.numel(), PAGE, 2, 8, device=layout.device)
    table = torch.arange(pages.shape[0], dtype=torch.int32, device=layout.device).view(used.numel(), most)
    return {
        "q": torch.zeros(layout.seq_len, 4, 8, device=layout.device),
        "k": pages,
        "v": pages.clone(),
        "cu_seqlens_q": layout.cu_seqlens.clone(),
        "seqused_k": used,
        "block_table": table,
        "max_seqlen_q": layout.max_seqlen,
        "max_seqlen_k": layout.max_seqlen + PAGE,
    }


def mutants(call: Call) -> Iterator[Mutant]:
    """`call` with one thing broken."""
    for name in ("q", "k", "v"):
        yield from required(call, name)
        yield unlike(call, name, "integers", call[name].long())
    yield unlike(call, "q", "a batch axis", call["q"][None])
    yield unlike(call, "k", "another head size", call["k"][..., 1:])
    yield unlike(call, "v", "another number of heads", call["v"][..., 1:, :])
    yield from required(call, "cu_seqlens_q")
    yield from boundaries(call, "cu_seqlens_q", tail=False)
    cu = call["cu_seqlens_q"]
    beyond = torch.cat([cu[:-1], cu[-1:] + 1])
    yield Mutant("cu_seqlens_q: beyond the rows", replaced(call, "cu_seqlens_q", beyond), "host")
    for name in ("seqused_k", "block_table"):
        yield longer(call, name)
        yield elsewhere(call, name)
        yield unlike(call, name, "int64", call[name].long())
    yield unlike(call, "seqused_k", "boundaries instead of lengths", cu)
