import torch


class PackBuilder:
    ignore = -100

    def build(self, samples):
        tokens = torch.cat([torch.tensor(s["tokens"]) for s in samples])
        labels = torch.cat([torch.tensor(s["labels"]) for s in samples])
        labels = torch.cat([labels[1:], labels.new_tensor([self.ignore])])
        input_pos = torch.cat([torch.arange(len(s["tokens"])) for s in samples])
        seq_lens = torch.tensor([len(s["tokens"]) for s in samples])
        return {
            "tokens": tokens,
            "labels": labels,
            "input_pos": input_pos,
            "seq_lens": seq_lens,
        }
