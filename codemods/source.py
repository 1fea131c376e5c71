"""Reading Python files so that unchanged text gives back unchanged bytes: encoding cookie, BOM, line ends."""

import codecs
import io
from dataclasses import dataclass
from pathlib import Path


class SourceError(ValueError):
    """A file that cannot be read as source, or a text that cannot be stored in its encoding. The message says why."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file's text.

    Attributes:
        text: without BOM; line ends are as in the file.
        encoding: a codec name, from the PEP 263 cookie.
        has_bom: whether the file starts with a UTF-8 byte order mark.
        data: the file's bytes.
    """

    text: str
    encoding: str
    has_bom: bool
    data: bytes


def read_source(origin: Path | bytes) -> Source:
    """Read a file, or the bytes of one.

    Raises:
        SourceError: the bytes are no text of the declared encoding.
        OSError: the file cannot be read.
    """
    import tokenize

    data = origin if isinstance(origin, bytes) else origin.read_bytes()
    if b"\0" in data:
        raise SourceError("holds NUL bytes: a binary file, or text in UTF-16; source files are UTF-8")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        raise SourceError(f"cannot be decoded: {error.msg}") from None
    has_bom = data.startswith(codecs.BOM_UTF8)
    encoding = "utf-8" if encoding == "utf-8-sig" else encoding
    try:
        text = data[len(codecs.BOM_UTF8) if has_bom else 0 :].decode(encoding)
    except (LookupError, UnicodeError) as error:
        raise SourceError(f"cannot be decoded as {encoding}: {error}") from None
    return Source(text, encoding, has_bom, data)


def encode(source: Source, text: str) -> bytes:
    """The bytes of the file after its text became `text`.

    Raises:
        SourceError: the encoding lacks a character, or does not give back the bytes that it read.
    """
    if text == source.text:
        return source.data
    try:
        if _bytes(source, source.text) != source.data:
            raise SourceError(f"{source.encoding} does not give back the same bytes: save the file as UTF-8")
        return _bytes(source, text)
    except UnicodeError as error:
        raise SourceError(f"cannot be encoded as {source.encoding}: {error}") from None


def rows(text: str) -> list[str]:
    r"""The rows of a text with their line ends. Only \n, \r\n and \r end a row, as in Python's own grammar."""
    return io.StringIO(text, newline="").readlines()


def _bytes(source: Source, text: str) -> bytes:
    return (codecs.BOM_UTF8 if source.has_bom else b"") + text.encode(source.encoding)
