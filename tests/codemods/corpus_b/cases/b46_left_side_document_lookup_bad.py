import torch
from torch.nn.attention.flex_attention import create_block_mask


def document_block_mask(cu_seqlens, total):
    token = torch.arange(total, device=cu_seqlens.device)
    document = torch.searchsorted(cu_seqlens, token) - 1

    def same_document(b, h, q_idx, kv_idx):
        return (q_idx >= kv_idx) & (document[q_idx] == document[kv_idx])

    return create_block_mask(same_document, None, None, total, total, device=cu_seqlens.device)
