"""Times, errors and kernel names for `benchmarks.gpu_check`."""

import re
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._C._autograd import DeviceType
from torch._dynamo.utils import counters
from torch.profiler import ProfilerActivity, profile

Call = Callable[[], Any]

# FlashAttention, memory-efficient attention, cuDNN's, FlexAttention's Triton templates, PyTorch's on the CPU.
_ATTENTION = re.compile(r"\w*(?:flash_|Flash|fmha|cudnn\w*sdpa|triton_tem|scaled_dot_product)\w*")


def paired(variants: dict[str, Call], device: torch.device, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each variant in each round, in turn. All must have run before: that is where they compile.

    Raises RuntimeError where Dynamo compiled while the clock ran.
    """
    for call in variants.values():
        call()
    graphs = counters["stats"]["unique_graphs"]
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, call in variants.items():
            times[name].append(_milliseconds(call, device))
    if counters["stats"]["unique_graphs"] != graphs:
        raise RuntimeError("something was compiled while the clock ran: these times are none of attention")
    return times


def median_ratio(times: dict[str, list[float]], name: str, base: str) -> float:
    """Median over rounds of `name / base`."""
    return statistics.median(one / other for one, other in zip(times[name], times[base], strict=True))


def _milliseconds(call: Call, device: torch.device) -> float:
    if device.type != "cuda":
        start = time.perf_counter()
        call()
        return (time.perf_counter() - start) * 1e3
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    begin.record()
    call()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))


def busiest_kernel(call: Call, device: torch.device) -> str:
    """What really ran: the kernel of one call that took most of the time, one of attention where there is any."""
    on_device = device.type == "cuda"
    activities = [ProfilerActivity.CUDA] if on_device else [ProfilerActivity.CPU]
    with profile(activities=activities, acc_events=True) as seen:
        call()
        if on_device:
            torch.cuda.synchronize()
    key = "self_device_time_total" if on_device else "self_cpu_time_total"
    times = {
        one.key: getattr(one, key)
        for one in seen.key_averages()
        if one.device_type == DeviceType.CUDA or one.key.startswith("aten::_scaled")
    }
    attention = {name: time for name, time in times.items() if _ATTENTION.search(name)} or times
    return short_name(max(attention, key=attention.__getitem__)) if attention else "not seen by the profiler"


def short_name(kernel: str) -> str:
    """The telling part of a C++ kernel's name."""
    telling = _ATTENTION.search(kernel)
    return telling.group() if telling else re.sub(r"<.*|\(.*", "", kernel.removeprefix("void ")).split("::")[-1]


def excess(found: Tensor, expected: Tensor, usual: Tensor, floor: float) -> tuple[float, float]:
    """The largest error against `expected`, and the largest that is allowed.

    Args:
        found: the result, in its dtype.
        expected: in float64.
        usual: PyTorch's own result in that dtype: twice its error is allowed.
        floor: what is always allowed, as a part of the largest expected value.
    """
    if expected.numel() == 0:
        return 0.0, 0.0
    error, common = ((one.double() - expected).abs().max().item() for one in (found, usual))
    return error, max(2 * common, floor * expected.abs().max().item())
