import torch


class PreferenceCollator:
    fields = ("input_ids", "labels")

    def __call__(self, examples):
        batch = {}
        for name in self.fields:
            rows = [torch.tensor(e[f"chosen_{name}"]) for e in examples]
            rows += [torch.tensor(e[f"rejected_{name}"]) for e in examples]
            batch[name] = torch.cat(rows)[None]
        sizes = [len(e["chosen_input_ids"]) for e in examples] + [len(e["rejected_input_ids"]) for e in examples]
        batch["position_ids"] = torch.cat([torch.arange(n) for n in sizes])[None]
        batch["num_chosen"] = len(examples)
        return batch
