import torch
from flash_attn import flash_attn_varlen_qkvpacked_func


def joint_attention(text, image, to_qkv, heads):
    batch, text_len, width = text.shape
    image_len = image.shape[1]
    x = torch.cat([text.flatten(0, 1), image.flatten(0, 1)])
    joint_len = text_len + image_len
    qkv = to_qkv(x).view(batch * joint_len, 3, heads, width // heads)
    cu_seqlens = torch.arange(0, (batch + 1) * joint_len, joint_len, dtype=torch.int32, device=x.device)
    out = flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, joint_len).view(batch, joint_len, width)
    return out.split([text_len, image_len], dim=1)
