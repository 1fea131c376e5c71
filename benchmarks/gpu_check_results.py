"""Every path of the CUDA kernel, forward and backward, against float64: a section of `benchmarks.gpu_check`."""

from functools import partial

import torch
from torch import Tensor

from benchmarks import gpu_check_cases as layouts
from benchmarks.gpu_check_cases import Case, Inputs, Results
from benchmarks.gpu_check_measure import busiest_kernel, excess
from benchmarks.gpu_check_report import Check, Row, WrongError
from shapecheck._attention.kernels import cuda, kernel_for

# Part of the largest value that is always allowed as an error.
FLOORS = {torch.float32: 4e-6, torch.bfloat16: 4e-3, torch.float16: 5e-4}
LSE_ERROR = 2e-3


def results(check: Check) -> None:
    """A row for each layout."""
    for case in layouts.cases(8 if check.quick else 64):
        check.run("results", f"{case.name} [{str(case.dtype).removeprefix('torch.')}]", partial(_result, check, case))


def _result(check: Check, case: Case, row: Row) -> None:
    given = layouts.inputs(case, check.device)
    row.path = path_of(given, check)
    found = layouts.run(given)
    compare(found._asdict(), layouts.by_definition(given), layouts.by_sdpa(given), row)
    if check.on_gpu and row.path != case.path:
        raise WrongError(f"taken by {row.path}, expected {case.path}")
    row.kernel = busiest_kernel(lambda: layouts.forward(given), check.device)


def path_of(given: Inputs, check: Check) -> str:
    """Which code takes the call: of the CUDA kernel, or the name of the device's own."""
    if not check.on_gpu:
        return kernel_for(check.device.type).name
    if cuda.uses_flex(given.q, given.k, given.call):
        return layouts.FLEX
    return layouts.VARLEN if given.call.order_q is None else layouts.GATHERED


def compare(found: dict[str, Tensor], expected: Results, usual: Results, row: Row, slack: float = 1) -> None:
    """Write the largest errors into a row.

    Args:
        found: some of what `Results` has.
        expected: in float64.
        usual: PyTorch's own in the dtype of `found`: twice its error is allowed.
        row: gets the errors.
        slack: that many times more is allowed.

    Raises WrongError, which names every result that is off.
    """
    bad = []
    for name, one in found.items():
        if name != "lse":
            error, allowed = excess(one, getattr(expected, name), getattr(usual, name), FLOORS[one.dtype])
            row.numbers[name] = error
            if not error <= slack * allowed:  # a NaN is wrong too
                bad.append(f"{name} is off by {error:.2g}, allowed {slack * allowed:.2g}")
    if "lse" in found:
        lse, lives = found["lse"], expected.lse.isfinite()
        if not torch.equal(lse.isneginf(), ~lives):
            bad.append("lse is not -inf exactly where a query sees no key")
        elif lives.any() and not (lse[lives].double() - expected.lse[lives]).abs().max() <= LSE_ERROR:
            bad.append("lse is off")
    if bad:
        raise WrongError("; ".join(bad))
