import torch
import torch.nn.functional as F


class PackedLoss:
    def forward(self, input_ids, attention_mask, labels, cu_seqlens=None, max_seqlen=None):
        if cu_seqlens is None:
            lens = attention_mask.sum(-1, dtype=torch.int32)
            cu_seqlens = F.pad(lens.cumsum(0, dtype=torch.int32), (1, 0))
            max_seqlen = int(lens.max())
        keep = attention_mask.bool()
        logits = self.model(
            input_ids[keep],
            cu_seqlens=cu_seqlens,
            max_seqlen=max_seqlen,
        )
        return F.cross_entropy(logits, labels[keep], ignore_index=-100)
