import numpy as np


class PaddingFreeCollator:
    def __init__(self, pad_id):
        self.pad_id = pad_id

    def __call__(self, features):
        ids = np.stack([f["input_ids"] for f in features])
        labels = np.stack([f["labels"] for f in features])
        valid = ids != self.pad_id
        lens = valid.sum(axis=0)
        bounds = np.concatenate([[0], np.cumsum(lens)]).astype(np.int32)
        positions = np.concatenate([np.arange(n) for n in lens])
        return {
            "input_ids": ids[valid][None],
            "labels": labels[valid][None],
            "position_ids": positions[None],
            "cu_seq_lens_q": bounds,
            "cu_seq_lens_k": bounds,
            "max_length_q": int(lens.max()),
            "max_length_k": int(lens.max()),
        }
