import torch
from torch.nn.utils.rnn import pad_sequence


class PooledEmbedder(torch.nn.Module):
    def forward(self, token_lists):
        rows = [torch.tensor(t, device=self.device) for t in token_lists]
        sizes = torch.tensor([r.numel() for r in rows], device=self.device)
        ids = pad_sequence(rows, batch_first=True, padding_value=self.pad_id)
        mask = torch.arange(ids.shape[1], device=self.device)[None] < sizes[:, None]
        hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        return hidden[torch.arange(len(rows), device=self.device), sizes - 1]
