class EncodeMixin:
    def truncate(self, row):
        if len(row["input_ids"]) <= self.max_length:
            return row
        span = slice(-self.max_length, None) if self.side == "left" else slice(self.max_length)
        row["input_ids"] = row["input_ids"][span]
        row["labels"] = row["labels"][span]
        row["loss_scale"] = row["loss_scale"][span]
        row["token_type_ids"] = row["token_type_ids"][span]
        return row

    def collate(self, rows):
        out = {}
        for name in ("input_ids", "labels", "loss_scale", "token_type_ids"):
            fill = self.pad_values[name]
            width = max(len(r[name]) for r in rows)
            out[name] = [r[name] + [fill] * (width - len(r[name])) for r in rows]
        return out
