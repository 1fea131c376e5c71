class VisionProcessor:
    def __init__(self, tokenizer, image_processor, image_token_id):
        self.tokenizer = tokenizer
        self.image_processor = image_processor
        self.image_token_id = image_token_id

    def __call__(self, text, images):
        pixels = self.image_processor(images)
        token_ids = self.tokenizer.encode(text)
        counts = iter(pixels["num_patches"])
        input_ids = []
        for token in token_ids:
            if token == self.image_token_id:
                input_ids += [token] * next(counts)
            else:
                input_ids.append(token)
        attention_mask = [1] * len(input_ids)
        return {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "pixel_values": pixels["pixel_values"],
        }
