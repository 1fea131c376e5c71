import torch


class StreamingPacker:
    def flush(self):
        bounds = [torch.zeros(1, dtype=torch.int32)]
        shift = 0
        for part in self.pending:
            ends = torch.cumsum(part.lengths, dim=0, dtype=torch.int32)
            bounds.append(ends + shift)
            shift += int(ends[-1])
        features = torch.cat([part.features for part in self.pending])
        self.pending.clear()
        return features, torch.cat(bounds)
