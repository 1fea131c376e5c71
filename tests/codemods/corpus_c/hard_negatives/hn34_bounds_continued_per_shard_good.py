import torch


def merge_packs(packs):
    cu = torch.zeros(1, dtype=torch.int32)
    tokens, positions = [], []
    for pack in packs:
        cu = torch.cat([cu, cu[-1] + pack["lens"].cumsum(0, dtype=torch.int32)])
        tokens.append(pack["tokens"])
        positions.extend(torch.arange(n) for n in pack["lens"].tolist())
    longest = max(int(p["lens"].max()) for p in packs)
    return torch.cat(tokens), torch.cat(positions), cu, longest
