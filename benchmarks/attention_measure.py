"""Times of several calls that do the same work, taken in turn, and what became of a target."""

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

ONCE = 2.0
"""Seconds: calls that take longer are measured once."""

_SHORTEST = 0.02  # seconds of one measurement: shorter calls are repeated


@dataclass(frozen=True)
class Times:
    """Seconds per call, one entry for each round; a single one where the call was measured once."""

    wall: list[float]
    cpu: list[float]

    @property
    def milliseconds(self) -> float:
        """Median wall time."""
        return statistics.median(self.wall) * 1e3

    @property
    def once(self) -> bool:
        """Whether there is one round only."""
        return len(self.wall) == 1

    def over(self, other: "Times") -> tuple[float, float]:
        """How many times as long as the other: medians over the rounds' ratios, of wall time and of CPU time.

        Where either was measured once, its one time beside the median of the other's.
        """
        if self.once or other.once:
            return (
                statistics.median(self.wall) / statistics.median(other.wall),
                statistics.median(self.cpu) / statistics.median(other.cpu),
            )
        return _paired(self.wall, other.wall), _paired(self.cpu, other.cpu)


def _paired(these: list[float], others: list[float]) -> float:
    return statistics.median(one / other for one, other in zip(these, others, strict=True))


def measure(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Times]:
    """Times of every call, which has been called before: round by round, each in turn."""
    times: dict[str, Times] = {}
    repeats: dict[str, int] = {}
    for name, call in calls.items():
        wall, cpu = _timed(call, 1)
        if wall > ONCE:
            times[name] = Times([wall], [cpu])
        else:
            times[name] = Times([], [])
            repeats[name] = max(1, int(_SHORTEST / wall))
    for _ in range(rounds):
        for name, count in repeats.items():
            wall, cpu = _timed(calls[name], count)
            times[name].wall.append(wall)
            times[name].cpu.append(cpu)
    return times


def _timed(call: Callable[[], object], repeats: int) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - wall) / repeats, (time.process_time() - cpu) / repeats


@dataclass(frozen=True)
class Finding:
    """One number, and its target.

    Attributes:
        section: of the benchmark.
        case: what was measured.
        what: the number's name.
        value: the number; None where it could not be measured.
        bar: its target, None if it has none.
        least: whether the bar is a lower limit, else an upper one.
        cpu: the same ratio in CPU time, where value is one of wall time.
        milliseconds: median wall time of the peer, where value is a ratio of times.
        note: what else there is to say.
        failed: whether the lowered module itself, or a whole case, came to nothing: as bad as a target missed.
    """

    section: str
    case: str
    what: str
    value: float | None
    bar: float | None = None
    least: bool = True
    cpu: float | None = None
    milliseconds: float | None = None
    note: str = ""
    failed: bool = False

    @property
    def factor(self) -> float | None:
        """How far on the right side of the bar the value is: 1 or more where it is reached."""
        if self.value is None or self.bar is None:
            return None
        if self.least:
            return self.value / self.bar
        return self.bar / self.value if self.value else float("inf")

    @property
    def judged(self) -> bool:
        """Whether it counts: as reached, or as missed."""
        return self.failed or self.factor is not None

    @property
    def missed(self) -> bool:
        """Whether it is on the wrong side of its bar, or failed."""
        return self.failed or (self.factor is not None and self.factor < 1)

    @property
    def verdict(self) -> str:
        """In a word and a factor; `""` without a bar."""
        if self.failed:
            return "FAILED"
        if self.factor is None:
            return ""
        word = "MISSED" if self.missed else "reached"
        return f"{word}, {self.factor:.2f}x" if self.bar else word


@dataclass(frozen=True)
class Unit:
    """One case of a section, which succeeds or fails as a whole.

    Attributes:
        case: as its findings name it.
        measure: gives its findings.
    """

    case: str
    measure: Callable[[], Iterable[Finding]]


Section = Callable[[bool, Sequence[Finding]], Iterator[Unit]]
"""The units of a section: of fewer cases or rounds if quick, given what was found of it in a run before."""


def first_line(error: Exception) -> str:
    """An error in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:150]}" if lines else type(error).__name__
