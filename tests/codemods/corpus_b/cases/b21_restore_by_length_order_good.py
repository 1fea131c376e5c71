import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class LengthSortedEncoder(torch.nn.Module):
    def forward(self, embedded, lengths):
        order = torch.argsort(lengths, descending=True)
        restore = torch.argsort(order)
        packed = pack_padded_sequence(embedded[order], lengths[order].cpu(), batch_first=True)
        states, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return states[restore], lengths
