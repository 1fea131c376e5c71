import torch
from flash_attn import flash_attn_varlen_func


class PackedCrossAttention(torch.nn.Module):
    def forward(self, batch):
        batch = [sample for sample in batch if len(sample["target"]) > 1]
        sources = [self.encode(sample["source"]) for sample in batch]
        targets = [self.embed(sample["target"]) for sample in batch]
        enc_lens = torch.tensor([s.shape[0] for s in sources], dtype=torch.int32)
        dec_lens = torch.tensor([t.shape[0] for t in targets], dtype=torch.int32)
        q = self.q_proj(torch.cat(targets)).unflatten(-1, (self.heads, -1))
        k, v = self.kv_proj(torch.cat(sources)).unflatten(-1, (2, self.heads, -1)).unbind(1)
        zero = torch.zeros(1, dtype=torch.int32)
        return flash_attn_varlen_func(
            q,
            k,
            v,
            cu_seqlens_q=torch.cat([zero, dec_lens.cumsum(0, dtype=torch.int32)]).to(q.device),
            cu_seqlens_k=torch.cat([zero, enc_lens.cumsum(0, dtype=torch.int32)]).to(q.device),
            max_seqlen_q=int(dec_lens.max()),
            max_seqlen_k=int(enc_lens.max()),
        )
