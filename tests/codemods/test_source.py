import pytest
from hypothesis import given
from hypothesis import strategies as st
from shapecheck.codemods.source import SourceError, encode, read_source, rows


@pytest.mark.parametrize(
    ("data", "encoding", "text"),
    [
        (b"", "utf-8", ""),
        (b"x = 1", "utf-8", "x = 1"),
        (b"x = 1\r\ny = 2\n\x0cz = 3\r", "utf-8", "x = 1\r\ny = 2\n\x0cz = 3\r"),
        ("# å\n".encode(), "utf-8", "# å\n"),
        (b"\xef\xbb\xbfx = 1\n", "utf-8", "x = 1\n"),
        (
            b"#!python\n# -*- coding: latin-1 -*-\nx = '\xe5'\n",
            "iso-8859-1",
            "#!python\n# -*- coding: latin-1 -*-\nx = 'å'\n",
        ),
        (b"# vim: fileencoding=cp1252\n'\x80'\n", "cp1252", "# vim: fileencoding=cp1252\n'€'\n"),
    ],
)
def test_unchanged_text_gives_the_same_bytes(data, encoding, text):
    source = read_source(data)
    assert (source.encoding, source.text) == (encoding, text)
    assert encode(source, source.text) == data


def test_changed_text_keeps_bom_cookie_and_row_ends():
    source = read_source(b"\xef\xbb\xbfx = 1\r\ny = 2")
    assert encode(source, source.text.replace("1", "3")) == b"\xef\xbb\xbfx = 3\r\ny = 2"
    source = read_source(b"# coding: latin-1\nx = '\xe5'\n")
    assert encode(source, source.text + "y = 'é'\n") == b"# coding: latin-1\nx = '\xe5'\ny = '\xe9'\n"


def test_reads_files(tmp_path):
    (tmp_path / "a.py").write_bytes(b"x = 1\r\n")
    assert read_source(tmp_path / "a.py").text == "x = 1\r\n"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"x = 1\0", "NUL bytes"),
        ("x = 1\n".encode("utf-16"), "NUL bytes"),
        (b"x = '\xe5'\n", "cannot be decoded"),
        (b"a\nb\nc\nx = '\xe5'\n", "cannot be decoded as utf-8"),
        (b"# coding: no-such-codec\n", "unknown encoding"),
        (b"# coding: rot13\nx = 1\n", "cannot be decoded"),
        (b"\xef\xbb\xbf# coding: latin-1\n", "cannot be decoded"),
    ],
)
def test_what_is_no_text_is_refused_with_the_reason(data, reason):
    with pytest.raises(SourceError, match=reason):
        read_source(data)


def test_characters_that_the_encoding_lacks_are_refused():
    source = read_source(b"# coding: latin-1\nx = 1\n")
    with pytest.raises(SourceError, match="cannot be encoded as iso-8859-1"):
        encode(source, source.text + "# €\n")


def test_encodings_that_do_not_round_trip_are_refused():
    source = read_source(b"# coding: utf-7\nx = '+AGE-'\n")
    assert encode(source, source.text) == source.data
    with pytest.raises(SourceError, match="does not give back the same bytes"):
        encode(source, source.text + "y = 2\n")


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), st.booleans())
def test_any_utf8_text_round_trips(text, bom):
    data = (b"\xef\xbb\xbf" if bom else b"") + b"x\n\n" + text.encode()
    source = read_source(data)
    assert encode(source, source.text) == data
    assert encode(source, source.text + "!") == data + b"!"


def test_rows_end_only_where_python_ends_them():
    assert rows("a\x0cb\u2028c\nd\r\ne\rf") == ["a\x0cb\u2028c\n", "d\r\n", "e\r", "f"]
    assert rows("") == []
