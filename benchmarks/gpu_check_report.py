"""Rows of `benchmarks.gpu_check`: run one after another, each whatever became of the others, and shown as a table."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from rich.markup import escape
from rich.table import Table

# In this order, and until which part of the time a section may start another row.
SHARES = {"results": 0.4, "rules": 0.55, "compiled": 1.0}


@dataclass
class Row:
    """One line of a table.

    Attributes:
        section: a key of SHARES.
        name: what was looked at.
        status: ok, wrong (a result, a path or a rule), error (it raised) or skipped.
        path: the code that takes the call.
        kernel: the device's kernel that took most of the time.
        numbers: errors, or milliseconds, or MiB, as the name says.
        note: why it is not ok; ratios of times.
        seconds: what the row took in all, compilation included.
    """

    section: str
    name: str
    status: str = "ok"
    path: str = ""
    kernel: str = ""
    numbers: dict[str, float] = field(default_factory=dict)
    note: str = ""
    seconds: float = 0.0


class WrongError(Exception):
    """A result, a path or a rule is not as it must be."""


class SkippedError(Exception):
    """This row cannot run here."""


class Check:
    """Where and how long to run, and the rows so far.

    Args:
        device: of all tensors.
        quick: small sizes.
        budget: seconds from now, of which each section has its share.
        seen: called with each row once it is complete.
    """

    def __init__(
        self, device: torch.device, quick: bool, budget: float, seen: Callable[[Row], None] = lambda row: None
    ) -> None:
        self.device = device
        self.quick = quick
        self.rows: list[Row] = []
        self._begin = time.monotonic()
        self._budget = budget
        self._seen = seen

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    def run(self, section: str, name: str, body: Callable[[Row], None]) -> None:
        """Append a row and let `body` fill it. What it raises is the row's status; without time left it is skipped."""
        row = Row(section, name)
        self.rows.append(row)
        begin = time.monotonic()
        try:
            if begin - self._begin > SHARES[section] * self._budget:
                raise SkippedError("no time left")
            body(row)
        except SkippedError as reason:
            row.status, row.note = "skipped", str(reason)
        except WrongError as reason:
            row.status, row.note = "wrong", str(reason)
        except Exception as error:  # one failure must not hide the others
            row.status, row.note = "error", f"{type(error).__name__}: {error}"[:300]
        row.seconds = time.monotonic() - begin
        self._seen(row)

    @property
    def failed(self) -> bool:
        """Whether a row is wrong, or a section has no row that ran."""
        if any(row.status in ("wrong", "error") for row in self.rows):
            return True
        sections = SHARES if self.on_gpu else ("results", "compiled")
        return any(all(row.status == "skipped" for row in self.rows if row.section == one) for one in sections)

    def needs_gpu(self) -> None:
        """Raise SkippedError on the CPU."""
        if not self.on_gpu:
            raise SkippedError("needs CUDA")


def table(section: str, rows: list[Row]) -> Table:
    """The rows of a section."""
    shown = Table(title=section)
    for column in ("", "status", "path", "kernel that ran", "numbers", "note"):
        shown.add_column(column, overflow="fold")
    colours = {"ok": "green", "skipped": "yellow", "wrong": "bold red", "error": "bold red"}
    for row in rows:
        if row.section == section:
            numbers = "  ".join(f"{name} {value:.3g}" for name, value in row.numbers.items())
            status = f"[{colours[row.status]}]{row.status}[/]"
            shown.add_row(escape(row.name), status, row.path, escape(row.kernel), numbers, escape(row.note))
    return shown
