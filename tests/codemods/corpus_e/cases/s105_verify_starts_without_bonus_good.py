import torch


class DraftVerifier:
    def build(self, sampled, drafts, seq_lens, device):
        counts = [len(d) for d in drafts]
        rows, positions = [], []
        for token, draft, seq_len in zip(sampled, drafts, seq_lens):
            rows.extend([token, *draft])
            positions.extend(range(seq_len, seq_len + 1 + len(draft)))
        query_lens = torch.tensor(counts, device=device) + 1
        query_start_loc = torch.zeros(len(counts) + 1, dtype=torch.int32, device=device)
        query_start_loc[1:] = query_lens.cumsum(0)
        return {
            "input_ids": torch.tensor(rows, device=device),
            "positions": torch.tensor(positions, device=device),
            "query_start_loc": query_start_loc,
            "max_query_len": int(query_lens.max()),
        }
