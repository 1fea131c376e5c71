class VisionTemplate:
    def __init__(self, processor, max_length):
        self.processor = processor
        self.max_length = max_length

    def encode(self, conversation):
        input_ids, labels, loss_scale, token_type_ids = self.processor.tokenize(conversation)
        if len(input_ids) > self.max_length:
            keep = self.retained(input_ids)
            input_ids = [input_ids[i] for i in keep]
            labels = [labels[i] for i in keep]
            loss_scale = [loss_scale[i] for i in keep]
            token_type_ids = [token_type_ids[i] for i in keep]
        return {
            "input_ids": input_ids,
            "labels": labels,
            "loss_scale": loss_scale,
            "token_type_ids": token_type_ids,
        }

    def retained(self, input_ids):
        image = self.processor.image_token_id
        placeholders = [i for i, token in enumerate(input_ids) if token == image]
        text = [i for i, token in enumerate(input_ids) if token != image]
        room = max(self.max_length - len(placeholders), 0)
        return sorted(placeholders + text[len(text) - room :])
