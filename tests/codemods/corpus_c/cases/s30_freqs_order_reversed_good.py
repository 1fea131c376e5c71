import torch

from .rope import apply_rope


class JointAttnProcessor:
    def __call__(self, attn, hidden, context, img_freqs, txt_freqs):
        q = torch.cat([attn.to_q(hidden), attn.add_q(context)], dim=1)
        k = torch.cat([attn.to_k(hidden), attn.add_k(context)], dim=1)
        v = torch.cat([attn.to_v(hidden), attn.add_v(context)], dim=1)
        freqs = torch.cat([img_freqs, txt_freqs], dim=0)
        q, k = apply_rope(q, freqs), apply_rope(k, freqs)
        out = attn.core(q, k, v)
        return out.split([hidden.shape[1], context.shape[1]], dim=1)
