"""A file of known findings. It tells findings apart by the text of their row, so they may move within a file."""

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from shapecheck.codemods.errors import UserError
from shapecheck.codemods.findings import Finding

_VERSION = 1
_ROW_NUMBER = re.compile(r"\b(rows?|lines?|cells?) \d+")

Key = tuple[str, str, str]  # path relative to the baseline with forward slashes, code, fingerprint
LineOf = Callable[[Finding], str]  # the text of the row where a finding starts


class BaselineError(UserError):
    """A baseline that cannot be read or written; the message says why."""


@dataclass(frozen=True)
class Compared:
    """Findings against a baseline.

    Attributes:
        new: those that the baseline does not know.
        gone: how many of its entries no longer occur.
    """

    new: tuple[Finding, ...]
    gone: int


def compare(path: Path, findings: Sequence[Finding], linted: Collection[str], line_of: LineOf) -> Compared:
    """Take the findings that a baseline knows from `findings`.

    Args:
        path: the baseline.
        findings: sorted.
        linted: absolute paths of the files of this run; entries of other files that exist are not missed.
        line_of: gives the row of a finding.

    Raises:
        BaselineError: the file cannot be read or is no baseline.
    """
    known = _read(path)
    left = known.copy()
    new = []
    for finding in findings:
        key = _key(finding, path, line_of)
        if left[key] > 0:
            left[key] -= 1
        else:
            new.append(finding)
    gone = sum(count for key, count in left.items() if count > 0 and _is_seen(key, path, linted))
    return Compared(tuple(new), gone)


def write(path: Path, findings: Iterable[Finding], linted: Collection[str], line_of: LineOf) -> int:
    """Make `findings` the known ones; entries of files outside the run stay. Returns the number of entries.

    Raises:
        BaselineError: the file cannot be written, or is there and no baseline.
    """
    from shapecheck.codemods.fixes import write_atomically

    kept = _read(path) if path.exists() else Counter[Key]()
    counts = Counter({key: count for key, count in kept.items() if not _is_seen(key, path, linted)})
    counts.update(_key(finding, path, line_of) for finding in findings)
    entries = [
        json.dumps(dict(zip(("path", "code", "fingerprint", "count"), (*key, count), strict=True)), ensure_ascii=False)
        for key, count in sorted(counts.items())
    ]
    body = ",\n".join(f"    {entry}" for entry in entries)
    text = f'{{\n  "version": {_VERSION},\n  "findings": [' + (f"\n{body}\n  " if entries else "") + "]\n}\n"
    try:
        write_atomically(path, text.encode())
    except OSError as error:
        raise BaselineError(f"{path}: cannot be written: {error.strerror}") from None
    return counts.total()


def _key(finding: Finding, baseline: Path, line_of: LineOf) -> Key:
    message = _ROW_NUMBER.sub(r"\1", finding.message)
    digest = hashlib.sha256(f"{line_of(finding).strip()}\n{message}".encode(errors="surrogatepass"))
    path = os.path.relpath(finding.path, baseline.absolute().parent).replace(os.sep, "/")
    return path, finding.code, digest.hexdigest()[:16]


def _is_seen(key: Key, baseline: Path, linted: Collection[str]) -> bool:
    """Whether the run looked at the entry's file, or it is gone."""
    path = os.path.normpath(baseline.absolute().parent / key[0])
    return path in linted or not os.path.exists(path)


def _read(path: Path) -> Counter[Key]:
    try:
        content = json.loads(path.read_bytes())
        if content["version"] != _VERSION:
            raise BaselineError(f"{path}: a baseline of version {content['version']!r}; run --write-baseline again")
        known = Counter[Key]()
        for entry in content["findings"]:
            count = entry["count"]
            if type(count) is not int or count < 1:
                raise ValueError("count")
            known[str(entry["path"]), str(entry["code"]), str(entry["fingerprint"])] += count
    except OSError as error:
        raise BaselineError(f"{path}: cannot be read: {error.strerror}; --write-baseline makes it") from None
    except BaselineError:
        raise
    except (ValueError, KeyError, TypeError):
        raise BaselineError(f"{path}: not a baseline; delete it and run --write-baseline") from None
    return known
