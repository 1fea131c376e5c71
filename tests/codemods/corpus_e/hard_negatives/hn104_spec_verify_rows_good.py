import torch


def build_verify_batch(last_tokens, draft_tokens, num_drafts, seq_lens):
    rows = []
    positions = []
    for i, n in enumerate(num_drafts):
        rows.append(torch.cat([last_tokens[i : i + 1], draft_tokens[i, :n]]))
        positions.append(torch.arange(seq_lens[i] - 1, seq_lens[i] + n))
    per_request = torch.tensor(num_drafts) + 1
    query_start_loc = torch.zeros(len(num_drafts) + 1, dtype=torch.int32)
    torch.cumsum(per_request, 0, out=query_start_loc[1:])
    return {
        "input_ids": torch.cat(rows),
        "positions": torch.cat(positions),
        "query_start_loc": query_start_loc,
        "max_query_len": int(per_request.max()),
        "logits_indices": query_start_loc[1:].long() - 1,
    }
