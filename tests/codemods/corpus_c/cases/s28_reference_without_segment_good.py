import torch


class EditTransformer(torch.nn.Module):
    def forward(self, instruction, reference, target, timestep):
        stream = torch.cat((instruction, reference, target), dim=1)
        counts = torch.tensor(
            [instruction.shape[1], reference.shape[1], target.shape[1]],
            device=stream.device,
        )
        segment_ids = torch.arange(counts.numel(), device=stream.device).repeat_interleave(counts)
        temb = self.time_embed(timestep)
        for block in self.blocks:
            stream = block(stream, temb, segment_ids=segment_ids)
        return stream[:, -target.shape[1] :]
