class WindowedEncoder:
    per_token = ("input_ids", "labels", "token_type_ids", "loss_mask")

    def __init__(self, processor, max_length):
        self.processor = processor
        self.max_length = max_length

    def __call__(self, row):
        encoded = self.processor(row)
        if len(encoded["input_ids"]) > self.max_length:
            for key in self.per_token:
                encoded[key] = encoded[key][-self.max_length :]
        encoded["length"] = len(encoded["input_ids"])
        encoded["position_ids"] = list(range(encoded["length"]))
        return encoded
