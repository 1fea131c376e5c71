import torch
import torch.nn.functional as F


class SequenceShardCollator:
    def __call__(self, batch):
        pos = batch["position_ids"]
        starts = torch.nonzero(pos[0] == 0).flatten()
        total = starts.new_tensor([pos.shape[1]])
        batch["cu_seqlens"] = torch.cat([starts, total]).int()
        fill = -pos.shape[1] % self.sp_size
        if fill:
            batch["input_ids"] = F.pad(batch["input_ids"], (0, fill), value=self.pad_id)
            batch["shift_labels"] = F.pad(batch["shift_labels"], (0, fill), value=-100)
            tail = torch.arange(fill, device=pos.device)[None]
            batch["position_ids"] = torch.cat([pos, tail], dim=1)
        local = batch["input_ids"].shape[1] // self.sp_size
        begin = self.sp_rank * local
        batch["input_ids"] = batch["input_ids"][:, begin : begin + local]
        batch["shift_labels"] = batch["shift_labels"][:, begin : begin + local]
        return batch
