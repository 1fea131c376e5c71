import torch
import torch.nn.functional as F


def pack_for_megatron(input_ids, lengths, tp_size):
    multiple = 2 * tp_size
    rows = []
    cu_seqlens = [0]
    cu_seqlens_padded = [0]
    for i, n in enumerate(lengths.tolist()):
        row = input_ids[i, :n]
        rows.append(F.pad(row, (0, -n % multiple)))
        cu_seqlens.append(cu_seqlens[-1] + n)
        cu_seqlens_padded.append(cu_seqlens_padded[-1] + n + -n % tp_size)
    return {
        "tokens": torch.cat(rows).unsqueeze(0),
        "cu_seqlens": torch.tensor(cu_seqlens, dtype=torch.int32),
        "cu_seqlens_padded": torch.tensor(cu_seqlens_padded, dtype=torch.int32),
    }
