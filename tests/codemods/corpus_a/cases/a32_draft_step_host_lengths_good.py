import torch


class DraftProposer:
    def __init__(self, model, builder, num_draft_tokens):
        self.model = model
        self.builder = builder
        self.num_draft_tokens = num_draft_tokens

    def propose(self, token_ids, positions, seq_lens, query_start_loc):
        seq_lens_cpu = seq_lens.cpu()
        drafts = [token_ids]
        for _ in range(self.num_draft_tokens - 1):
            positions = positions + 1
            seq_lens = seq_lens + 1
            seq_lens_cpu = seq_lens_cpu + 1
            metadata = self.builder.build(
                query_start_loc=query_start_loc,
                seq_lens=seq_lens,
                seq_lens_cpu=seq_lens_cpu,
            )
            logits = self.model(drafts[-1], positions, metadata)
            drafts.append(logits.argmax(dim=-1))
        return torch.stack(drafts, dim=1)
