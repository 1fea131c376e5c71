"""Which tensors' values may be read, and the value checks of one call."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from shapecheck._contract._spec import Spec
from shapecheck._invariants import SHORT, Scope

_TRACING_MODES = (
    torch._C._TorchDispatchModeKey.FAKE,
    torch._C._TorchDispatchModeKey.PROXY,
    torch._C._TorchDispatchModeKey.FUNCTIONAL,
)


def host_readable(tensor: Tensor, sync: bool) -> bool:
    """Whether the values of `tensor` can be read now, without a device sync unless `sync`.

    False for meta and fake tensors, under vmap, for DTensors, nested and sparse tensors, and while something traces:
    what cannot be read is unknown, and unknown passes.
    """
    return _plain_memory(tensor, sync) and (_nothing_active() or _not_involved(tensor))


def _plain_memory(tensor: Tensor, sync: bool) -> bool:
    if not tensor.is_cpu and (not sync or tensor.is_meta):
        return False
    if type(tensor) is not Tensor and type(tensor).__torch_dispatch__ is not Tensor.__torch_dispatch__:
        return False
    return tensor.layout is torch.strided and not tensor.is_nested


def _nothing_active() -> bool:
    """Whether no mode and no functorch transform is active: the common case, and a quick look."""
    return (
        torch._C._len_torch_dispatch_stack() == 0
        and torch._C._functorch.maybe_current_level() is None
        and not torch._C._dispatch_tls_is_dispatch_key_included(torch._C.DispatchKey.PreDispatch)
    )


def _not_involved(tensor: Tensor) -> bool:
    """Whether what is active leaves `tensor` alone: no tracing, and no functorch wrapper around it."""
    return not (
        torch._C._dispatch_tls_is_dispatch_key_included(torch._C.DispatchKey.PreDispatch)
        or any(torch._C._get_dispatch_mode(key) is not None for key in _TRACING_MODES)
        or torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )


def on_host(value: Any, sync: bool) -> Any:
    """`value` where invariants can read it, an array of numpy's as a list; None where they cannot."""
    if isinstance(value, Tensor):
        if not host_readable(value, sync):
            return None
        return value.detach() if value.is_cpu else value.detach().cpu()
    return value.tolist() if type(value).__module__ == "numpy" and hasattr(value, "tolist") else value


def values_hold(spec: Spec, operands: Sequence[Any], symbols: Sequence[int | None], sync: bool) -> bool:
    """Whether every value invariant of `spec` holds of what can be read.

    Args:
        operands: the arguments named by `spec.value_operands`.
        symbols: the sizes of `spec.value_symbols`; None where the call did not bind one.
        sync: whether to read accelerators too.
    """
    free = _nothing_active()
    arguments: dict[str, Any] = {}
    lists: set[str] = set()
    for name, value in zip(spec.value_operands, operands, strict=True):
        if (
            free
            and type(value) is Tensor
            and value.is_cpu
            and value.dim() == 1
            and value.numel() <= SHORT
            and not value.is_complex()
            and _plain_memory(value, sync)
        ):
            arguments[name] = value.tolist()  # quicker than tensor operations
            lists.add(name)
        elif (readable := on_host(value, sync)) is not None:
            arguments[name] = readable
    sizes = {name: size for name, size in zip(spec.value_symbols, symbols, strict=True) if size is not None}
    scope = Scope(sizes, {}, arguments)
    for name, invariants in spec.value_checks:
        value = arguments.get(name)
        if value is None:
            continue
        for invariant in invariants:
            if any(not invariant.looks_at(arguments[other]) for other in invariant.arguments() if other in arguments):
                continue
            if name in lists:
                good = invariant.holds(value, scope)
            else:
                good = not invariant.looks_at(value) or invariant.find(value, scope) is None
            if not good:
                return False
    return True
