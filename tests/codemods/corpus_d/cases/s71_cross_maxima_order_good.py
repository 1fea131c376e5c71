import torch
from flash_attn import flash_attn_varlen_func


class PromptCrossAttention(torch.nn.Module):
    def forward(self, patches, patch_lens, prompt, prompt_lens):
        q = self.q(patches).unflatten(-1, (self.heads, -1))
        k, v = self.kv(prompt).unflatten(-1, (2, self.heads, -1)).unbind(1)
        cu_patch = torch.nn.functional.pad(patch_lens.cumsum(0, dtype=torch.int32), (1, 0))
        cu_prompt = torch.nn.functional.pad(prompt_lens.cumsum(0, dtype=torch.int32), (1, 0))
        n_patch = patch_lens.max().item()
        n_prompt = prompt_lens.max().item()
        out = flash_attn_varlen_func(q, k, v, cu_patch, cu_prompt, n_patch, n_prompt)
        return self.out(out.flatten(1))
