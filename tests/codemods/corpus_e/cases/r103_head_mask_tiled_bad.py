import torch


class TextVideoAttention(torch.nn.Module):
    def forward(self, video, text, text_mask):
        batch, frames, dim = video.shape
        words = text.shape[1]
        head_dim = dim // self.nhead
        q = self.q(video).view(batch, frames, self.nhead, head_dim).transpose(1, 2)
        k = self.k(text).view(batch, words, self.nhead, head_dim).transpose(1, 2)
        v = self.v(text).view(batch, words, self.nhead, head_dim).transpose(1, 2)
        q, k, v = (t.reshape(batch * self.nhead, -1, head_dim) for t in (q, k, v))
        hidden = ~text_mask.bool()[:, None, :].expand(-1, frames, -1)
        hidden = hidden.repeat(self.nhead, 1, 1)
        scores = torch.bmm(q, k.transpose(1, 2)) * head_dim**-0.5
        weights = scores.masked_fill(hidden, float("-inf")).softmax(dim=-1)
        out = torch.bmm(weights, v).view(batch, self.nhead, frames, head_dim)
        return self.o(out.transpose(1, 2).reshape(batch, frames, dim))
