from fla.layers.utils import get_unpad_data, index_first_axis, pad_input


def mix(layer, hidden, attention_mask=None, cu_seqlens=None):
    if attention_mask is not None and cu_seqlens is not None:
        raise ValueError("give attention_mask or cu_seqlens, not both")
    if attention_mask is None:
        return layer(hidden, cu_seqlens=cu_seqlens)
    batch, length = hidden.shape[:2]
    rows, cu_seqlens, _ = get_unpad_data(attention_mask)
    packed = index_first_axis(hidden.flatten(0, 1), rows).unsqueeze(0)
    return pad_input(layer(packed, cu_seqlens=cu_seqlens).squeeze(0), rows, batch, length)
