import torch
from flash_attn.bert_padding import index_first_axis, pad_input, unpad_input


class PackedScorer:
    def log_probs(self, input_ids, attention_mask, position_ids):
        batch, width = input_ids.shape
        ids, indices, cu_seqlens, *_ = unpad_input(input_ids.unsqueeze(-1), attention_mask)
        ids = ids.squeeze(-1)
        flat_positions = position_ids.reshape(batch * width, 1)
        positions = index_first_axis(flat_positions, indices).squeeze(-1)
        logits = self.model(ids[None], position_ids=positions[None], use_cache=False).logits[0]
        targets = ids.roll(-1, 0)
        lp = torch.log_softmax(logits.float(), -1).gather(-1, targets[:, None])
        lp[cu_seqlens[1:].long() - 1] = 0.0
        return pad_input(lp, indices, batch, width).squeeze(-1)[:, :-1]
