from dataclasses import dataclass

import torch


@dataclass
class PackedBin:
    tokens: torch.Tensor
    cu_seqlens: torch.Tensor
    num_documents: int

    @classmethod
    def build(cls, documents, bin_size, pad_token):
        tokens, cu_seqlens = [], [0]
        for doc in documents:
            tokens.extend(doc)
            cu_seqlens.append(len(doc))
        missing = bin_size - len(tokens)
        if missing > 0:
            tokens.extend([pad_token] * missing)
            cu_seqlens.append(missing)
        return cls(
            tokens=torch.tensor(tokens),
            cu_seqlens=torch.tensor(cu_seqlens, dtype=torch.int32),
            num_documents=len(documents),
        )
