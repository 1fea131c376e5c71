from transformers import default_data_collator


class FlatteningCollator:
    def __init__(self, separator_id=-100):
        self.separator_id = separator_id

    def __call__(self, features):
        flat = {"input_ids": [], "labels": [], "position_ids": []}
        for feature in features:
            flat["input_ids"] += feature["input_ids"]
            flat["position_ids"] += range(len(feature["input_ids"]))
            flat["labels"] += [self.separator_id, *feature["labels"][1:]]
        return default_data_collator([flat], return_tensors="pt")
