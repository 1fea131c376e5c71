import torch
from fla.ops.simple_gla import chunk_simple_gla


class AudioDecoderLayer(torch.nn.Module):
    def forward(self, codes, code_lens):
        cu_seqlens = torch.nn.functional.pad(code_lens.cumsum(0), (1, 0))
        frames = self.embed(codes).repeat_interleave(self.rate, dim=1)
        cu_seqlens = cu_seqlens * self.rate
        cu_seqlens_cpu = cu_seqlens.cpu()
        q, k, v, g = self.project(frames)
        out, _ = chunk_simple_gla(
            q,
            k,
            v,
            g=g,
            cu_seqlens=cu_seqlens,
            cu_seqlens_cpu=cu_seqlens_cpu,
        )
        return self.out(out.flatten(-2))
