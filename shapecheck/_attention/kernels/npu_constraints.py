"""What Ascend's fused attention cannot take, as far as shapes and dtypes tell (documentation of torch_npu 2.13)."""

import torch
from torch import Tensor

from shapecheck._attention._call import Call
from shapecheck._attention.kernels import npu_training

_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_MAX_HEADS = 256
_MAX_HEAD_DIM = 768


def refusal(q: Tensor, k: Tensor, v: Tensor, call: Call) -> str | None:
    """Why no operator of torch_npu can take the call: the argument, its value, what is taken, and a way out."""
    if not npu_training.available():
        return "torch_npu's operators are not registered: install torch_npu for this torch, and import it"
    if q.dtype not in _DTYPES:
        return f"q is {q.dtype}, npu_fusion_attention takes float16, bfloat16 and float32: cast q, k and v"
    if not 1 <= q.shape[1] <= _MAX_HEADS:
        return (
            f"q has {q.shape[1]} heads on axis 1, npu_fusion_attention takes 1 to {_MAX_HEADS}: split the heads over "
            "several calls or devices"
        )
    for name, tensor in (("q", q), ("v", v)):
        if not 1 <= tensor.shape[2] <= _MAX_HEAD_DIM:
            return (
                f"{name} has head dim {tensor.shape[2]} on axis 2, npu_fusion_attention takes 1 to {_MAX_HEAD_DIM}: "
                "use more and smaller heads"
            )
    if call.order_q is not None:
        if max(call.window) >= 0:
            return (
                f"window is {call.window} with order_q, but npu_fusion_attention counts places inside a segment, not "
                "rows: sort the rows of q and k by segment and pass no orders"
            )
        if call.causal and call.order_q is not call.order_k:
            return (
                "causal with order_q and order_k that are two tensors, but npu_fusion_attention compares places inside "
                "a segment, not rows: pass one tensor as both"
            )
    return None
