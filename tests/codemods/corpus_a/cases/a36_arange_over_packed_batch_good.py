import torch
import torch.nn.functional as F


class CausalLMModule:
    def __init__(self, model):
        self.model = model

    def training_step(self, batch):
        labels = batch.pop("labels")
        input_ids = batch["input_ids"]
        cu_seqlens = batch.pop("cu_seqlens", None)
        position_ids = torch.arange(input_ids.shape[1], device=input_ids.device).unsqueeze(0)
        if cu_seqlens is not None:
            starts = torch.repeat_interleave(cu_seqlens[:-1], cu_seqlens.diff())
            position_ids = position_ids - starts
        out = self.model(
            input_ids=input_ids,
            position_ids=position_ids,
            cu_seq_lens_q=cu_seqlens,
            cu_seq_lens_k=cu_seqlens,
        )
        return F.cross_entropy(out.logits.flatten(0, 1).float(), labels.flatten(), ignore_index=-100)
