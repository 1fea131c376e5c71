def expand_images(token_ids, labels, image_token, image_sizes):
    sizes = iter(image_sizes)
    out_ids, out_labels, types = [], [], []
    for token, label in zip(token_ids, labels):
        if token == image_token:
            n = next(sizes)
            out_ids.extend([image_token] * n)
            out_labels.extend([-100] * n)
            types.extend([1] * n)
        else:
            out_ids.append(token)
            out_labels.append(label)
            types.append(0)
    return {
        "input_ids": out_ids,
        "labels": out_labels,
        "mm_token_type_ids": types,
        "attention_mask": [1] * len(out_ids),
    }
