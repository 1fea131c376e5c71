import torch


class JointBlock(torch.nn.Module):
    def forward(self, text, text_mask, image, freqs_text, freqs_image):
        batch, n = image.shape[:2]
        text_lens = text_mask.sum(dim=1).tolist()
        rows, freqs, lens = [], [], []
        for i, count in enumerate(text_lens):
            rows += [text[i, :count], image[i]]
            freqs += [freqs_text[:count], freqs_image]
            lens.append(count + n)
        x = torch.cat(rows)
        cu_seqlens = torch.tensor([0, *lens], dtype=torch.int32, device=x.device).cumsum(0, dtype=torch.int32)
        x = self.attn(x, torch.cat(freqs), cu_seqlens=cu_seqlens, max_seqlen=max(lens))
        text_out = torch.zeros_like(text)
        image_out = torch.empty_like(image)
        for i, part in enumerate(x.split(lens)):
            text_out[i, : text_lens[i]] = part[: text_lens[i]]
            image_out[i] = part[text_lens[i] :]
        return text_out, image_out
