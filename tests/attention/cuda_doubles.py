"""Stand-ins for what the CUDA kernel calls, on the CPU: as strict as the real operators, and no kinder.

Whatever the real ones leave unwritten or document nowhere is NaN here.
"""

import inspect

import torch
import torch.nn.attention.varlen as torch_varlen
from torch import Tensor
from torch.nn.attention.flex_attention import AuxOutput

from shapecheck._attention._call import Call

from .reference import attention, visible

ROWS_PER_LOAD = 8


class VarlenOperators:
    """`torch_attn::_varlen_attn` and its backward, computed densely in float64.

    Attributes:
        dead_lse: what rows without keys get: inf as FlashAttention 2 writes, -inf as 3 and 4.
        wants_enable_gqa: whether grouped heads must be announced, as in releases after torch 2.11.
        calls: arguments of the forward calls.
    """

    def __init__(self, dead_lse: float = torch.inf) -> None:
        self.dead_lse = dead_lse
        self.wants_enable_gqa = "enable_gqa" in inspect.signature(torch_varlen.varlen_attn).parameters
        self.calls: list[tuple[object, ...]] = []

    def forward(
        self, q, k, v, cu_q, cu_k, max_q, max_k, is_causal=False, scale=None, window_size=None, enable_gqa=False
    ):
        self._check(q, k, v, cu_q, cu_k, max_q, max_k, is_causal, window_size)
        assert enable_gqa or q.shape[1] == k.shape[1] or not self.wants_enable_gqa, "grouped heads want enable_gqa"
        self.calls.append((q, k, v, cu_q, cu_k, max_q, max_k, is_causal, scale, window_size))
        if max_q == 1 and q.shape[1] > k.shape[1] and window_size == [-1, -1]:
            q.reshape(cu_q.shape[0] - 1, k.shape[1], -1, q.shape[2])
        mask = visible(q.shape[0], k.shape[0], cu_q, cu_k, window=tuple(window_size))
        out, lse = attention(q, k, v, mask, scale)
        sees = mask.any(1)
        out = torch.where(sees[:, None, None], out, torch.nan).to(q.dtype)
        inside = (torch.arange(q.shape[0]) < cu_q[-1]) & (torch.arange(q.shape[0]) >= cu_q[0])
        lse = torch.where(sees, lse, torch.where(inside, self.dead_lse, torch.nan)).float()
        return torch.empty_like(q).copy_(out), lse, torch.zeros(2, dtype=torch.uint64)

    def backward(
        self, grad_out, q, k, v, out, lse, cu_q, cu_k, max_q, max_k, is_causal, rng_state, scale=None, window_size=None
    ):
        self._check(q, k, v, cu_q, cu_k, max_q, max_k, is_causal, window_size)
        self._check_rows(grad_out, q.dtype)
        self._check_rows(out, q.dtype)
        assert grad_out.shape == out.shape == q.shape
        assert lse.dtype == torch.float32
        assert lse.is_contiguous()
        assert lse.shape == (q.shape[1], q.shape[0])
        assert rng_state.dtype == torch.uint64
        mask = visible(q.shape[0], k.shape[0], cu_q, cu_k, window=tuple(window_size))
        sees = mask.any(1)
        autograd = torch._C._SetExcludeDispatchKeyGuard(torch._C.DispatchKey.AutogradFunctionality, False)
        with autograd, torch.enable_grad():
            leaves = [one.detach().double().requires_grad_() for one in (q, k, v)]
            again, again_lse = attention(*leaves, mask, scale)
            torch.testing.assert_close(out[sees].double(), again[sees], atol=2e-2, rtol=2e-2)
            torch.testing.assert_close(lse[:, sees], again_lse[:, sees].float(), atol=1e-3, rtol=1e-3)
            # A row without keys may leave anything behind but where its gradient is zero.
            inside = (torch.arange(q.shape[0]) < cu_q[-1]) & (torch.arange(q.shape[0]) >= cu_q[0])
            assert not grad_out[inside & ~sees].any()
            gradients = torch.autograd.grad(again, leaves, torch.where(sees[:, None, None], grad_out, 0).double())
        written = (sees, mask.any(0), mask.any(0))
        return tuple(
            torch.where(rows[:, None, None], one, torch.nan).to(q.dtype)
            for one, rows in zip(gradients, written, strict=True)
        )

    def _check(self, q, k, v, cu_q, cu_k, max_q, max_k, is_causal, window_size):
        for tensor in (q, k, v):
            self._check_rows(tensor, q.dtype)
            assert tensor.shape[2] == q.shape[2], "one head dim"
        assert q.shape[2] % 8 == 0
        assert q.shape[2] <= 256
        assert q.shape[1] % k.shape[1] == 0
        for cu, longest in ((cu_q, max_q), (cu_k, max_k)):
            assert cu.dtype == torch.int32
            assert cu.is_contiguous()
            assert cu.shape[0] > 1, "batch size must be positive"
            assert int(cu.diff().max()) <= longest
        assert is_causal == (window_size == [-1, 0])

    def _check_rows(self, tensor: Tensor, dtype: torch.dtype) -> None:
        assert tensor.dtype == dtype
        assert dtype in (torch.float16, torch.bfloat16)
        assert tensor.dim() == 3
        assert tensor.stride(2) == 1
        assert tensor.stride(0) % ROWS_PER_LOAD == tensor.stride(1) % ROWS_PER_LOAD == 0
        assert tensor.storage_offset() % ROWS_PER_LOAD == 0


def dense_flex(q, k, v, block_mask=None, scale=None, enable_gqa=False, kernel_options=None, return_aux=None):
    """FlexAttention from its definition: inside partial blocks the mask function, full blocks without it."""
    assert q.shape[3] >= 16
    assert v.shape[3] >= 16
    assert enable_gqa or q.shape[1] == k.shape[1]
    assert return_aux.lse
    assert block_mask.seq_lengths == (q.shape[2], k.shape[2])
    assert kernel_options == {"BACKEND": "TRITON"}
    zero = torch.zeros((), dtype=torch.int32)
    rows, keys = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])[None, :]
    masked = block_mask.mask_mod(zero, zero, rows, keys)
    partial = _spread(block_mask.kv_num_blocks, block_mask.kv_indices, masked.shape)
    full = _spread(block_mask.full_kv_num_blocks, block_mask.full_kv_indices, masked.shape)
    assert not (partial & full).any()
    assert masked[full].all(), "a full block that is not"
    assert not (masked & ~partial & ~full).any(), "a visible pair in no block"
    for counts, indices, by_key in (
        (block_mask.q_num_blocks, block_mask.q_indices, partial),
        (block_mask.full_q_num_blocks, block_mask.full_q_indices, full),
    ):
        assert torch.equal(_spread(counts, indices, masked.T.shape), by_key.T), "backward visits other blocks"
    packed = [one[0].transpose(0, 1) for one in (q, k, v)]
    out, lse = attention(*packed, (masked & partial) | full, scale)
    out = torch.where(torch.isneginf(lse).T[:, :, None], torch.nan, out)
    return out.to(q.dtype).transpose(0, 1)[None], AuxOutput(lse=lse.float()[None])


def _spread(count: Tensor, indices: Tensor, shape: torch.Size) -> Tensor:
    assert count.is_contiguous(), "the kernels assume the stride"
    assert indices.is_contiguous(), "the kernels assume the stride of columns"
    visited = torch.zeros(indices.shape[2:], dtype=torch.bool)
    for row, columns in enumerate(indices[0, 0]):
        visited[row, columns[: count[0, 0, row]]] = True
    wide = visited.repeat_interleave(128, 0).repeat_interleave(128, 1)
    return wide[: shape[0], : shape[1]]


def call_of(cu_q: Tensor, cu_k: Tensor, scale: float, **rest) -> Call:
    """A call with the longest segments as maxima, full attention and zeroed tail unless said otherwise."""
    defaults = {
        "max_seqlen_q": int(cu_q.diff().max()) if cu_q.shape[0] > 1 else 0,
        "max_seqlen_k": int(cu_k.diff().max()) if cu_k.shape[0] > 1 else 0,
        "causal": False,
        "window": (-1, -1),
        "zero_tail": True,
    }
    return Call(cu_q, cu_k, scale=scale, **{**defaults, **rest})
