from torch import nn


class LastTokenPooler(nn.Module):
    def __init__(self, normalize=True):
        super().__init__()
        self.normalize = normalize

    def forward(self, hidden_states, prompt_lens):
        cu_seqlens = nn.functional.pad(prompt_lens.cumsum(0), (1, 0))
        pooled = hidden_states[cu_seqlens[1:] - 1]
        if self.normalize:
            pooled = nn.functional.normalize(pooled, dim=-1)
        return pooled
