"""The operators `shapecheck::varlen_attention` and `shapecheck::varlen_attention_backward`.

What they compute is said in `_call.py`; how, in `kernels/`. Importing this module registers them.
"""

from typing import Any

import torch
from torch import Tensor

from shapecheck._attention._autocast import register_autocast
from shapecheck._attention._call import Call
from shapecheck._attention._check import check_call
from shapecheck._attention._flops import register_flops
from shapecheck._attention.kernels import kernel_for

_REST = (
    "Tensor cu_seqlens_q, Tensor cu_seqlens_k, SymInt max_seqlen_q, SymInt max_seqlen_k, "
    "bool causal, SymInt window_left, SymInt window_right, float? scale, bool zero_tail, "
    "Tensor? order_q=None, Tensor? order_k=None"
)
_FORWARD = "shapecheck::varlen_attention"
_BACKWARD = "shapecheck::varlen_attention_backward"

_LIBRARY = torch.library.Library("shapecheck", "FRAGMENT")  # type: ignore[no-untyped-call]
# Any strides will do: a copy that Inductor would make for fixed ones costs more than the kernels' strided reads.
_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.flexible_layout)
torch.library.define(
    _FORWARD, f"(Tensor q, Tensor k, Tensor v, {_REST}) -> (Tensor out, Tensor lse)", lib=_LIBRARY, tags=_TAGS
)
torch.library.define(
    _BACKWARD,
    f"(Tensor grad_out, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, {_REST}) "
    "-> (Tensor dq, Tensor dk, Tensor dv)",
    lib=_LIBRARY,
    tags=_TAGS,
)


def _call(
    q: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    causal: bool,
    window_left: int,
    window_right: int,
    scale: float | None,
    zero_tail: bool,
    order_q: Tensor | None = None,
    order_k: Tensor | None = None,
) -> Call:
    window = (window_left, window_right)
    scale = q.shape[2] ** -0.5 if scale is None else scale
    return Call(
        cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal, window, scale, zero_tail, order_q, order_k
    )


# One implementation for all devices, which looks at q: boundaries may live on the host while q does not.
@torch.library.impl(_FORWARD, "CompositeExplicitAutograd", lib=_LIBRARY)
def _forward(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    call = _call(q, *rest)
    check_call(q, k, v, call)
    kernel = kernel_for(q.device.type)
    if (reason := kernel.refuses(q, k, v, call)) is not None:
        raise NotImplementedError(f"{_FORWARD} with kernel {kernel.name}: {reason}")
    return kernel.forward(q, k, v, call)


@torch.library.impl(_BACKWARD, "CompositeExplicitAutograd", lib=_LIBRARY)
def _backward(
    grad_out: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    return kernel_for(q.device.type).backward(grad_out, q, k, v, out, lse, _call(q, *rest))


@torch.library.register_fake(_FORWARD, lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _forward_fake(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    rows, heads, _ = q.shape
    lse_dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    return q.new_empty((rows, heads, v.shape[2])), q.new_empty((heads, rows), dtype=lse_dtype)


@torch.library.register_fake(_BACKWARD, lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _backward_fake(
    grad_out: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, cu_seqlens_q, cu_seqlens_k, *numbers = inputs[:12]
    orders = (*inputs[12:], None, None)[:2]
    out, lse = output
    ctx.save_for_backward(q, k, v, out, lse, cu_seqlens_q, cu_seqlens_k, *orders)
    ctx.numbers = numbers
    ctx.arguments = len(inputs)
    ctx.mark_non_differentiable(lse)
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, grad_out: Tensor | None, grad_lse: None) -> tuple[Tensor | None, ...]:
    nothing: tuple[None, ...] = (None,) * ctx.arguments
    if grad_out is None:
        return nothing
    q, k, v, out, lse, cu_seqlens_q, cu_seqlens_k, order_q, order_k = ctx.saved_tensors
    boundaries = (cu_seqlens_q, cu_seqlens_k)
    gradients: tuple[Tensor, Tensor, Tensor] = torch.ops.shapecheck.varlen_attention_backward(
        grad_out, q, k, v, out, lse, *boundaries, *ctx.numbers, order_q, order_k
    )
    return *gradients, *nothing[3:]


torch.library.register_autograd(_FORWARD, _differentiate, setup_context=_setup_context, lib=_LIBRARY)


def _no_second_derivative(ctx: Any, *gradients: Any) -> None:
    raise NotImplementedError(
        f"{_FORWARD} has no second derivative: use torch.nn.functional.scaled_dot_product_attention "
        "where a gradient of a gradient is needed"
    )


torch.library.register_autograd(_BACKWARD, _no_second_derivative, lib=_LIBRARY)


@torch.library.register_vmap(_FORWARD, lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _no_vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> None:
    raise NotImplementedError(
        f"{_FORWARD} under torch.vmap: pack the samples instead, one behind the other along axis 0 with boundaries "
        "in cu_seqlens, and call it once"
    )


torch.library.register_vmap(_BACKWARD, _no_vmap, lib=_LIBRARY)
register_autocast(_LIBRARY, "varlen_attention", tensors=3)
register_flops()
