import torch


def collate_padding_free(examples, limit):
    ids = [torch.as_tensor(e["input_ids"]) for e in examples]
    targets = [torch.as_tensor(e["labels"]) for e in examples]
    ids = [i[:limit] for i in ids]
    targets = [t[:limit] for t in targets]
    sizes = torch.tensor([i.numel() for i in ids])
    cu_seqlens = torch.nn.functional.pad(sizes.cumsum(0, dtype=torch.int32), (1, 0))
    return {
        "input_ids": torch.cat(ids)[None],
        "labels": torch.cat(targets)[None],
        "cu_seqlens": cu_seqlens,
        "max_seqlen": int(sizes.max()),
    }
