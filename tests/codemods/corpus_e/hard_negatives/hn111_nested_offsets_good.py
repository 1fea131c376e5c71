import torch


def collate_image_rows(samples):
    pixels, cu_seqlens, sample_starts = [], [0], []
    for sample in samples:
        sample_starts.append(cu_seqlens[-1])
        for image in sample["images"]:
            pixels.append(image["patches"])
            cu_seqlens.append(cu_seqlens[-1] + image["patches"].shape[0])
    sample_starts.append(cu_seqlens[-1])
    return {
        "pixel_values": torch.cat(pixels),
        "cu_seqlens": torch.tensor(cu_seqlens, dtype=torch.int32),
        "sample_starts": torch.tensor(sample_starts, dtype=torch.int32),
    }
