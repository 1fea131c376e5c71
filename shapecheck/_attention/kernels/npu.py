"""Attention on Ascend NPUs through torch_npu's fused operators in TND layout. Simulated: never run on hardware.

| call | operator |
|---|---|
| gradients may follow, `torch.no_grad` too | `npu_fusion_attention_v3`, or `npu_fusion_attention` if it is missing |
| `torch.inference_mode`, and `npu_inference` takes it | `npu_fused_infer_attention_score_v2` |
| backward of either | `npu_fusion_attention_grad_v3`, or `npu_fusion_attention_grad` |

Under `torch.no_grad` a kernel cannot tell inference from the forward of a compiled training step: both run with
gradients off on tensors that require none. The training operator is right for both.

The operators read the boundaries on the host. Hand `cu_seqlens_q` and `cu_seqlens_k` over as CPU tensors, copied once
for a forward: boundaries on the device are copied here, which stalls the stream in every layer.

What the operators cannot take, from their documentation in torch_npu 2.13, is refused (`npu_constraints.refusal`: known
from shapes) or ends in a `ContractError` (`npu_plan.plan`: known from the boundaries).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from shapecheck._attention._call import Call
from shapecheck._attention.kernels import npu_inference, npu_training
from shapecheck._attention.kernels.npu_constraints import refusal
from shapecheck._attention.kernels.npu_mask import masking
from shapecheck._attention.kernels.npu_plan import Plan, plan


class _Npu:
    name = "npu: npu_fusion_attention (simulated)"

    def refuses(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> str | None:
        return refusal(q, k, v, call)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> tuple[Tensor, Tensor]:
        planned = _plan(q, k, call)
        rows_q, rows_k = _rows(q, k, call, planned)
        if not planned.pieces:
            return q.new_zeros((*q.shape[:2], v.shape[2])), _all_unseeing(q)
        q, k, v = rows_q.take(q), rows_k.take(k), rows_k.take(v)
        outs, lses = [], []
        for piece in planned.pieces:
            tensors = (q[piece.rows_q], k[piece.rows_k], v[piece.rows_k])
            mask = masking(call, piece.longest_q, q.device)
            infer = torch.is_inference_mode_enabled() and npu_inference.takes(*tensors, piece, mask)
            attend = npu_inference.forward if infer else npu_training.forward
            out, lse = attend(*tensors, piece, mask, call.scale)
            outs.append(out)
            lses.append(lse)
        return rows_q.put(_join(outs), fill=0), rows_q.put(_join(lses, dim=1), fill=-torch.inf, dim=1)

    def backward(
        self, grad_out: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, call: Call
    ) -> tuple[Tensor, Tensor, Tensor]:
        planned = _plan(q, k, call)
        rows_q, rows_k = _rows(q, k, call, planned)
        if not planned.pieces:
            return q.new_zeros(q.shape), k.new_zeros(k.shape), v.new_zeros(v.shape)
        grad_out, q, k, v, out = (
            rows_q.take(grad_out),
            rows_q.take(q),
            rows_k.take(k),
            rows_k.take(v),
            rows_q.take(out),
        )
        lse = rows_q.take(lse, dim=1)
        gradients = [
            npu_training.backward(
                grad_out[piece.rows_q],
                q[piece.rows_q],
                k[piece.rows_k],
                v[piece.rows_k],
                out[piece.rows_q],
                lse[:, piece.rows_q],
                piece,
                masking(call, piece.longest_q, q.device),
                call.scale,
            )
            for piece in planned.pieces
        ]
        dq, dk, dv = (_join(parts) for parts in zip(*gradients, strict=True))
        return rows_q.put(dq, fill=0), rows_k.put(dk, fill=0), rows_k.put(dv, fill=0)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Which rows of a tensor are packed, in which order: `first:last` as they lie, or those of an index."""

    total: int
    first: int
    last: int
    index: Tensor | None

    def take(self, tensor: Tensor, dim: int = 0) -> Tensor:
        """The packed rows of a tensor."""
        if self.index is not None:
            return tensor.index_select(dim, self.index)
        return tensor.narrow(dim, self.first, self.last - self.first)

    def put(self, packed: Tensor, fill: float, dim: int = 0) -> Tensor:
        """All rows again; those that are in no segment hold `fill`."""
        if self.index is None and packed.shape[dim] == self.total:
            return packed
        size = list(packed.shape)
        size[dim] = self.total
        whole = packed.new_full(size, fill)
        if self.index is not None:
            return whole.index_copy_(dim, self.index, packed)
        whole.narrow(dim, self.first, self.last - self.first).copy_(packed)
        return whole


def _rows(q: Tensor, k: Tensor, call: Call, planned: Plan) -> tuple[_Rows, _Rows]:
    both = ((q, planned.span_q, call.order_q), (k, planned.span_k, call.order_k))
    rows_q, rows_k = (
        _Rows(tensor.shape[0], *span, None if order is None else order[slice(*span)].to(tensor.device))
        for tensor, span, order in both
    )
    return rows_q, rows_k


def _plan(q: Tensor, k: Tensor, call: Call) -> Plan:
    bounds_q = tuple(call.cu_seqlens_q.tolist())
    # Self attention hands the same tensor over twice: on the device each read is a copy that waits.
    bounds_k = bounds_q if call.cu_seqlens_k is call.cu_seqlens_q else tuple(call.cu_seqlens_k.tolist())
    ahead = 0 if call.causal else call.window[1]
    same_rows = call.causal and call.order_q is not None
    return plan(bounds_q, bounds_k, q.shape[0], k.shape[0], ahead, same_rows)


def _join(parts: Sequence[Tensor], dim: int = 0) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim)


def _all_unseeing(q: Tensor) -> Tensor:
    return q.new_full((q.shape[1], q.shape[0]), -torch.inf, dtype=torch.float32)


KERNEL = _Npu()
