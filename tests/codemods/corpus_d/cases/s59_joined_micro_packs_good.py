from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class MicroPack:
    tokens: torch.Tensor
    advantages: torch.Tensor
    cu_seqlens: list[int]
    max_seqlen: int

    @staticmethod
    def join(packs: list[MicroPack]) -> MicroPack:
        edges = [0]
        for pack in packs:
            base = edges[-1]
            edges.extend([base + e for e in pack.cu_seqlens[1:]])
        return MicroPack(
            tokens=torch.cat([p.tokens for p in packs]),
            advantages=torch.cat([p.advantages for p in packs]),
            cu_seqlens=edges,
            max_seqlen=max(p.max_seqlen for p in packs),
        )
