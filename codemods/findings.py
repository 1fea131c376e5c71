"""What a rule reports, and where. Plain data: cached, sent between processes and printed in seven formats."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a file: row and column count from 1, columns in characters (not bytes)."""

    row: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """From the first character of something to the place right after its last one."""

    start: Position
    end: Position


@dataclass(frozen=True, slots=True)
class Note:
    """A second place that the message is about: where one of two values that part ways was made."""

    span: Span
    message: str
    path: str | None = None  # None: the file of the finding


@dataclass(frozen=True, slots=True)
class Replace:
    """The expression that spans exactly `span` becomes `code`."""

    span: Span
    code: str


@dataclass(frozen=True, slots=True)
class InsertItem:
    """`code` becomes item `index` of the list, tuple or set display at `span`."""

    span: Span
    index: int
    code: str


@dataclass(frozen=True, slots=True)
class ReorderItems:
    """Item `order[i]` of the list or tuple display at `span` moves to place `i`; commas and whitespace stay."""

    span: Span
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AddKeyword:
    """The call at `span` gets a last argument `name=code`."""

    span: Span
    name: str
    code: str


Edit = Replace | InsertItem | ReorderItems | AddKeyword


@dataclass(frozen=True, slots=True)
class Fix:
    """How to mend a finding. Safe means: no correct program computes other values after it; `--fix` applies only
    those."""

    title: str
    safe: bool
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault at one place."""

    path: str
    span: Span
    code: str
    name: str
    message: str
    notes: tuple[Note, ...] = ()
    fix: Fix | None = None
    cell: int | None = None  # cell of a notebook, counted from 1; spans then count within the cell

    def sort_key(self) -> tuple[object, ...]:
        """Path, cell, place, code: the order of every output."""
        return (self.path, self.cell or 0, self.span, self.code, self.message)


@dataclass(frozen=True, slots=True)
class Silence:
    """A call with packed metadata that no rule could judge, and why. Shown by `--explain-silence`."""

    path: str
    span: Span
    callee: str
    argument: str
    reason: str
    cell: int | None = None
