"""The CUDA kernel: PyTorch's own varlen attention, and FlexAttention for what that cannot express.

Which code takes a call. All of it is decided from dtypes, shapes, numbers and object identity, never from values: the
host does not wait for the device, so calls can be captured in a CUDA graph once they have run (boundaries on the host
are the exception: copying them is neither asynchronous nor capturable).

| dtype      | orders | causal, window                        | tiles   | taken by                |
|------------|--------|---------------------------------------|---------|-------------------------|
| fp16, bf16 | no     | any                                   | few     | varlen                  |
| fp16, bf16 | yes    | neither                               | few     | varlen on gathered rows |
| fp16, bf16 | yes    | causal, q and k share order and       | few     | varlen on gathered rows |
|            |        | boundaries (the same tensors)         |         |                         |
| fp16, bf16 | yes    | causal otherwise, or any window       | any     | flex                    |
| fp16, bf16 | any    | any                                   | many    | flex                    |
| fp32       | any    | any                                   | any     | flex                    |
| fp64       |        |                                       |         | refused                 |

Head dims up to 256 (of v too): varlen pads q, k and v to a common multiple of 8, flex to at least 16. GPUs older than
Ampere are refused: FlashAttention does not run there.

- *Why causal with orders needs the same tensors.* Varlen aligns packed positions, our operator compares row numbers of
  q and k. Both agree where queries and keys of a segment are the same rows. That is a statement about values, except
  where the orders are one tensor and the boundaries are one tensor. PyTorch's dispatcher and autograd hand the very
  object through, and so do the graphs of torch.compile; where somebody's saved-tensor hook replaced it, flex gives the
  same result.
- *Many tiles.* FlashAttention 2 works in tiles of 128 query rows that never span segments, launches
  `B * ceil(max_seqlen_q / 128)` of them for each head, and allocates `Tq + 128 * B` rows of fp32 in backward
  (aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp, `mha_varlen_bwd`). With boundaries padded to one
  segment for each row that is 129 times the queries' memory. FlexAttention's cost does not depend on `B`. "Many" is 64
  times the tiles that the rows fill; the factor is not measured.

Everything goes through `torch.ops.torch_attn._varlen_attn` and its backward, the operators behind
`torch.nn.attention.varlen.varlen_attn` since torch 2.10, so `torch.nn.attention.activate_flash_attention_impl("FA3")`
is followed. No line of this module has run on a GPU yet.
"""

import inspect
from typing import Any

import torch
import torch.nn.attention.varlen as torch_varlen
from torch import Tensor
from torch.nn.functional import pad

from shapecheck._attention._call import Call
from shapecheck._attention.kernels import flex
from shapecheck._attention.kernels.ranges import inside, visible, window_of

MAX_HEAD_DIM = 256
MIN_CAPABILITY = (8, 0)  # Ampere; torch 2.11 to 2.13, aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp
_HEAD_DIM_STEP = 8
_TILE = 128
_IDLE_TILES = 64
_VECTOR = 8  # elements of two bytes in the 16 that FlashAttention loads at once

# torch 2.11 takes grouped heads without being told, later releases check.
_TAKES_ENABLE_GQA = "enable_gqa" in inspect.signature(torch_varlen.varlen_attn).parameters


class CudaKernel:
    """`shapecheck::varlen_attention` for CUDA tensors; see the module for which code takes which call."""

    name = "CUDA: torch.nn.attention.varlen, FlexAttention"

    def refuses(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> str | None:
        """Why this kernel cannot take the call, or None. Reads no values."""
        if q.dtype == torch.float64:
            return "q is torch.float64, expected float16, bfloat16 or float32: cast q, k and v, or compute on the CPU"
        if q.dtype not in (torch.float16, torch.bfloat16, torch.float32):
            return f"q is {q.dtype}, expected float16, bfloat16 or float32: cast q, k and v"
        for name, tensor in (("q", q), ("v", v)):
            if tensor.shape[2] > MAX_HEAD_DIM:
                return (
                    f"{name} has head dim {tensor.shape[2]} on axis 2, expected at most {MAX_HEAD_DIM}: "
                    "use torch.nn.functional.scaled_dot_product_attention with a mask"
                )
        if torch.version.hip is not None:
            return "PyTorch was built for ROCm, expected CUDA: its varlen operators lay out their results differently"
        if q.device.type == "cuda" and torch.cuda.is_available():
            capability = torch.cuda.get_device_capability(q.device)
            if capability < MIN_CAPABILITY:
                return (
                    f"q is on a GPU of compute capability {capability[0]}.{capability[1]}, expected at least "
                    f"{MIN_CAPABILITY[0]}.{MIN_CAPABILITY[1]}: use scaled_dot_product_attention with a mask there"
                )
        return None

    def forward(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> tuple[Tensor, Tensor]:
        """The result `[Tq, Hq, Dv]` in q's dtype, and the scores' log-sum-exp `[Hq, Tq]` float32."""
        if _nothing_to_attend(q, k, call):
            lse = q.new_full((q.shape[1], q.shape[0]), float("-inf"), dtype=torch.float32)
            return q.new_zeros((q.shape[0], q.shape[1], v.shape[2])), lse
        if uses_flex(q, k, call):
            return flex.forward(q, k, v, call)
        return _varlen_forward(q, k, v, call)

    def backward(
        self, grad_out: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, call: Call
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of q, k and v; zero for rows that no other row sees, also where the result is undefined there."""
        if _nothing_to_attend(q, k, call):
            return q.new_zeros(q.shape), k.new_zeros(k.shape), v.new_zeros(v.shape)
        if uses_flex(q, k, call):
            return flex.backward(grad_out, q, k, v, call)
        return _varlen_backward(grad_out, q, k, v, out, lse, call)


KERNEL = CudaKernel()


def uses_flex(q: Tensor, k: Tensor, call: Call) -> bool:
    """Whether FlexAttention takes the call: the table above. Reads no values."""
    if q.dtype == torch.float32 or _many_tiles(q, k, call):
        return True
    if call.order_q is None or (not call.causal and call.window == (-1, -1)):
        return False
    same_rows = call.order_q is call.order_k and call.cu_seqlens_q is call.cu_seqlens_k
    return not (same_rows and call.window == (-1, -1))


def _many_tiles(q: Tensor, k: Tensor, call: Call) -> bool:
    tiles = (call.cu_seqlens_q.shape[0] - 1) * -(-call.max_seqlen_q // _TILE)
    return tiles > _IDLE_TILES * -(-max(q.shape[0], k.shape[0]) // _TILE)


def _nothing_to_attend(q: Tensor, k: Tensor, call: Call) -> bool:
    return q.shape[0] == 0 or k.shape[0] == 0 or call.cu_seqlens_q.shape[0] == 1


def _varlen_forward(q: Tensor, k: Tensor, v: Tensor, call: Call) -> tuple[Tensor, Tensor]:
    rows, _, width = q.shape[0], q.shape[1], v.shape[2]
    cu_q, cu_k = _boundaries(q, call)
    padded = _common_head_dim(q, v)
    packed = [_ready(_gathered(one, order), padded) for one, order in _with_orders(q, k, v, call)]
    extra: dict[str, Any] = {"enable_gqa": True} if _TAKES_ENABLE_GQA and q.shape[1] != k.shape[1] else {}
    out, lse, _ = torch.ops.torch_attn._varlen_attn(*packed, cu_q, cu_k, *_numbers(call), **extra)
    out = out[..., :width].contiguous()
    if call.zero_tail or cu_q is not cu_k:
        dead = ~_live(cu_q, cu_k, rows, window_of(call))
        out = out.masked_fill_(dead[:, None, None], 0)
        lse = lse.masked_fill_(dead, float("-inf"))
    if call.order_q is not None:
        out = torch.empty_like(out).index_copy_(0, call.order_q, out)
        lse = torch.empty_like(lse).index_copy_(1, call.order_q, lse)
    return out, lse.contiguous()


def _varlen_backward(
    grad_out: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, call: Call
) -> tuple[Tensor, Tensor, Tensor]:
    cu_q, cu_k = _boundaries(q, call)
    padded = _common_head_dim(q, v)
    left, right = window_of(call)
    live_q = _live(cu_q, cu_k, q.shape[0], (left, right))
    live_k = live_q if cu_q is cu_k and q.shape[0] == k.shape[0] else _live(cu_k, cu_q, k.shape[0], (right, left))
    packed = [_ready(_gathered(one, order), padded) for one, order in _with_orders(q, k, v, call)]
    packed_grad = _gathered(grad_out, call.order_q)
    if cu_q is not cu_k:
        # Rows without keys hold a log-sum-exp of -inf: the kernel's probabilities there count for nothing.
        packed_grad = packed_grad.masked_fill(~live_q[:, None, None], 0)
    packed_lse = lse if call.order_q is None else lse.index_select(1, call.order_q)
    max_q, max_k, is_causal, scale, window = _numbers(call)
    unused_rng_state = q.new_empty((2,), dtype=torch.uint64)
    gradients = torch.ops.torch_attn._varlen_attn_backward(
        _ready(packed_grad, padded),
        *packed,
        _ready(_gathered(out, call.order_q), padded),
        packed_lse.contiguous(),
        cu_q,
        cu_k,
        max_q,
        max_k,
        is_causal,
        unused_rng_state,
        scale,
        window,
    )
    targets = ((q, live_q, call.order_q), (k, live_k, call.order_k), (v, live_k, call.order_k))
    dq, dk, dv = (
        _gradient(one, width.shape[2], live, order)
        for one, (width, live, order) in zip(gradients, targets, strict=True)
    )
    return dq, dk, dv


def _gradient(gradient: Tensor, width: int, live: Tensor, order: Tensor | None) -> Tensor:
    """The kernel's gradient without its padding, zero where the kernel wrote nothing, in the tensor's own rows."""
    gradient = gradient[..., :width].contiguous().masked_fill_(~live[:, None, None], 0)
    return gradient if order is None else torch.empty_like(gradient).index_copy_(0, order, gradient)


def _boundaries(q: Tensor, call: Call) -> tuple[Tensor, Tensor]:
    """Both boundaries as the kernel wants them; one object where the caller gave one."""
    cu_q = call.cu_seqlens_q.to(device=q.device, dtype=torch.int32).contiguous()
    if call.cu_seqlens_k is call.cu_seqlens_q:
        return cu_q, cu_q
    return cu_q, call.cu_seqlens_k.to(device=q.device, dtype=torch.int32).contiguous()


def _live(cu_seqlens: Tensor, cu_seqlens_other: Tensor, rows: int, window: tuple[int, int]) -> Tensor:
    """`[rows]` bool: packed rows that see a row of the other side."""
    if cu_seqlens is cu_seqlens_other:  # segments of equal length: every row sees at least its own position
        return inside(cu_seqlens, rows)
    return visible(cu_seqlens, cu_seqlens_other, rows, window).live


def _numbers(call: Call) -> tuple[int, int, bool, float, list[int]]:
    """max_q, max_k, is_causal, scale and window_size of `torch_attn::_varlen_attn`."""
    window = window_of(call)
    # max_q == 1 with grouped heads reshapes q by the number of segments, which fails with empty ones (flash_api.cpp,
    # `seqlenq_ngroups_swapped`). An upper bound is legal.
    return max(call.max_seqlen_q, 2), max(call.max_seqlen_k, 1), window == (-1, 0), call.scale, list(window)


def _with_orders(q: Tensor, k: Tensor, v: Tensor, call: Call) -> tuple[tuple[Tensor, Tensor | None], ...]:
    return (q, call.order_q), (k, call.order_k), (v, call.order_k)


def _gathered(tensor: Tensor, order: Tensor | None) -> Tensor:
    return tensor if order is None else tensor.index_select(0, order)


def _common_head_dim(q: Tensor, v: Tensor) -> int:
    """The head dim for q, k and v alike: FlashAttention wants one, a multiple of 8. Zeros change no score."""
    width = max(q.shape[2], v.shape[2])
    return -(-width // _HEAD_DIM_STEP) * _HEAD_DIM_STEP


def _ready(tensor: Tensor, head_dim: int) -> Tensor:
    """`tensor` padded to `head_dim`, with rows that FlashAttention can load 16 bytes at a time."""
    if tensor.shape[2] < head_dim:
        return pad(tensor, (0, head_dim - tensor.shape[2]))
    rows, heads, columns = tensor.stride()
    if columns == 1 and rows % _VECTOR == 0 and heads % _VECTOR == 0 and tensor.storage_offset() % _VECTOR == 0:
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)
