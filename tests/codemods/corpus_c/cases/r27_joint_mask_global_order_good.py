import torch


def joint_attention(txt, img, txt_mask, img_mask, sp, attend):
    txt = txt.chunk(sp.size, dim=1)[sp.rank]
    img = img.chunk(sp.size, dim=1)[sp.rank]
    rows = torch.cat([txt, img], dim=1)
    per_rank = zip(txt_mask.chunk(sp.size, dim=1), img_mask.chunk(sp.size, dim=1))
    mask = torch.cat([m for pair in per_rank for m in pair], dim=1)
    full = sp.all_to_all(rows, scatter_dim=2, gather_dim=1)
    out = attend(full, key_mask=mask)
    return sp.all_to_all(out, scatter_dim=1, gather_dim=2)
