PER_TOKEN = ("input_ids", "attention_mask", "mm_token_type_ids", "labels")


def crop_completion(inputs, prompt_len, limit, image_token):
    stop = prompt_len + limit
    cropped = {name: value[:, :stop] for name, value in inputs.items() if name in PER_TOKEN}
    if (inputs["input_ids"][:, stop:] == image_token).any():
        raise ValueError("images may only occur in the prompt")
    cropped["pixel_values"] = inputs["pixel_values"]
    cropped["image_grid_thw"] = inputs["image_grid_thw"]
    return cropped
