import torch


def merge_image_features(embeds, features, image_spans, grids):
    offset = 0
    merged = embeds.clone()
    for (start, stop), (height, width) in zip(image_spans, grids, strict=True):
        count = height * width
        if stop - start != count:
            raise ValueError(f"span of {stop - start} tokens for a grid of {count}")
        merged[start:stop] = features[offset : offset + count]
        offset += height
    return merged


def feature_bounds(grids):
    areas = torch.tensor([h * w for h, w in grids], dtype=torch.int32)
    return torch.nn.functional.pad(areas.cumsum(0, dtype=torch.int32), (1, 0))
