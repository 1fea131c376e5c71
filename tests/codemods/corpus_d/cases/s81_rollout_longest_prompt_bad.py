import torch
from flash_attn import flash_attn_varlen_func


class PackedActorAttention(torch.nn.Module):
    def pack_rollouts(self, rollouts, device):
        sequences = []
        for r in rollouts:
            sequences.append(torch.cat([r.prompt_ids, r.response_ids]))
        sizes = [s.numel() for s in sequences]
        edges = torch.tensor([0, *sizes], device=device).cumsum(0).to(torch.int32)
        longest = max(r.prompt_ids.numel() for r in rollouts)
        return torch.cat(sequences).to(device), edges, longest

    def forward(self, rollouts, embed):
        ids, edges, longest = self.pack_rollouts(rollouts, embed.weight.device)
        q, k, v = self.qkv(embed(ids)).view(ids.numel(), 3, self.n_heads, -1).unbind(1)
        out = flash_attn_varlen_func(q, k, v, edges, edges, longest, longest, causal=True)
        return self.proj(out.flatten(1))
