"""No wait for the device, capture in a CUDA graph, no S x S memory: a section of `benchmarks.gpu_check`."""

from collections.abc import Callable
from functools import partial

import torch

from benchmarks import gpu_check_cases as layouts
from benchmarks.gpu_check_cases import Case, Inputs, Results
from benchmarks.gpu_check_peers import Lowered
from benchmarks.gpu_check_programs import documents, of_documents_causal, tensors
from benchmarks.gpu_check_report import Check, Row, WrongError

ROWS = 32768


def rules(check: Check) -> None:
    """For each path of the kernel two rows over all its cases, and one of memory."""
    cases = layouts.cases(8 if check.quick else 64)
    for path in (layouts.VARLEN, layouts.GATHERED, layouts.FLEX):
        mine = [one for one in cases if one.path == path]
        check.run("rules", f"no wait for the device: {path}", partial(_each, check, mine, never_waits))
        check.run("rules", f"CUDA graph: {path}", partial(_each, check, mine, captured))
    check.run("rules", f"memory of documents, S={ROWS}", partial(_memory, check))


def _each(check: Check, cases: list[Case], rule: Callable[[Case, Check], None], row: Row) -> None:
    check.needs_gpu()
    row.path = cases[0].path
    bad = []
    for case in cases:
        try:
            rule(case, check)
        except WrongError as reason:
            bad.append(f"{case.name}: {reason}")
    if bad:
        raise WrongError("; ".join(bad))
    row.note = f"{len(cases)} calls"


def never_waits(case: Case, check: Check) -> None:
    """Raise WrongError where PyTorch's own detector sees a wait while the operator runs forward and backward."""
    given = layouts.inputs(case, check.device)
    layouts.run(given)  # compiles
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        layouts.run(given)
    except RuntimeError as error:
        raise WrongError(f"the host waited: {error}"[:200]) from error
    finally:
        torch.cuda.set_sync_debug_mode("default")


def captured(case: Case, check: Check) -> None:
    """Capture with one batch, replay with another of other lengths, and raise WrongError where results differ."""
    given, other = layouts.inputs(case, check.device), layouts.inputs(case, check.device, seed=1)
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            layouts.run(given)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = layouts.run(given)
    exchange(given, other)
    graph.replay()
    torch.cuda.synchronize()
    for name, one, right in zip(Results._fields, recorded, layouts.run(given), strict=True):
        live = right.isfinite()
        if not torch.allclose(one[live].float(), right[live].float(), atol=2e-2, rtol=2e-2):
            raise WrongError(f"{name} of the replayed graph differs")


def exchange(given: Inputs, other: Inputs) -> None:
    """Write other values into the same tensors, and move a boundary where it stays inside of what was promised."""
    with torch.no_grad():
        for held, new in zip(given[:4], other[:4], strict=True):
            held.copy_(new)
    cu = given.call.cu_seqlens_q
    shared = given.call.order_q is None and cu is given.call.cu_seqlens_k
    if shared and cu[1] > 5 and cu[2] - cu[1] + 5 <= given.call.max_seqlen_q:
        cu[1] -= 5


def _memory(check: Check, row: Row) -> None:
    check.needs_gpu()
    used = memory(check)
    row.numbers["MiB"] = used / 2**20
    if used >= ROWS * ROWS:
        raise WrongError(f"as much as a mask of {ROWS} x {ROWS}")


def memory(check: Check) -> int:
    """Bytes that forward and backward of a compiled program allocate beyond their arguments."""
    q, k, v, grad_out = tensors(ROWS, torch.bfloat16, check.device)
    cu = documents(ROWS, check.device)
    lowered = Lowered(of_documents_causal, "inductor")
    for _ in range(2):
        torch.autograd.grad(lowered(q, k, v, cu), (q, k, v), grad_out)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    torch.autograd.grad(lowered(q, k, v, cu), (q, k, v), grad_out)
    return torch.cuda.max_memory_allocated() - before
