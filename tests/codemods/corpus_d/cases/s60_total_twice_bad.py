import torch
from fla.ops.gated_delta_rule import chunk_gated_delta_rule


class RecurrentMixer(torch.nn.Module):
    def forward(self, samples):
        x = torch.cat(samples).unsqueeze(0)
        sizes = torch.tensor([s.shape[0] for s in samples], device=x.device)
        cu_seqlens = torch.nn.functional.pad(sizes.cumsum(0), (1, 0))
        cu_seqlens = torch.cat([cu_seqlens, cu_seqlens.new_tensor([x.shape[1]])])
        q, k, v, g, beta = self.in_proj(x)
        out, state = chunk_gated_delta_rule(
            q,
            k,
            v,
            g,
            beta,
            output_final_state=True,
            cu_seqlens=cu_seqlens,
        )
        return self.out_proj(out), state
