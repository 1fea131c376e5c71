import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class DurationEncoder(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.rnn = torch.nn.LSTM(dim, dim // 2, batch_first=True, bidirectional=True)

    def forward(self, x, lengths):
        lengths, order = torch.sort(lengths, descending=True)
        packed = pack_padded_sequence(x[order], lengths.cpu(), batch_first=True)
        out, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=x.shape[1])
        restored = torch.empty_like(out)
        restored[order] = out
        return restored
