from dataclasses import dataclass
from itertools import accumulate, chain

import torch


@dataclass
class VarlenBatch:
    tokens: torch.Tensor
    cu_seqlens: torch.Tensor
    max_seqlen: int

    @classmethod
    def from_sequences(cls, sequences: list[list[int]], device: str) -> "VarlenBatch":
        lens = [len(sequence) for sequence in sequences]
        offsets = [0, *accumulate(lens, initial=0)]
        return cls(
            tokens=torch.tensor(list(chain.from_iterable(sequences)), device=device),
            cu_seqlens=torch.tensor(offsets, dtype=torch.int32, device=device),
            max_seqlen=max(lens),
        )
