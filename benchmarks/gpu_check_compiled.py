"""Programs through `torch.compile(backend="shapecheck")`: right, and how fast. A section of `benchmarks.gpu_check`."""

import statistics
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from benchmarks import gpu_check_cases as layouts
from benchmarks.gpu_check_measure import busiest_kernel, median_ratio, paired
from benchmarks.gpu_check_peers import Lowered, Peer, peers
from benchmarks.gpu_check_programs import PROGRAMS, Program, as_call, tensors
from benchmarks.gpu_check_report import Check, Row, SkippedError, WrongError
from benchmarks.gpu_check_results import compare

OURS = "shapecheck"
# What the others are held to, in units of what we are: enough to see that they compute the same.
_PEERS_SLACK = 4.0


def compiled(check: Check) -> None:
    """For each program rows of results; then of the timed ones, at each size, results of each way and their times."""
    inner = "aot_eager" if check.quick else "inductor"
    sizes = (128, 256) if check.quick else (4096, 16384, 32768)
    timed: list[tuple[Program, Lowered]] = []
    for program in PROGRAMS:
        lowered = Lowered(program.function, inner)
        for dtype in (torch.bfloat16, torch.float32) if program.timed else (torch.bfloat16,):
            name = f"{program.name}: result, S={sizes[0]} [{str(dtype).removeprefix('torch.')}]"
            check.run(
                "compiled", name, partial(_result, check, program, lowered, Sample(program, sizes[0], dtype, check))
            )
        if program.timed:
            timed.append((program, lowered))
    for program, lowered in timed:
        ways: dict[str, Peer] = {OURS: lowered, **peers(program, check.on_gpu, inner)}
        for rows in sizes:
            _timed(check, program, ways, Sample(program, rows, torch.bfloat16, check))


class Sample:
    """Tensors of one size, made when they are first asked for, and the results that they must give."""

    def __init__(self, program: Program, rows: int, dtype: torch.dtype, check: Check) -> None:
        self.rows = rows
        self.given = cache(lambda: (*tensors(rows, dtype, check.device), program.metadata(rows, check.device)))
        call = cache(lambda: as_call(program, *self.given()))
        self.expected = cache(lambda: layouts.by_definition(call()))
        self.usual = cache(lambda: layouts.by_sdpa(call()))

    def forward(self, way: Peer) -> Tensor:
        q, k, v, _, metadata = self.given()
        return way(q, k, v, metadata)

    def both(self, way: Peer) -> tuple[Tensor, ...]:
        """The result and the gradients of q, k and v."""
        q, k, v, grad_out, _ = self.given()
        out = self.forward(way)
        return (out, *torch.autograd.grad(out, (q, k, v), grad_out))

    def compare(self, way: Peer, row: Row, slack: float = 1) -> None:
        """Raise WrongError where a way's results are off."""
        packed = [one[0].transpose(0, 1).detach() for one in self.both(way)]
        found = dict(zip(("out", "dq", "dk", "dv"), packed, strict=True))
        compare(found, self.expected(), self.usual(), row, slack)


def _result(check: Check, program: Program, lowered: Lowered, sample: Sample, row: Row) -> None:
    sample.forward(lowered)
    if not lowered.lowered:
        raise WrongError("was not lowered")
    sample.compare(lowered, row)
    row.kernel = busiest_kernel(lambda: sample.forward(lowered), check.device)


def _timed(check: Check, program: Program, ways: dict[str, Peer], sample: Sample) -> None:
    ready: dict[str, Peer] = {}

    def equals(name: str, row: Row) -> None:
        try:
            sample.compare(ways[name], row, 1 if name == OURS else _PEERS_SLACK)  # compiles
        except torch.OutOfMemoryError as error:
            if name == OURS:
                raise
            raise SkippedError("out of memory") from error
        ready[name] = ways[name]

    for name in ways:
        check.run("compiled", f"{program.name}: {name}, S={sample.rows} [bfloat16]", partial(equals, name))
    directions: dict[str, Callable[[Peer], Any]] = {"forward": sample.forward, "forward + backward": sample.both}
    for direction, call in directions.items():
        name = f"{program.name}: {direction}, S={sample.rows}, ms [bfloat16]"
        check.run("compiled", name, partial(_times, check, ready, call))


def _times(check: Check, ways: dict[str, Peer], call: Callable[[Peer], Any], row: Row) -> None:
    """All ways in turn, on the same tensors; milliseconds, and how long each takes for one of ours."""
    if OURS not in ways or len(ways) == 1:
        raise SkippedError("nothing to compare")
    calls: dict[str, Callable[[], Any]] = {name: partial(call, way) for name, way in ways.items()}
    measured = paired(calls, check.device, rounds=3 if check.quick else 15)
    for name, one in measured.items():
        row.numbers[name] = statistics.median(one)
    ratios = {name: median_ratio(measured, name, OURS) for name in ways if name != OURS}
    row.note = ", ".join(f"{name} takes {ratio:.2f}x" for name, ratio in ratios.items())
    row.kernel = busiest_kernel(calls[OURS], check.device)
