import torch
from vllm.vllm_flash_attn import flash_attn_varlen_func


class PagedDecode(torch.nn.Module):
    def forward(self, q, key_cache, value_cache, metadata):
        batch = metadata.seq_lens.shape[0]
        cu_seqlens_q = torch.arange(batch + 1, dtype=torch.int32, device=q.device)
        return flash_attn_varlen_func(
            q=q,
            k=key_cache,
            v=value_cache,
            cu_seqlens_q=cu_seqlens_q,
            max_seqlen_q=1,
            seqused_k=metadata.seq_lens,
            max_seqlen_k=metadata.max_seq_len,
            softmax_scale=self.scale,
            causal=True,
            block_table=metadata.block_table,
        )
