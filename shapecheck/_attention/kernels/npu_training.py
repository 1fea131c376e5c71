"""`npu_fusion_attention` in TND layout and its gradient.

Signatures as torch_npu 2.13 registers them. `npu_fusion_attention_v3` takes the ends of the segments as int64 CPU
tensors and is the one for graphs; `npu_fusion_attention`, documented as having no graph mode, takes lists.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from shapecheck._attention.kernels.npu_mask import Masking
from shapecheck._attention.kernels.npu_plan import Piece

_LANES = 8
"""Equal copies of each value in softmax_max and softmax_sum: `[T, N, 8]`."""


@dataclass(frozen=True, slots=True)
class _Operators:
    forward: Callable[..., tuple[Tensor, ...]]
    backward: Callable[..., tuple[Tensor, ...]]
    ends: Callable[[Tensor], Tensor | list[int]]


def widen(tensor: Tensor, width: int) -> Tensor:
    """A tensor `[T, N, D]` with `width` channels, contiguous. Zeros change no score, and only widen the result."""
    missing = width - tensor.shape[2]
    return torch.nn.functional.pad(tensor, (0, missing)) if missing else tensor.contiguous()


def available() -> bool:
    """Whether torch_npu (or a simulator) has registered one of the operators."""
    return hasattr(torch.ops.npu, "npu_fusion_attention_v3") or hasattr(torch.ops.npu, "npu_fusion_attention")


def _operators() -> _Operators:
    npu = torch.ops.npu
    if hasattr(npu, "npu_fusion_attention_v3"):
        return _Operators(npu.npu_fusion_attention_v3, npu.npu_fusion_attention_grad_v3, lambda ends: ends)
    return _Operators(npu.npu_fusion_attention, npu.npu_fusion_attention_grad, Tensor.tolist)


def forward(q: Tensor, k: Tensor, v: Tensor, piece: Piece, masking: Masking, scale: float) -> tuple[Tensor, Tensor]:
    """Attention of one piece: the result `[Tq, Hq, Dv]` and the log-sum-exp `[Hq, Tq]` float32, both contiguous."""
    operators = _operators()
    width = max(q.shape[2], v.shape[2])
    out, largest, total, *_ = operators.forward(
        *(widen(one, width) for one in (q, k, v)),
        q.shape[1],
        "TND",
        scale=scale,
        **_common(operators, piece, masking),
    )
    lse = largest[..., 0] + total[..., 0].log()
    return out[..., : v.shape[2]].contiguous(), lse.T.contiguous()


def backward(
    grad_out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    piece: Piece,
    masking: Masking,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of one piece's q, k and v, contiguous.

    The operator wants the softmax's maximum m and sum s, of which it needs exp(x - m) / s only. That is exp(x - lse),
    so the log-sum-exp serves as m, with s = 1.
    """
    operators = _operators()
    width = max(q.shape[2], v.shape[2])
    largest = lse.T.unsqueeze(-1).expand(-1, -1, _LANES).contiguous()
    dq, dk, dv, *_ = operators.backward(
        *(widen(one, width) for one in (q, k, v, grad_out)),
        q.shape[1],
        "TND",
        softmax_max=largest,
        softmax_sum=torch.ones_like(largest),
        softmax_in=q.new_empty(0),  # reserved: forward returns it empty
        attention_in=widen(out, width),
        scale_value=scale,
        **_common(operators, piece, masking),
    )
    gradients = ((dq, q), (dk, k), (dv, v))
    dq, dk, dv = (gradient[..., : of.shape[2]].contiguous() for gradient, of in gradients)
    return dq, dk, dv


def _common(operators: _Operators, piece: Piece, masking: Masking) -> dict[str, Any]:
    return {
        "atten_mask": masking.mask,
        "sparse_mode": masking.sparse_mode,
        "pre_tockens": masking.before,
        "next_tockens": masking.ahead,
        "actual_seq_qlen": operators.ends(piece.ends_q),
        "actual_seq_kvlen": operators.ends(piece.ends_k),
        # Without it softmax_max and softmax_sum say [T, N, 8] but lie as [N, T, 8], segment by segment.
        "softmax_layout": "TND",
    }
