import torch


class MultimodalCollator:
    def __init__(self, processor, image_token_id):
        self.processor = processor
        self.image_token_id = image_token_id

    def __call__(self, features):
        pixel_values = [f["pixel_values"] for f in features if f.get("pixel_values") is not None]
        if not pixel_values:
            fake = self.processor.dummy_image()
            pixel_values = [fake["pixel_values"]]
            extra = [self.image_token_id] * fake["num_tokens"]
            row = features[0]
            row["input_ids"] = row["input_ids"] + extra
            row["attention_mask"] = row["attention_mask"] + [0] * len(extra)
            row["labels"] = row["labels"] + [-100] * len(extra)
        return {
            "input_ids": torch.tensor([features[0]["input_ids"]]),
            "attention_mask": torch.tensor([features[0]["attention_mask"]]),
            "labels": torch.tensor([features[0]["labels"]]),
            "position_ids": torch.tensor([features[0]["position_ids"]]),
            "pixel_values": torch.cat(pixel_values),
        }
