import torch


class ScatterInputs:
    def __init__(self, tp_size):
        self.tp_size = tp_size

    def prepare(self, requests, device):
        seq_lens = torch.tensor([len(r.token_ids) for r in requests], dtype=torch.int32, device=device)
        input_ids = torch.cat([torch.tensor(r.token_ids, device=device) for r in requests])
        positions = torch.cat([torch.arange(len(r.token_ids), device=device) for r in requests])
        missing = -input_ids.shape[0] % self.tp_size
        if missing:
            input_ids = torch.cat([input_ids, input_ids.new_zeros(missing)])
            positions = torch.cat([positions, positions.new_zeros(missing)])
        return {"input_ids": input_ids, "positions": positions, "extend_seq_lens": seq_lens}
