"""What former runs found, so that unchanged files are not even opened."""

import json
import os
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from shapecheck.codemods import findings as data
from shapecheck.codemods.findings import Finding

Stamp = tuple[int, int]  # mtime in ns, size in bytes

_FORMAT = 1
_FRESH_NS = 20_000_000  # a file may change again within one tick of the file system's clock
_TAG = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This file marks a cache folder of shapecheck, see https://bford.info/cachedir/\n"
)
_TYPES: dict[str, Callable[..., Any]] = {
    kind.__name__: kind
    for kind in (
        *(data.Position, data.Span, data.Note, data.Finding, data.Fix),
        *(data.Replace, data.InsertItem, data.ReorderItems, data.AddKeyword),
    )
}


def stamp_of(path: str) -> Stamp:
    """When a file changed last, and its size.

    Raises:
        OSError: there is no such file.
    """
    stat = os.stat(path)
    return stat.st_mtime_ns, stat.st_size


class Cache:
    """One file in a folder. Faults of the file or the disk only mean that nothing is remembered."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._entries: dict[str, list[Any]] = {}  # path -> mtime, size, digest, findings (absent if none)
        self._changed = False
        try:
            content = json.loads((folder / "findings.json").read_bytes())
            if content["format"] == _FORMAT:
                self._entries = {path: entry for path, entry in content["files"].items() if _is_entry(entry)}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self._changed = True

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self._folder

    def get(self, path: str, stamp: Stamp, digest: str) -> tuple[Finding, ...] | None:
        """The findings of an absolute path; None if the file or what checks it changed."""
        entry = self._entries.get(path)
        if entry is None or entry[2] != digest or entry[0] != stamp[0] or entry[1] != stamp[1]:
            return None
        if len(entry) == 3:
            return ()
        try:
            found = tuple(_decode(item) for item in entry[3])
        except (KeyError, TypeError, ValueError, IndexError, RecursionError):
            return None
        return found if all(isinstance(finding, Finding) for finding in found) else None

    def put(self, path: str, stamp: Stamp, digest: str, findings: Collection[Finding]) -> None:
        """Remember the findings of an absolute path; not if it changed a moment ago, since it may change again."""
        if abs(time.time_ns() - stamp[0]) < _FRESH_NS:
            return
        self._entries[path] = [*stamp, digest, *([[_encode(finding) for finding in findings]] if findings else [])]
        self._changed = True

    def save(self, linted: Collection[str]) -> None:
        """Write the file if anything changed; entries of files that are gone are dropped."""
        if not self._changed:
            return
        keep = {path: entry for path, entry in self._entries.items() if path in linted or os.path.exists(path)}
        text = json.dumps({"format": _FORMAT, "files": keep}, separators=(",", ":"))
        temporary = self._folder / f"findings.{os.getpid()}.tmp"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for name, content in ((".gitignore", "*\n"), ("CACHEDIR.TAG", _TAG)):
                if not (self._folder / name).exists():
                    (self._folder / name).write_text(content, encoding="utf-8")
            temporary.write_text(text, encoding="utf-8")
            os.replace(temporary, self._folder / "findings.json")
        except (OSError, UnicodeError):
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, list) and (len(entry) == 3 or (len(entry) == 4 and isinstance(entry[3], list)))


def _encode(value: Any) -> Any:
    """Plain JSON; a dataclass becomes an object of its type's name and its fields."""
    if is_dataclass(value):
        return {type(value).__name__: [_encode(getattr(value, item.name)) for item in fields(value)]}
    return [_encode(item) for item in value] if isinstance(value, tuple) else value


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        ((name, items),) = value.items()
        return _TYPES[name](*(_decode(item) for item in items))
    return tuple(_decode(item) for item in value) if isinstance(value, list) else value
