import torch


def response_log_probs(model, input_ids, attention_mask, position_ids, response_length):
    logits = model(input_ids, attention_mask=attention_mask, position_ids=position_ids).logits
    logits = logits[:, -response_length - 1 : -1]
    responses = input_ids[:, -response_length:]
    log_probs = torch.log_softmax(logits.float(), dim=-1)
    picked = log_probs.gather(-1, responses.unsqueeze(-1)).squeeze(-1)
    return picked * attention_mask[:, -response_length:]
