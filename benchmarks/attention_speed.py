"""Times of the lowered module beside its peers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from benchmarks import attention_peers as peers
from benchmarks.attention_cases import Batch, Case, Lengths
from benchmarks.attention_measure import Finding, Times, Unit, first_line, measure

OURS = "lowered"
_TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 1e-1}
_LONGEST = 8.0  # seconds: a peer that would take longer, to judge by a smaller cell, is not run
_CLOSE = 0.1  # ratios this near to their bars are measured again, in more rounds
_MORE = 3  # times as many

Ways = Mapping[str, peers.Way]
Bars = Mapping[str, float]
"""How many times as long as ours a peer takes at least."""


@dataclass(frozen=True)
class Result:
    """Times of one case, and why some ways have none."""

    times: dict[str, Times]
    missing: dict[str, str]


def run(case: Case, ways: Ways, bars: Bars, rounds: int) -> Result:
    """Measure one case, after a look at whether all ways give the same as the first.

    A peer that fails or gives something else is missing. Raises what the lowered module raises, and AssertionError
    where it gives something else.
    """
    batch = Batch.of(case)
    calls: dict[str, Callable[[], object]] = {}
    missing: dict[str, str] = {}
    expected: tuple[torch.Tensor, ...] = ()
    with torch.set_grad_enabled(case.train):
        for name, way in ways.items():
            try:
                attend = way(batch)
                results = attend.backward() if case.train else (attend.forward(),)
                packed = tuple(attend.packed(one) for one in results)
                expected = expected or packed
                _compare(packed, expected)
            except peers.UnavailableError as error:
                missing[name] = str(error)
            except Exception as error:
                if name == OURS:
                    raise
                missing[name] = f"failed: {first_line(error)}"
            else:
                calls[name] = attend.backward if case.train else attend.forward
        times = measure(calls, rounds)
        if any(abs(times[peer].over(times[OURS])[0] / bar - 1) < _CLOSE for peer, bar in bars.items() if peer in times):
            short = {name: call for name, call in calls.items() if not times[name].once}
            times |= measure(short, _MORE * rounds)
        return Result(times, missing)


def _compare(these: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> None:
    for one, other in zip(these, others, strict=True):
        tolerance = _TOLERANCE[one.dtype]
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def headline(quick: bool, before: Sequence[Finding]) -> Iterator[Unit]:
    """The cases that were promised, beside all peers."""
    everything: Ways = {
        "loop": peers.loop,
        OURS: peers.lowered,
        "loop, in place": peers.loop_in_place,
        "stock": peers.stock,
        "padded": peers.padded,
        "flex": peers.flex,
        "nested": peers.nested,
    }
    loops: Ways = {name: everything[name] for name in ("loop", OURS, "loop, in place")}
    faster = {"padded": 1, "flex": 1, "nested": 1}
    plan: list[tuple[Case, Ways, Bars]] = [
        (Case(4096, 16), everything, {"stock": 9, **faster}),
        (Case(2048, 16, train=True), everything, {"stock": 8, **faster}),
        (Case(4096, 1024, "equal"), loops, {"loop": 3, "loop, in place": 3}),
        (Case(4096, 1024, "equal", train=True), loops, {"loop": 3}),
    ]
    if not quick:
        plan.append((Case(16384, 16), {**loops, "stock": peers.stock}, {"stock": 11}))
        plan.append((Case(4096, 16, dtype=torch.bfloat16), everything, faster))
    for case, ways, bars in plan:
        yield Unit(str(case), partial(_beside_all, case, ways, bars, rounds=3 if quick else 9))
        peers.forget()


def _beside_all(case: Case, ways: Ways, bars: Bars, rounds: int) -> Iterable[Finding]:
    result = run(case, ways, bars, rounds)
    yield from _ratios("headline", case, result, bars)
    loops = {name: times for name, times in result.times.items() if name.startswith("loop")}
    if loops and case.documents < case.rows // 64:
        best = min(loops, key=lambda name: loops[name].milliseconds)
        wall, cpu = result.times[OURS].over(loops[best])
        yield Finding("headline", str(case), f"{OURS} / best loop ({best})", wall, 1.1, least=False, cpu=cpu)


def cells(quick: bool, before: Sequence[Finding]) -> Iterator[Unit]:
    """Documents x rows x lengths x dtype x mask, forward and forward + backward, beside peers of other kinds."""
    known = {(one.case, one.what): one.milliseconds for one in before if one.milliseconds is not None}
    every_rows = (1024,) if quick else (1024, 4096, 16384)
    every_count = (4, 64, 1024) if quick else (4, 16, 64, 256, 1024)
    for dtype in (torch.float32, torch.bfloat16):
        for causal in (False, True):
            for train in (False, True):
                for rows in every_rows:
                    heads = 8 if rows < 16384 else 2
                    for documents in every_count:
                        for lengths in _kinds(rows, documents):
                            case = Case(rows, documents, lengths, dtype, causal, train, heads)
                            yield Unit(str(case), partial(_cell, case, known, rounds=3 if quick else 5))
                peers.forget()


def _kinds(rows: int, documents: int) -> Iterable[Lengths]:
    return ("skewed", "equal") if rows > documents else ("equal",)


def _cell(case: Case, known: dict[tuple[str, str], float], rounds: int) -> Iterable[Finding]:
    ways: dict[str, peers.Way] = {
        "loop": peers.loop,
        OURS: lambda batch: peers.lowered(batch, dynamic=True),
        "padded": lambda batch: peers.padded(batch, dynamic=True),
        "flex": peers.flex,
        "nested": peers.nested,
    }
    smaller = replace(case, rows=case.rows // 4, heads=8)
    growth = 16 * case.heads / smaller.heads
    too_long = {}
    for name in ways:
        expected = known.get((str(smaller), _over(name)), 0.0) * growth / 1e3
        if expected > _LONGEST:
            too_long[name] = f"not run: some {expected:.0f} s a call, to judge by S={smaller.rows}"
    bars = {"padded": 1.0, "flex": 1.0, "nested": 1.0}
    result = run(case, {name: way for name, way in ways.items() if name not in too_long}, bars, rounds)
    for finding in _ratios("cells", case, Result(result.times, {**result.missing, **too_long}), bars):
        if finding.milliseconds is not None:
            known[finding.case, finding.what] = finding.milliseconds
        yield finding


def _ratios(section: str, case: Case, result: Result, bars: Bars) -> Iterable[Finding]:
    """Each peer over ours."""
    ours = result.times[OURS]
    for name, times in result.times.items():
        if name == OURS:
            continue
        wall, cpu = times.over(ours)
        spent = times.milliseconds
        note = f"{spent:.2f} against {ours.milliseconds:.2f} ms" + (", once" if times.once else "")
        yield Finding(section, str(case), _over(name), wall, bars.get(name), cpu=cpu, milliseconds=spent, note=note)
    for name, reason in result.missing.items():
        yield Finding(section, str(case), _over(name), None, note=reason)


def _over(peer: str) -> str:
    return f"{peer} / {OURS}"
