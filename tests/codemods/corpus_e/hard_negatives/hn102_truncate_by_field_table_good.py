TOKEN_FIELDS = ("input_ids", "labels", "attention_mask")


class TruncatingProcessor:
    def __init__(self, processor, max_tokens):
        self.processor = processor
        self.max_tokens = max_tokens

    def __call__(self, text, images):
        row = self.processor(text=text, images=images)
        row["labels"] = list(row["input_ids"])
        excess = len(row["input_ids"]) - self.max_tokens
        if excess > 0:
            for name in TOKEN_FIELDS:
                row[name] = row[name][excess:]
        row["length"] = min(len(row["input_ids"]), self.max_tokens)
        return row
