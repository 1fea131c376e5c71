"""FlexAttention for calls that varlen attention on CUDA cannot express: any call of our operator, in fp16, bf16, fp32.

A query row `i` of q sees a key row `j` of k iff `group_q[i] == group_k[j]` and `first[i] <= j < stop[i]`. Segments,
orders, causal and windows all become these four index tensors, so there is one mask function and one compiled graph for
them all. Which blocks of 128 x 128 can hold a visible pair follows from the smallest and the largest group, first and
stop of each block: no S x S tensor is made and no value is read by the host. The block map may hold blocks without a
visible pair, since the mask is applied inside; it never lacks one that has any.

The compiled `torch.nn.attention.flex_attention.flex_attention` computes forward; backward is autograd's on a forward
that is computed again, for FlexAttention hands out no backward of its own. Float32 is computed in full precision unless
`torch.set_float32_matmul_precision` allows TF32.

Nothing of this module has run on a GPU yet: what is tested is the masks, the blocks and the gradients, on the CPU.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, flex_attention
from torch.nn.functional import pad

from shapecheck._attention._call import Call
from shapecheck._attention.kernels.ranges import segments, visible, window_of

BLOCK = 128
_MIN_HEAD_DIM = 16  # Triton's matrix products take no smaller inner dimension
_NEVER = torch.iinfo(torch.int32).max
_NO_QUERY, _NO_KEY = -1, -2  # groups of rows in no segment: unlike each other
# Heads, head dims and dtypes are static to FlexAttention: one graph for each combination that a model has.
_GRAPHS = 64


class Visible(NamedTuple):
    """Which keys each query sees: those of its group in `first[i] <= j < stop[i]`. All int32, rows of q and of k.

    Attributes:
        group_q: `[Tq]`, negative for rows that see nothing.
        group_k: `[Tk]`, negative for rows that nobody sees.
        first: `[Tq]`; above every row for queries that see nothing.
        stop: `[Tq]`.
    """

    group_q: Tensor
    group_k: Tensor
    first: Tensor
    stop: Tensor


class Blocks(NamedTuple):
    """Which blocks hold visible pairs: bool `[query blocks, key blocks]`, no block in both.

    Attributes:
        partial: some pair may be visible.
        full: every pair is.
    """

    partial: Tensor
    full: Tensor


def forward(q: Tensor, k: Tensor, v: Tensor, call: Call) -> tuple[Tensor, Tensor]:
    """The result `[Tq, Hq, Dv]` in q's dtype, and the scores' log-sum-exp `[Hq, Tq]` float32."""
    rows = visible_rows(call, q.shape[0], k.shape[0], q.device)
    with torch.no_grad():
        query, key, value = (_heads_first(one.detach()) for one in (q, k, v))
        out, lse = _attend(query, key, value, rows, call.scale)
    dead = lse == float("-inf")
    out = torch.where(dead.T[:, :, None], 0, out[0, ..., : v.shape[2]].transpose(0, 1))
    return out.contiguous(), lse.contiguous()


def backward(grad_out: Tensor, q: Tensor, k: Tensor, v: Tensor, call: Call) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and v, from a forward that is computed again."""
    rows = visible_rows(call, q.shape[0], k.shape[0], q.device)
    # An operator's kernel runs below autograd, which is needed once more here.
    autograd = torch._C._SetExcludeDispatchKeyGuard(torch._C.DispatchKey.AutogradFunctionality, False)
    with autograd, torch.enable_grad():
        query, key, value = (_heads_first(one.detach()).requires_grad_() for one in (q, k, v))
        out, lse = _attend(query, key, value, rows, call.scale)
        live = (lse != float("-inf")).T[:, :, None]
        grad = pad(torch.where(live, grad_out, 0), (0, out.shape[3] - v.shape[2]))
        gradients = torch.autograd.grad(out, (query, key, value), _batched(grad))
    dq, dk, dv = (
        one[0, ..., : like.shape[2]].transpose(0, 1).contiguous()
        for one, like in zip(gradients, (q, k, v), strict=True)
    )
    return dq, dk, dv


def visible_rows(call: Call, rows_q: int, rows_k: int, device: torch.device) -> Visible:
    """The call's mask in rows of q and k, on `device`.

    Args:
        call: with at least one segment.
        rows_q: Tq.
        rows_k: Tk.
        device: q's.
    """
    cu_q = call.cu_seqlens_q.to(device=device, dtype=torch.int32)
    cu_k = call.cu_seqlens_k.to(device=device, dtype=torch.int32)
    before, behind = window_of(call)
    if call.order_q is None or call.order_k is None:
        packed = visible(cu_q, cu_k, rows_q, (before, behind))
        group_q, group_k = packed.segment, segments(cu_k, rows_k)
        first, stop, live = packed.first, packed.stop, packed.live
    else:
        group_q = _scatter(segments(cu_q, rows_q), call.order_q)
        group_k = _scatter(segments(cu_k, rows_k), call.order_k)
        row = torch.arange(rows_q, dtype=torch.int32, device=device)
        first = torch.zeros_like(row) if before < 0 else (row - before).clamp(min=0)
        stop = torch.full_like(row, rows_k) if behind < 0 else (row + behind + 1).clamp(max=rows_k)
        live = (group_q >= 0) & (first < stop)
    return Visible(
        torch.where(live, group_q, _NO_QUERY).int(),
        torch.where(group_k >= 0, group_k, _NO_KEY).int(),
        torch.where(live, first, _NEVER),
        torch.where(live, stop, 0),
    )


def blocks_of(rows: Visible) -> Blocks:
    """The block map of a mask: blocks where every pair is visible apart from those where some may be."""
    first_min, first_max = _extremes(rows.first, _NEVER)
    stop_min, stop_max = _extremes(rows.stop, 0)
    q_min, q_max = _group_extremes(rows.group_q)
    k_min, k_max = _group_extremes(rows.group_k)
    begin = torch.arange(k_min.shape[0], dtype=torch.int32, device=k_min.device) * BLOCK
    end = begin + BLOCK

    def column(one: Tensor) -> Tensor:
        return one[:, None]

    some = (column(q_min) <= k_max) & (k_min <= column(q_max)) & (column(first_min) < end) & (begin < column(stop_max))
    # `first` and `stop` of a row that sees nothing fail here, as do those behind the last row.
    every = (column(first_max) <= begin) & (end <= column(stop_min))
    key_group = torch.where(_extremes(rows.group_k, _NO_KEY)[0] == k_max, k_max, _NO_KEY)
    every &= (column(q_min) == column(q_max)) & (column(q_min) == key_group)
    return Blocks(some & ~every, every)


@functools.cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` under torch.compile, one for the process. Tests replace it."""
    return torch.compile(function, fullgraph=True)


def _attend(q: Tensor, k: Tensor, v: Tensor, rows: Visible, scale: float) -> tuple[Tensor, Tensor]:
    """`[1, Hq, Tq, >= Dv]` and lse `[Hq, Tq]`; q, k and v as `_heads_first` gives them."""
    group_q, group_k, first, stop = rows

    def sees(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (group_q[query] == group_k[key]) & (first[query] <= key) & (key < stop[query])

    partial, full = blocks_of(rows)
    # Not `BlockMask.from_kv_blocks`, which transposes under vmap: inside an operator that fails at the first call of a
    # compiled graph (AOTAutograd then looks at operators through a dispatch mode).
    mask = BlockMask(
        (q.shape[2], k.shape[2]),
        *_ordered(partial),
        *_ordered(full),
        *_ordered(partial.T),
        *_ordered(full.T),
        BLOCK_SIZE=(BLOCK, BLOCK),
        mask_mod=sees,
    )
    with torch._dynamo.config.patch(recompile_limit=_GRAPHS):
        out, aux = compiled(flex_attention)(
            q,
            k,
            v,
            block_mask=mask,
            scale=scale,
            enable_gqa=q.shape[1] != k.shape[1],
            kernel_options={"BACKEND": "TRITON"},  # one kernel for few queries and for many
            return_aux=AuxRequest(lse=True),
        )
    return out, aux.lse[0]


def _heads_first(tensor: Tensor) -> Tensor:
    """`[T, H, D]` as `[1, H, T, D]`, padded to the smallest head dim that FlexAttention takes."""
    return _batched(pad(tensor, (0, _MIN_HEAD_DIM - tensor.shape[2])) if tensor.shape[2] < _MIN_HEAD_DIM else tensor)


def _batched(tensor: Tensor) -> Tensor:
    return tensor.transpose(0, 1)[None]


def _scatter(packed: Tensor, order: Tensor) -> Tensor:
    return torch.empty_like(packed).index_copy_(0, order, packed)


def _extremes(per_row: Tensor, filler: int) -> tuple[Tensor, Tensor]:
    """Smallest and largest value in each block of rows; the last block is filled up with `filler`."""
    blocks = pad(per_row, (0, -per_row.shape[0] % BLOCK), value=filler).view(-1, BLOCK)
    return blocks.amin(1), blocks.amax(1)


def _group_extremes(group: Tensor) -> tuple[Tensor, Tensor]:
    """Likewise of groups, without the rows that are in none: no range at all where a block holds only such."""
    return _extremes(torch.where(group < 0, _NEVER, group), _NEVER)[0], _extremes(group, _NO_KEY)[1]


def _ordered(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Count and indices of the True columns of each row, those first.

    Contiguous, also of a transposed map: FlexAttention's kernels ask for the stride of rows and assume that of columns
    (torch/_inductor/kernel/flex/templates/flex_backwards.py.jinja, "always contiguous").
    """
    indices = torch.argsort(blocks.contiguous().int(), dim=-1, descending=True, stable=True)
    return blocks.sum(-1, dtype=torch.int32)[None, None], indices.int()[None, None]
