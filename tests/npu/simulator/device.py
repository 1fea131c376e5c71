"""A PrivateUse1 device named "npu" in pure Python: every tensor carries a CPU tensor, every operator runs on that."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend


class _Module:
    """What `torch.npu` must answer."""

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        pass

    def get_rng_state(self, device: Any = 0) -> Tensor:
        return torch.zeros(16, dtype=torch.uint8)

    def set_rng_state(self, state: Tensor, device: Any = 0) -> None:
        pass

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]

    def synchronize(self, device: Any = None) -> None:
        pass


_setup_privateuseone_for_python_backend("npu", backend_module=_Module())

_copies: list[tuple[tuple[int, ...], torch.dtype]] = []


@contextlib.contextmanager
def host_copies() -> Iterator[list[tuple[tuple[int, ...], torch.dtype]]]:
    """Shape and dtype of each tensor that is copied from the device to the host, `.item()` too: each waits for it."""
    _copies.clear()
    seen: list[tuple[tuple[int, ...], torch.dtype]] = []
    yield seen
    seen.extend(_copies)


def wrap(on_cpu: Tensor) -> Tensor:
    """A device tensor that holds a CPU tensor. A view of it on the CPU stays one: they share memory."""
    tensor = torch._C._acc.create_empty_tensor(list(on_cpu.shape), on_cpu.dtype)
    tensor._on_cpu = on_cpu
    # Aliases that are made in C++ (detach, view_as) have the storage in common, but not the attribute.
    tensor.untyped_storage()._on_cpu = on_cpu
    return tensor


def unwrap(value: Any) -> Any:
    """The CPU tensor of a device tensor; anything else as it is."""
    if not isinstance(value, Tensor) or value.device.type != "npu":
        return value
    if not hasattr(value, "_on_cpu"):
        value._on_cpu = value.untyped_storage()._on_cpu.reshape(value.shape)
    return value._on_cpu


def _to_cpu(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "npu":
        return torch.device("cpu")
    return unwrap(value)


def _fallback(operator: Any, *args: Any, **kwargs: Any) -> Any:
    if operator is torch.ops.aten._local_scalar_dense.default:
        _copies.append((tuple(args[0].shape), args[0].dtype))
    args_cpu, kwargs_cpu = pytree.tree_map(_to_cpu, (args, kwargs))
    result = operator(*args_cpu, **kwargs_cpu)
    schema = operator._schema
    if not schema.is_mutable:
        # A view is an inference tensor where its base is one, whatever the mode.
        view = any(one.alias_info is not None for one in schema.returns)
        with torch.inference_mode(args[0].is_inference() if view else torch.is_inference_mode_enabled()):
            return pytree.tree_map_only(Tensor, wrap, result)
    named = dict(zip((one.name for one in schema.arguments), args, strict=False)) | kwargs
    written = [named[one.name] for one in schema.arguments if one.is_write and one.name in named]
    for one in written:
        if tuple(one.shape) != tuple(unwrap(one).shape):
            raise NotImplementedError(f"the simulated npu cannot resize the result of {operator}")
    if not schema.returns:
        return None
    return written[0] if len(schema.returns) == 1 else tuple(written)


def _empty(size: Any, *, dtype: Any = None, **_: Any) -> Tensor:
    return wrap(torch.empty(size, dtype=dtype))


def _empty_strided(size: Any, stride: Any, *, dtype: Any = None, **_: Any) -> Tensor:
    return wrap(torch.empty(size, dtype=dtype))


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    if source.device.type == "npu" and target.device.type == "cpu":
        _copies.append((tuple(source.shape), source.dtype))
    unwrap(target).copy_(unwrap(source))
    return target


def _arange(start: Any, end: Any, step: Any = 1, *, dtype: Any = None, **_: Any) -> Tensor:
    return wrap(torch.arange(start, end, step, dtype=dtype))


def _view(tensor: Tensor, size: Any) -> Tensor:
    # Device tensors look contiguous, so code may view what is strided on the CPU; such a view shares no memory here.
    with torch.inference_mode(tensor.is_inference()):
        return wrap(unwrap(tensor).reshape(size))


def _as_strided(tensor: Tensor, size: Any, stride: Any, offset: Any = None) -> Tensor:
    if unwrap(tensor).stride() != tensor.stride():
        raise NotImplementedError("the simulated npu knows no strides: as_strided of a strided tensor is not simulated")
    return wrap(unwrap(tensor).as_strided(size, stride, offset))


# PyTorch has kernels of its own for these, which would compute strides from the device tensor's. They come before the
# fallback.
_VIEWS = (
    "diagonal",
    "expand",
    "permute",
    "select.int",
    "slice.Tensor",
    "split.Tensor",
    "split_with_sizes",
    "squeeze",
    "squeeze.dim",
    "squeeze.dims",
    "t",
    "transpose.int",
    "unbind.int",
    "unfold",
    "unsqueeze",
)

_ATEN = {
    "as_strided": _as_strided,
    "empty.memory_format": _empty,
    "empty_strided": _empty_strided,
    "_copy_from": _copy_from,
    "arange.start_step": _arange,
    "arange.start": _arange,
    "arange": lambda end, **options: _arange(0, end, **options),
    "_unsafe_view": _view,
    "view": _view,
}

_any_library = torch.library.Library("_", "IMPL")
_any_library.fallback(_fallback, "PrivateUse1")
_any_library.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
_aten_library = torch.library.Library("aten", "IMPL")
for _name, _kernel in _ATEN.items():
    _aten_library.impl(_name, _kernel, "PrivateUse1")
for _name in _VIEWS:
    _packet, _, _overload = _name.partition(".")
    _operator = getattr(getattr(torch.ops.aten, _packet), _overload or "default")
    _aten_library.impl(_name, functools.partial(_fallback, _operator), "PrivateUse1")
