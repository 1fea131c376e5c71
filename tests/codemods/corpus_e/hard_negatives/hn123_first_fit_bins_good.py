import torch


def pack_first_fit(samples, capacity):
    bins, loads = [], []
    for s in sorted(samples, key=len, reverse=True):
        for i, load in enumerate(loads):
            if load + len(s) <= capacity:
                bins[i].append(s)
                loads[i] += len(s)
                break
        else:
            bins.append([s])
            loads.append(len(s))
    packs = []
    for group, load in zip(bins, loads):
        sizes = [len(s) for s in group]
        flat = [token for s in group for token in s]
        positions = [p for n in sizes for p in range(n)]
        gap = capacity - load
        if gap:
            flat += [0] * gap
            positions += list(range(gap))
            sizes.append(gap)
        packs.append((torch.tensor(flat), torch.tensor(positions), sizes))
    return packs
