def split_at(batch, index):
    cut = int(batch["cu_seqlens"][index])
    bounds = batch["cu_seqlens"]
    head = {
        "tokens": batch["tokens"][:cut],
        "labels": batch["labels"][:cut],
        "loss_mask": batch["loss_mask"][:cut],
        "cu_seqlens": bounds[: index + 1],
        "temperature": batch["temperature"],
        "num_items": batch["num_items"],
    }
    tail = {
        "tokens": batch["tokens"][cut:],
        "labels": batch["labels"][cut:],
        "loss_mask": batch["loss_mask"][cut:],
        "cu_seqlens": bounds[index:] - cut,
        "temperature": batch["temperature"],
        "num_items": batch["num_items"],
    }
    return head, tail
