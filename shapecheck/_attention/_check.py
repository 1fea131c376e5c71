"""What must hold before a kernel reads memory: ranks, sizes, dtypes and numbers. No values of tensors."""

import torch
from torch import Tensor

from shapecheck._attention._call import Call
from shapecheck._errors import ContractError

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def check_call(q: Tensor, k: Tensor, v: Tensor, call: Call) -> None:
    """Raise ContractError for arguments that cannot be one call of `shapecheck::varlen_attention`."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dim() != 3:
            raise _error(name, f"has {tensor.dim()} axes, expected 3: [rows, heads, head dim]", 3, tensor.dim())
        if tensor.dtype != q.dtype:
            raise _error(name, f"is {tensor.dtype}, expected {q.dtype} as q is", q.dtype, tensor.dtype)
    if not q.dtype.is_floating_point:
        raise _error("q", f"is {q.dtype}, expected a floating point dtype", "floating point", q.dtype)
    if k.shape[2] != q.shape[2]:
        raise _error("k", f"has head dim {k.shape[2]}, expected {q.shape[2]} as q has", q.shape[2], k.shape[2], 2)
    if v.shape[:2] != k.shape[:2]:
        axis = int(v.shape[0] == k.shape[0])
        what = ("rows", "heads")[axis]
        found, expected = v.shape[axis], k.shape[axis]
        raise _error("v", f"has {found} {what}, expected {expected} as k has", expected, found, axis)
    if k.shape[1] == 0 or q.shape[1] % k.shape[1] != 0:
        problem = f"has {q.shape[1]} heads, expected a multiple of the {k.shape[1]} heads of k"
        raise _error("q", problem, f"a multiple of {k.shape[1]}", q.shape[1], 1)
    for name, boundaries in (("cu_seqlens_q", call.cu_seqlens_q), ("cu_seqlens_k", call.cu_seqlens_k)):
        _check_row(name, boundaries, (torch.int32, torch.int64))
        if boundaries.shape[0] == 0:
            raise _error(name, "is empty, expected one boundary more than there are segments", "at least 1", 0, 0)
    if call.cu_seqlens_q.shape != call.cu_seqlens_k.shape:
        count, expected = call.cu_seqlens_k.shape[0], call.cu_seqlens_q.shape[0]
        problem = f"has {count} boundaries, expected {expected} as cu_seqlens_q has"
        raise _error("cu_seqlens_k", problem, expected, count, 0)
    for side, limit in zip(("left", "right"), call.window, strict=True):
        if limit < -1:
            raise _error("window", f"is {limit} to the {side}, expected a number of rows, or -1: no limit", "-1", limit)
    _check_orders(q, k, call)


def _check_orders(q: Tensor, k: Tensor, call: Call) -> None:
    if (call.order_q is None) != (call.order_k is None):
        missing = "order_q" if call.order_q is None else "order_k"
        raise _error(missing, "is None, expected both orders or none", "a tensor", None)
    for name, order, tensor in (("order_q", call.order_q, q), ("order_k", call.order_k, k)):
        if order is not None:
            _check_row(name, order, (torch.int64,))
            if order.shape[0] != tensor.shape[0]:
                problem = f"has {order.shape[0]} entries, expected {tensor.shape[0]}, one for each row of {name[-1]}"
                raise _error(name, problem, tensor.shape[0], order.shape[0], 0)


def _check_row(name: str, tensor: Tensor, dtypes: tuple[torch.dtype, ...]) -> None:
    if tensor.dim() != 1:
        raise _error(name, f"has {tensor.dim()} axes, expected 1", 1, tensor.dim())
    if tensor.dtype not in dtypes:
        expected = " or ".join(str(one) for one in dtypes)
        raise _error(name, f"is {tensor.dtype}, expected {expected}", expected, tensor.dtype)


def _error(argument: str, problem: str, expected: object, actual: object, axis: int | None = None) -> ContractError:
    return ContractError(
        f"varlen_attention: {argument} {problem}", argument=argument, axis=axis, expected=expected, actual=actual
    )
