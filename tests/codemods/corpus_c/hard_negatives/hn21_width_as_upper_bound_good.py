from flash_attn import flash_attn_varlen_qkvpacked_func
from flash_attn.bert_padding import pad_input, unpad_input


def encode_layer(layer, x, mask):
    bsz, width, _ = x.shape
    rows, where, cu_seqlens, *_ = unpad_input(x, mask)
    qkv = layer.wqkv(layer.norm(rows)).unflatten(-1, (3, layer.heads, -1))
    y = flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, width)
    rows = rows + layer.wo(y.flatten(1))
    return pad_input(rows, where, bsz, width)
