"""Attention under masks as models write them, for `benchmarks.gpu_check`, and the operator's call that is the same."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from benchmarks.gpu_check_cases import Inputs
from shapecheck._attention._call import Call

HEADS, WIDTH = 8, 64
_PARTS = tuple((one + 1) ** 2 for one in range(16))


@dataclass(frozen=True)
class Program:
    """Attention under a mask that is computed from metadata.

    Attributes:
        name: what the mask is made of.
        function: q, k, v `[1, H, S, D]` and the metadata -> `[1, H, S, D]`.
        metadata: of `S` rows.
        orders: how the call that is the same names its rows, as in `gpu_check_cases.Case`.
        causal: whether rows see only what is before them.
        timed: whether it is of documents, which others can compute too.
    """

    name: str
    function: Callable[..., Tensor]
    metadata: Callable[[int, torch.device], Tensor]
    orders: str = "none"
    causal: bool = False
    timed: bool = False


def documents(rows: int, device: torch.device) -> Tensor:
    """Boundaries of 16 documents of skewed lengths, int64."""
    return (torch.tensor([0, *_PARTS]).cumsum(0) * rows // sum(_PARTS)).to(device)


def longest_document(rows: int) -> int:
    """As few rows as `max_seqlen` can be told without a look at the boundaries."""
    return -(-rows * max(_PARTS) // sum(_PARTS))


def masked(q: Tensor, k: Tensor, v: Tensor, ids: Tensor, causal: bool) -> Tensor:
    mask = ids[:, None] == ids[None, :]
    if causal:
        row = torch.arange(q.shape[2], device=q.device)
        mask = mask & (row[:, None] >= row[None, :])
    return scaled_dot_product_attention(q, k, v, attn_mask=mask)


def of_documents(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    row = torch.arange(q.shape[2], device=q.device)
    return masked(q, k, v, torch.searchsorted(cu, row, right=True), causal=False)


def of_documents_causal(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    row = torch.arange(q.shape[2], device=q.device)
    return masked(q, k, v, torch.searchsorted(cu, row, right=True), causal=True)


def of_any_ids(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    return masked(q, k, v, ids, causal=True)


def of_starts(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Tensor:
    return masked(q, k, v, starts.cumsum(0), causal=True)


def of_kept_keys(q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
    row = torch.arange(q.shape[2], device=q.device)
    return scaled_dot_product_attention(q, k, v, attn_mask=keep & (row[:, None] >= row[None, :]))


def any_ids(rows: int, device: torch.device) -> Tensor:
    return torch.randint(0, 5, (rows,), generator=torch.Generator().manual_seed(3)).to(device)


def starts(rows: int, device: torch.device) -> Tensor:
    begins = torch.zeros(rows, dtype=torch.bool, device=device)
    begins[documents(rows, device)[:-1]] = True
    return begins


def kept_keys(rows: int, device: torch.device) -> Tensor:
    keep = torch.rand(rows, generator=torch.Generator().manual_seed(4)) < 0.7
    keep[0] = True  # or the first rows see nothing
    return keep.to(device)


PROGRAMS = (
    Program("documents", of_documents, documents, timed=True),
    Program("documents, causal", of_documents_causal, documents, causal=True, timed=True),
    Program("any ids, causal", of_any_ids, any_ids, "same", causal=True),
    Program("cumulated starts, causal", of_starts, starts, causal=True),
    Program("key padding, causal", of_kept_keys, kept_keys, "two", causal=True),
)


def tensors(rows: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, ...]:
    """q, k, v as leaves, and the gradient of the result: `[1, H, S, D]`."""
    random = torch.Generator(device).manual_seed(0)
    drawn = [torch.randn(1, HEADS, rows, WIDTH, generator=random, device=device).to(dtype) for _ in range(4)]
    fix_heads(*drawn)
    return *(one.requires_grad_() for one in drawn[:3]), drawn[3]


def fix_heads(*of_heads: Tensor) -> None:
    """Tell torch.compile that all but the rows is constant, as it sees by itself where a model's weights say so."""
    for one in of_heads:
        torch._dynamo.mark_static(one, [0, 1, 3])


def as_call(program: Program, q: Tensor, k: Tensor, v: Tensor, grad_out: Tensor, metadata: Tensor) -> Inputs:
    """What the program computes as a call of the operator, for the reference by segments."""
    rows = q.shape[2]
    order_q = order_k = None
    if program.orders == "none":
        cu_q = cu_k = documents(rows, q.device)
    elif program.orders == "same":
        order_q = order_k = metadata.argsort(stable=True)
        cu_q = cu_k = pad(metadata.bincount().cumsum(0), (1, 0))
    else:
        order_q, order_k = torch.arange(rows, device=q.device), (~metadata).int().argsort(stable=True)
        cu_q, cu_k = torch.tensor([0, rows]), torch.tensor([0, int(metadata.sum())])
    scale = q.shape[3] ** -0.5
    call = Call(cu_q, cu_k, rows, rows, program.causal, (-1, -1), scale, True, order_q, order_k)
    q, k, v, grad_out = (one[0].transpose(0, 1) for one in (q, k, v, grad_out))
    return Inputs(q, k, v, grad_out, call)
