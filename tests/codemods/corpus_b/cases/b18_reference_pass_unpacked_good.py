import torch


def packed_log_probs(policy, reference, batch, gather):
    ids = batch["input_ids"]
    bounds = batch["cu_seqlens"]
    longest = int(bounds.diff().max())
    logits = policy(ids, position_ids=batch["position_ids"], cu_seqlens=bounds, max_seqlen=longest).logits
    log_probs = gather(logits, ids)
    with torch.no_grad():
        ref_logits = reference(ids, position_ids=batch["position_ids"], cu_seqlens=bounds, max_seqlen=longest).logits
    return log_probs, gather(ref_logits, ids)
