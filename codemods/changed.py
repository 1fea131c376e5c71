"""Which rows changed since a git revision, so that a run can report on these alone."""

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from shapecheck.codemods.errors import UserError
from shapecheck.codemods.findings import Finding, Span

_HUNK = re.compile(rb"@@ -\S+ \+(\d+)(?:,(\d+))? @@")
_DIFF = (
    *("diff", "--unified=0", "--inter-hunk-context=0", "--no-ext-diff", "--no-textconv", "--no-color", "--text"),
    *("--no-renames", "--ignore-submodules"),
)
_BATCH = 500  # paths a command line


class ChangedError(UserError):
    """git cannot tell what changed; the message holds git's."""


@dataclass(frozen=True)
class _Change:
    """First and last row of each run of rows that were added or changed; None: the whole file is new."""

    runs: tuple[tuple[int, int], ...] | None

    def touches(self, span: Span) -> bool:
        return self.runs is None or any(first <= span.end.row and span.start.row <= last for first, last in self.runs)


def on_changed_rows(findings: Sequence[Finding], revision: str) -> tuple[Finding, ...]:
    """The findings whose span, or that of a note, touches a row that was added or changed since a revision.

    Files that git does not track count as changed throughout, notebooks as soon as anything in them changed.

    Raises:
        ChangedError: not a git repository, or no such revision.
    """
    paths = {finding.path for finding in findings}
    paths.update(note.path for finding in findings for note in finding.notes if note.path is not None)
    absolute = {path: os.path.realpath(path) for path in paths}
    changes: dict[str, _Change] = {}
    for root, files in _by_repository(absolute.values()).items():
        changes |= _changes(root, sorted(files), revision)

    def touches(path: str, span: Span, *, whole_file: bool) -> bool:
        change = changes.get(absolute[path])
        return change is not None and (whole_file or change.touches(span))

    return tuple(
        finding
        for finding in findings
        if any(
            touches(path or finding.path, span, whole_file=finding.cell is not None)
            for path, span in ((None, finding.span), *((note.path, note.span) for note in finding.notes))
        )
    )


def check_revision(folder: str, revision: str) -> None:
    """Make sure that a folder is in a git repository that knows a revision.

    Raises:
        ChangedError: it is not.
    """
    _commit(folder, revision)


def _by_repository(files: Iterable[str]) -> dict[str, list[str]]:
    """Root of the repository -> real paths in it."""
    found: dict[str, list[str]] = {}
    for path in files:
        folder = os.path.dirname(path)
        root = os.fsdecode(_git(folder, "rev-parse", "--show-toplevel")).rstrip("\r\n")
        found.setdefault(root, []).append(path)
    return found


def _changes(root: str, files: Sequence[str], revision: str) -> dict[str, _Change]:
    commit = _commit(root, revision)
    found: dict[str, _Change] = {}
    for start in range(0, len(files), _BATCH):
        batch = ("--", *files[start : start + _BATCH])
        names = _split(_git(root, *_DIFF, "--name-only", "-z", commit, *batch))
        hunks = _hunks(_git(root, *_DIFF, commit, *batch))
        for name, runs in zip(names, hunks, strict=True):
            found[os.path.join(root, name)] = _Change(runs)
        for name in _split(_git(root, "ls-files", "--others", "-z", *batch)):
            found[os.path.join(root, name)] = _Change(None)
    return found


def _hunks(patch: bytes) -> Iterator[tuple[tuple[int, int], ...]]:
    """The changed rows of each file of a patch, in the patch's order, which is that of `--name-only`."""
    runs: list[tuple[int, int]] | None = None
    for line in patch.split(b"\n"):
        if line.startswith(b"diff --git "):
            if runs is not None:
                yield tuple(runs)
            runs = []
        elif runs is not None and (hunk := _HUNK.match(line)):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            if count:
                runs.append((first, first + count - 1))
    if runs is not None:
        yield tuple(runs)


def _commit(folder: str, revision: str) -> str:
    _git(folder, "rev-parse", "--git-dir")  # tells a folder without git from an unknown revision
    try:
        return _git(folder, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}").decode().strip()
    except ChangedError:
        raise ChangedError(
            f"--diff-base: git knows no revision {revision!r} here; fetch it first (a CI checkout may be shallow)"
        ) from None


def _split(output: bytes) -> list[str]:
    return [os.fsdecode(name) for name in output.split(b"\0") if name]


def _git(folder: str, *arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=False)
    except FileNotFoundError:
        raise ChangedError("--diff-base: git is not installed") from None
    if done.returncode != 0:
        raise ChangedError("--diff-base: " + done.stderr.decode(errors="replace").strip())
    return done.stdout
