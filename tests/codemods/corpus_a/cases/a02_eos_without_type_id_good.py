IGNORE_INDEX = -100


class SupervisedEncoder:
    def __init__(self, template, tokenizer):
        self.template = template
        self.tokenizer = tokenizer

    def encode(self, messages, images):
        prompt_ids, prompt_types = self.template.encode_prompt(messages[:-1], images)
        response_ids = self.tokenizer.encode(messages[-1]["content"], add_special_tokens=False)
        eos = self.tokenizer.eos_token_id
        input_ids = prompt_ids + response_ids + [eos]
        labels = [IGNORE_INDEX] * len(prompt_ids) + response_ids + [eos]
        token_type_ids = prompt_types + [0] * (len(response_ids) + 1)
        return {
            "input_ids": input_ids,
            "attention_mask": [1] * len(input_ids),
            "labels": labels,
            "token_type_ids": token_type_ids,
        }
