"""The texts of files with findings, read again for those who show or fingerprint rows."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from shapecheck.codemods.findings import Finding

if TYPE_CHECKING:
    from shapecheck.codemods.lintable import Lintable


class Texts:
    """Files by the path that findings show."""

    def __init__(self, given: Mapping[str, bytes]) -> None:
        """`given` holds the bytes of files that are not on disk."""
        self._given = given
        self._read = lru_cache(maxsize=1)(self._read_path)

    def line_of(self, finding: Finding) -> str:
        """The row where a finding starts; empty if the file cannot be read."""
        try:
            return self._read(finding.path).line_of(finding)
        except OSError:
            return ""

    def text_of(self, path: str) -> str:
        """A file's text.

        Raises:
            OSError: the file cannot be read, or is no source.
        """
        return self._read(path).text

    def _read_path(self, path: str) -> "Lintable":
        from shapecheck.codemods.lintable import read_lintable
        from shapecheck.codemods.source import SourceError

        try:
            file = read_lintable(self._given[path] if path in self._given else Path(path), path)
        except SourceError as error:
            raise OSError(str(error)) from None
        if file is None:
            raise OSError("a notebook without Python")
        return file
