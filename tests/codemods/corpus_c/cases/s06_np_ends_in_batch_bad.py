import numpy as np
import torch


def collate_documents(docs, device):
    flat = np.concatenate([d["ids"] for d in docs])
    sizes = np.array([len(d["ids"]) for d in docs], dtype=np.int32)
    pos = np.concatenate([np.arange(n) for n in sizes])
    edges = np.cumsum(sizes, dtype=np.int32)
    return {
        "input_ids": torch.from_numpy(flat).to(device)[None],
        "position_ids": torch.from_numpy(pos).to(device)[None],
        "cu_seqlens": torch.from_numpy(edges).to(device),
        "max_seqlen": int(sizes.max()),
    }
