import torch


def vl_collate(samples):
    ids, grids, counts = [], [], []
    for s in samples:
        ids.append(s["input_ids"])
        if s.get("image_grid_thw") is not None:
            grids.append(s["image_grid_thw"])
            counts.append(s["image_grid_thw"].shape[0])
        else:
            counts.append(0)
    return {
        "input_ids": torch.stack(ids),
        "image_grid_thw": torch.cat(grids) if grids else None,
        "images_per_sample": torch.tensor(counts),
    }
