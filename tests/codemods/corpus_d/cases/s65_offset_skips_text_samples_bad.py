import numpy as np


def pack_multimodal(samples, image_token):
    stream, pixels, slots = [], [], []
    offset = 0
    for s in samples:
        ids = np.asarray(s["input_ids"])
        stream.append(ids)
        if "pixel_values" in s:
            pixels.append(s["pixel_values"])
            slots.append(np.flatnonzero(ids == image_token) + offset)
            offset += ids.size
    return {
        "input_ids": np.concatenate(stream),
        "pixel_values": np.concatenate(pixels) if pixels else None,
        "image_index": np.concatenate(slots) if slots else None,
    }
