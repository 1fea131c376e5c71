import torch


class JointBlock(torch.nn.Module):
    def forward(self, image, text, rope):
        n_text = text.shape[1]
        q = torch.cat([self.add_q(text), self.to_q(image)], dim=1)
        k = torch.cat([self.add_k(text), self.to_k(image)], dim=1)
        v = torch.cat([self.add_v(text), self.to_v(image)], dim=1)
        out = self.attend(q, k, v, rope)
        return out[:, n_text:], out[:, :n_text]
