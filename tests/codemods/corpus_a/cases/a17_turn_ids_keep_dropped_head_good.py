class DialogueEncoder:
    def __init__(self, tokenizer, limit):
        self.tokenizer = tokenizer
        self.limit = limit

    def __call__(self, turns):
        input_ids, segment_ids = [], []
        for index, turn in enumerate(turns):
            ids = self.tokenizer.encode(turn["text"], add_special_tokens=False)
            ids.append(self.tokenizer.eos_token_id)
            input_ids.extend(ids)
            segment_ids.extend([index] * len(ids))
        input_ids = input_ids[-self.limit :]
        segment_ids = segment_ids[-self.limit :]
        return {
            "input_ids": input_ids,
            "segment_ids": segment_ids,
            "attention_mask": [1] * len(input_ids),
        }
