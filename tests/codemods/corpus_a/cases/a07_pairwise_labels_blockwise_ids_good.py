import torch


class PreferencePackingCollator:
    def __call__(self, examples):
        chosen = [torch.tensor(e["chosen_input_ids"]) for e in examples]
        rejected = [torch.tensor(e["rejected_input_ids"]) for e in examples]
        rows = chosen + rejected
        input_ids = torch.cat(rows).unsqueeze(0)
        position_ids = torch.cat([torch.arange(r.numel()) for r in rows]).unsqueeze(0)
        labels = torch.cat([torch.tensor(e[f"{side}_labels"]) for side in ("chosen", "rejected") for e in examples])
        return {
            "input_ids": input_ids,
            "position_ids": position_ids,
            "labels": labels.unsqueeze(0),
            "num_pairs": len(examples),
        }
