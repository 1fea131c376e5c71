"""Autocast for an operator of ours: its leading tensors in the dtype that autocast has at the call."""

from typing import Any

import torch
from torch import Tensor

_KEYS = {"AutocastCPU": "cpu", "AutocastCUDA": "cuda", "AutocastPrivateUse1": None}


def register_autocast(library: torch.library.Library, name: str, tensors: int) -> None:
    """Cast the first `tensors` arguments of `shapecheck::{name}` under autocast, on every device that has a kernel.

    `torch.library.register_autocast` would pin one dtype, whatever the user asks autocast for.
    """
    for key, device in _KEYS.items():
        _register(library, name, tensors, key, device)


def _register(library: torch.library.Library, name: str, tensors: int, key: str, device: str | None) -> None:
    operator = getattr(torch.ops.shapecheck, name).default
    dispatch_key = getattr(torch._C.DispatchKey, key)

    def cast_and_call(*arguments: Any) -> Any:
        # Asked for at the call, for PrivateUse1 is renamed by whoever brings the device.
        device_type = device or torch._C._get_privateuse1_backend_name()
        dtype = torch.get_autocast_dtype(device_type)
        cast = [_cast(one, device_type, dtype) for one in arguments[:tensors]]
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(dispatch_key)):
            return operator(*cast, *arguments[tensors:])

    operator.py_impl(dispatch_key)(cast_and_call)
    library.impl(name, cast_and_call, key)  # type: ignore[no-untyped-call]


def _cast(tensor: Tensor, device_type: str, dtype: torch.dtype) -> Tensor:
    """As autocast's own rule for attention: floating point but not float64, and on the device that autocast is for."""
    if tensor.device.type != device_type or not tensor.is_floating_point() or tensor.dtype == torch.float64:
        return tensor
    return tensor.to(dtype)
