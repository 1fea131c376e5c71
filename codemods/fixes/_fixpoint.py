"""Applies fixes until none is left that makes things better."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from shapecheck.codemods.findings import Finding
from shapecheck.codemods.fixes._edits import FixRefused, Patcher, splice
from shapecheck.codemods.fixes._layout import Patch
from shapecheck.codemods.fixes._parse import parsed
from shapecheck.codemods.fixes._rows import ROW_END, Rows

Check = Callable[[str], Sequence[Finding]]

_MOST_UNCOVERED = 8  # findings that may come to light one after the other behind one fix


@dataclass(frozen=True, slots=True)
class Fixed:
    """What came of a text.

    Attributes:
        text: the text after all fixes.
        applied: the findings that were mended, each as found in the text of its round.
        refused: the findings in `text` whose fix was not kept, and why.
    """

    text: str
    applied: tuple[Finding, ...]
    refused: tuple[tuple[Finding, str], ...]


@dataclass(frozen=True, slots=True)
class _Candidate:
    finding: Finding
    patches: tuple[Patch, ...]


@dataclass(frozen=True, slots=True)
class _State:
    text: str
    findings: tuple[Finding, ...]
    protected_rows: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Step:
    state: _State
    applied: tuple[Finding, ...]


def fix_text(text: str, check: Check, *, unsafe: bool, protected_rows: frozenset[int] = frozenset()) -> Fixed:
    """Applies the safe fixes, and the unsafe ones if asked, until no more can be kept.

    A fix is kept if the text parses after it, its finding is gone and no other came. Where a rule names one place of a
    fault at a time, the next one then comes to light: its fix is made too, and all are kept if nothing is left. So
    every round leaves fewer findings than the one before, and the rounds end.

    Args:
        text: a module.
        check: finds the faults of a text.
        unsafe: whether to apply unsafe fixes too.
        protected_rows: rows of `text` that stay as they are, and with them what begins, ends or runs there.
    """
    state = _State(text, tuple(check(text)), protected_rows)
    applied: list[Finding] = []
    suspects: set[tuple[str, str]] = set()  # what failed alone is kept out of the batches
    while True:
        candidates, refused = _candidates(state, unsafe)
        for batch in _batches(candidates, suspects):
            tried = _attempt(state, batch, check, unsafe)
            if isinstance(tried, _Step):
                state = tried.state
                applied += tried.applied
                break
            if len(batch) == 1:
                refused.append((batch[0].finding, tried))
                suspects.add(_kind(batch[0]))
        else:
            return Fixed(state.text, tuple(applied), tuple(sorted(refused, key=lambda pair: pair[0].span)))


def _candidates(state: _State, unsafe: bool) -> tuple[list[_Candidate], list[tuple[Finding, str]]]:
    """The findings that have a fix to try, and those whose fix cannot be tried."""
    candidates: list[_Candidate] = []
    refused: list[tuple[Finding, str]] = []
    patcher: Patcher | None = None
    for finding in state.findings:
        if finding.fix is None or not (unsafe or finding.fix.safe):
            continue
        spans = (finding.span, *(edit.span for edit in finding.fix.edits))
        rows = {row for span in spans for row in range(span.start.row, span.end.row + 1)} & state.protected_rows
        if rows:
            refused.append((finding, f"row {min(rows)} is suppressed"))
            continue
        try:
            patcher = patcher or Patcher(state.text)
            candidates.append(_Candidate(finding, patcher.patches(finding.fix.edits)))
        except FixRefused as reason:
            refused.append((finding, str(reason)))
    return candidates, refused


def _batches(candidates: Sequence[_Candidate], suspects: set[tuple[str, str]]) -> Iterator[list[_Candidate]]:
    """What to try, in this order: as many as do not touch each other, then one by one, the suspects last."""
    trusted = [candidate for candidate in candidates if _kind(candidate) not in suspects]
    together: list[_Candidate] = []
    taken: list[tuple[int, int]] = []
    for candidate in trusted:
        places = [(patch.start, patch.end) for patch in candidate.patches]
        if all(end < start or stop < begin for start, stop in places for begin, end in taken):
            together.append(candidate)
            taken += places
    if len(together) > 1:
        yield together
    for candidate in trusted:
        yield [candidate]
    for candidate in candidates:
        if candidate not in trusted:
            yield [candidate]


def _attempt(state: _State, batch: Sequence[_Candidate], check: Check, unsafe: bool, uncovered: int = 0) -> _Step | str:
    """The state with the batch applied, and with what came to light by it; or why it is not kept."""
    patches = sorted((patch for one in batch for patch in one.patches), key=lambda patch: (patch.start, patch.end))
    text = splice(state.text, patches)
    if parsed(text) is None:
        return "the text would not parse"
    mended = tuple(candidate.finding for candidate in batch)
    rest = [finding for finding in state.findings if finding not in mended]
    after = _State(text, tuple(check(text)), _moved_rows(state, patches))
    extra = _unmatched(after, rest, state, patches)
    if not extra:
        return _Step(after, mended)
    still = " still" if any(extra[0].code == finding.code for finding in mended) else ""
    reason = f"there would{still} be {extra[0].code} in row {extra[0].span.start.row}"
    elsewhere = len(_unmatched(replace(after, findings=tuple(extra)), mended, state, patches)) == len(extra)
    if len(extra) > 1 or not elsewhere or uncovered == _MOST_UNCOVERED:
        return reason
    candidates, _ = _candidates(replace(after, findings=tuple(extra)), unsafe)
    step = _attempt(after, candidates, check, unsafe, uncovered + 1) if candidates else reason
    return _Step(step.state, (*mended, *step.applied)) if isinstance(step, _Step) else reason


def _unmatched(after: _State, known: Sequence[Finding], before: _State, patches: Sequence[Patch]) -> list[Finding]:
    """The findings of `after` that are none of the known ones, at the places to which the patches moved those."""
    rows, known_rows = Rows(after.text), Rows(before.text)
    moved = [(finding.code, *_moved(known_rows.offset(finding.span.start), patches)) for finding in known]
    unmatched = []
    for finding in after.findings:
        offset = rows.offset(finding.span.start)
        for index, (code, first, last) in enumerate(moved):
            if code == finding.code and first <= offset <= last:
                del moved[index]
                break
        else:
            unmatched.append(finding)
    return unmatched


def _moved(offset: int, patches: Sequence[Patch]) -> tuple[int, int]:
    """First and last place where a character can be after the patches: two places if one of them touched it."""
    growth, touched = 0, []
    for patch in patches:
        if patch.start > offset:
            break
        if patch.end >= offset:
            touched += [patch.start + growth, patch.start + growth + len(patch.code)]
        growth += len(patch.code) - (patch.end - patch.start)
    return (min(touched), max(touched)) if touched else (offset + growth, offset + growth)


def _moved_rows(state: _State, patches: Sequence[Patch]) -> frozenset[int]:
    """The protected rows, counted in the text after the patches."""
    starts = Rows(state.text).starts
    moved = set()
    for row in state.protected_rows:
        above = [patch for patch in patches if row <= len(starts) and patch.end < starts[row - 1]]
        growth = [_row_ends(patch.code) - _row_ends(state.text[patch.start : patch.end]) for patch in above]
        moved.add(row + sum(growth))
    return frozenset(moved)


def _row_ends(text: str) -> int:
    return len(ROW_END.findall(text))


def _kind(candidate: _Candidate) -> tuple[str, str]:
    return candidate.finding.code, candidate.finding.message
