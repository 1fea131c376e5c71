"""What a wrong number of rows is made of: `512 rows are video only; text (77) and audio (126) are missing`."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

_MOST_KEPT, _MOST_MISSING = 35, 60  # characters of a list of parts: the sentence is one line
_MOST_SUMS = 20_000  # an error message is not worth more
_MOST_GROUPS = 24  # beyond this, subsets of equal sum are all but certain


class Group(NamedTuple):
    """Rows that are there or missing together: a part, or a sample."""

    name: str
    rows: int


class Explanation(NamedTuple):
    """How a number of rows comes about: groups that are there, and groups that are missing."""

    kept: tuple[Group, ...]
    missing: tuple[Group, ...]


AMBIGUOUS = -1


def explain(groups: Sequence[Group], rows: int) -> Explanation | None:
    """The one way to leave out groups so that `rows` remain; None where there is none, or more than one."""
    return explain_first([groups], rows)


def explain_first(groupings: Iterable[Sequence[Group]], rows: int) -> Explanation | None:
    """The explanation by the first grouping that has one; None as soon as one has several: then nobody knows."""
    for grouping in groupings:
        groups = [group for group in grouping if group.rows > 0]
        mask = _subset(groups, rows)
        if mask == AMBIGUOUS:
            return None
        if mask is not None:
            kept = tuple(group for i, group in enumerate(groups) if mask >> i & 1)
            return Explanation(kept, tuple(group for i, group in enumerate(groups) if not mask >> i & 1))
    return None


def _subset(groups: Sequence[Group], rows: int) -> int | None:
    """The groups that have `rows` together, as a bit mask; None for no such set, AMBIGUOUS for several."""
    if rows >= sum(group.rows for group in groups):
        return None
    if len(groups) > _MOST_GROUPS:
        return AMBIGUOUS
    reached: dict[int, int] = {0: 0}
    for i, group in enumerate(groups):
        if len(reached) > _MOST_SUMS:
            return AMBIGUOUS
        for total, mask in list(reached.items()):
            grown = total + group.rows
            if grown <= rows:
                reached[grown] = AMBIGUOUS if grown in reached or mask == AMBIGUOUS else mask | 1 << i
    return reached.get(rows)


def sentence(explanation: Explanation, owner: str = "") -> str:
    """`512 rows are video only; text (77) and audio (126) are missing`.

    Args:
        owner: whose rows they are, where that is not plain: `715 rows of x are ...`.
    """
    rows = sum(group.rows for group in explanation.kept)
    of = f" of {owner}" if owner else ""
    kept = _joined([group.name for group in explanation.kept], _MOST_KEPT)
    missing = _joined([f"{group.name} ({group.rows})" for group in explanation.missing], _MOST_MISSING)
    there = f"{rows} rows{of} are {kept} only" if rows > 1 else f"1 row{of} is {kept} only"
    verb = "is" if len(explanation.missing) == 1 else "are"
    return f"{there if rows else 'there are no rows' + of}; {missing} {verb} missing"


def _joined(words: Sequence[str], most: int) -> str:
    """`a, b and c`, in about `most` characters."""
    shown = list(words)
    while len(", ".join(shown)) > most and len(shown) > 1:
        shown.pop()
    if len(shown) < len(words):
        shown.append(f"{len(words) - len(shown)} more")
    return ", ".join(shown[:-1]) + f" and {shown[-1]}" if len(shown) > 1 else "".join(shown)
