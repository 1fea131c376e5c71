import torch


class PackedRewardHead(torch.nn.Module):
    def forward(self, sequences, position_ids):
        sizes = torch.tensor([s.numel() for s in sequences], device=position_ids.device)
        ids = torch.cat(sequences).unsqueeze(0)
        hidden = self.backbone(input_ids=ids, position_ids=position_ids).last_hidden_state
        scores = self.score(hidden).squeeze(0).squeeze(-1)
        return scores[sizes.cumsum(0) - 1]
