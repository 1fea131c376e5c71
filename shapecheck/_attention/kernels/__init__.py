"""The kernels of `shapecheck::varlen_attention`, one module for each type of device, imported at its first call."""

import functools
import importlib

from shapecheck._attention._call import Kernel

_MODULES = {
    "cpu": "shapecheck._attention.kernels.cpu",
    "cuda": "shapecheck._attention.kernels.cuda",
    "npu": "shapecheck._attention.kernels.npu",
}


@functools.cache
def kernel_for(device_type: str) -> Kernel:
    """The kernel for tensors on `device_type`, as in `q.device.type`.

    Raises NotImplementedError, which names the devices that have one.
    """
    if device_type not in _MODULES:
        known = ", ".join(_MODULES)
        raise NotImplementedError(
            f"shapecheck::varlen_attention has no kernel for device type {device_type!r}, only for {known}: "
            "move q, k and v there"
        )
    kernel: Kernel = importlib.import_module(_MODULES[device_type]).KERNEL
    return kernel
