"""Attention on the CPU: PyTorch's fused kernel on the pieces of a plan.

Long segments are attended one by one, equally long ones as one batch of views, short ones side by side in tiles. No
mask is larger than a chunk of queries times the keys that they see. Segments are independent but for one thing: NaN or
infinity in a short segment may reach those in its tile.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from shapecheck._attention._call import Call
from shapecheck._attention._check import FLOATS
from shapecheck._attention.kernels.cpu_filling import Filled, Filling, converted
from shapecheck._attention.kernels.cpu_plan import plan_for

# Both take fewer heads of keys than of queries since PyTorch 2.9 (its pull request 157893), and give zeros for a query
# that sees no key.
_attend = torch._scaled_dot_product_flash_attention_for_cpu
_attend_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default

# What they compute in, where that is not the tensors' dtype. Measured on an AVX2 machine, 1024 rows of 4 heads: float16
# forward 25 ms, by way of float32 17; backward 740 and 48; bfloat16 backward 507 and 42. And float32 is closer.
_FORWARD_IN = {torch.float16: torch.float32}
_BACKWARD_IN = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


class _Cpu:
    name = "cpu: flash attention for each segment, tiles of short ones"

    def refuses(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> str | None:
        if q.dtype not in FLOATS:
            return f"q is {q.dtype}, the kernel takes {', '.join(map(str, FLOATS))}: cast q, k and v"
        tensors = {"k": k, "v": v, "cu_seqlens_q": call.cu_seqlens_q, "cu_seqlens_k": call.cu_seqlens_k}
        orders = {"order_q": call.order_q, "order_k": call.order_k}
        for name, tensor in {**tensors, **orders}.items():
            if tensor is not None and tensor.device.type != "cpu":
                return f"{name} is on {tensor.device}, but q is on the CPU: move it there"
        return None

    def forward(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> tuple[Tensor, Tensor]:
        (rows, heads, width), width_v = q.shape, v.shape[2]
        plan = plan_for(call, rows, k.shape[0])
        dtype = _FORWARD_IN.get(q.dtype, q.dtype)
        whole = plan.q is Filling.WHOLE
        out = Filled(q, width_v, plan.q)
        if not whole:
            lse = q.new_full((heads, rows), -torch.inf, dtype=torch.promote_types(q.dtype, torch.float32))
            lse_rows = lse.t().unsqueeze(-1)
        q, k, v = (_readable(one, max(width, width_v)) for one in (q, k, v))
        for piece in plan.pieces:
            batch, logarithms = _attend(
                converted(piece.q.read(q), dtype),
                converted(piece.k.read(k), dtype),
                converted(piece.k.read(v), dtype),
                is_causal=piece.causal,
                attn_mask=piece.mask_for(dtype),
                scale=call.scale,
            )
            out.put(piece.q, batch)
            if whole:
                lse = logarithms.transpose(0, 1).flatten(1).contiguous()
            else:
                piece.q.write(lse_rows, logarithms.unsqueeze(-1))
        return out.finish(), lse

    def backward(
        self, grad_out: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, call: Call
    ) -> tuple[Tensor, Tensor, Tensor]:
        width, width_v = q.shape[2], v.shape[2]
        plan = plan_for(call, q.shape[0], k.shape[0])
        dtype = _BACKWARD_IN.get(q.dtype, q.dtype)
        dq, dk, dv = Filled(q, width, plan.q), Filled(k, width, plan.k), Filled(v, width_v, plan.k)
        # Minus infinity less itself would be NaN; with any number, a query that sees no key weighs nothing.
        lse_rows = lse.masked_fill(lse == -torch.inf, 0).t().unsqueeze(-1)
        q, k, v, out, grad_out = (_readable(one, max(width, width_v)) for one in (q, k, v, out, grad_out))
        for piece in plan.pieces:
            batch_q, batch_k, batch_v = _attend_backward(
                converted(piece.q.read(grad_out), dtype),
                converted(piece.q.read(q), dtype),
                converted(piece.k.read(k), dtype),
                converted(piece.k.read(v), dtype),
                converted(piece.q.read(out), dtype),
                piece.q.read(lse_rows).squeeze(-1),
                0.0,
                piece.causal,
                attn_mask=piece.mask_for(dtype),
                scale=call.scale,
            )
            dq.put(piece.q, batch_q)
            dk.put(piece.k, batch_k)
            dv.put(piece.k, batch_v)
        return dq.finish(), dk.finish(), dv.finish()


def _readable(packed: Tensor, width: int) -> Tensor:
    """`packed` as the fused kernels read it: head dim `width`, filled up with zeros, its columns side by side."""
    if packed.shape[2] < width:
        return pad(packed, (0, width - packed.shape[2]))
    strides = packed.stride()
    return packed if strides[2] == 1 and strides[0] >= width else packed.contiguous()


KERNEL = _Cpu()
