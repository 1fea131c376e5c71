import torch


class WindowedRows:
    def __init__(self, window):
        self.window = window

    def stack(self, rows, pad):
        kept = [min(len(r), self.window) for r in rows]
        width = max(kept)
        ids = torch.full((len(rows), width), pad)
        for i, (row, n) in enumerate(zip(rows, kept)):
            ids[i, :n] = torch.as_tensor(row[: self.window])
        return ids, torch.tensor(kept)
