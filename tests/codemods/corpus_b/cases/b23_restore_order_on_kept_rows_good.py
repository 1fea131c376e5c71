import torch


def score_in_input_order(scorer, batches, order, finished):
    restore = torch.argsort(torch.tensor(order))
    scores, done = [], []
    for rows in batches:
        scores.append(scorer(rows))
        done.append(finished[rows["sample_id"]])
    scores = torch.cat(scores)
    done = torch.cat(done)
    return scores[restore][done[restore]]
