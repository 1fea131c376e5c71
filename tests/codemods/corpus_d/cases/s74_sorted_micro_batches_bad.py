import torch


class LogProbWorker:
    @torch.no_grad()
    def compute(self, batch):
        sizes = batch["attention_mask"].sum(dim=-1)
        order = torch.argsort(sizes, descending=True)
        pieces = []
        for rows in order.split(self.micro_batch_size):
            width = int(sizes[rows].max())
            micro = {name: value[rows, :width] for name, value in batch.items()}
            lp = self.model.token_log_probs(**micro)
            pieces.append(torch.nn.functional.pad(lp, (0, batch["input_ids"].shape[1] - width)))
        log_probs = torch.cat(pieces)
        return log_probs[order]
