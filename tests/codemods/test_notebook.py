import ast
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shapecheck.codemods.findings import Finding, Note, Position, Silence, Span
from shapecheck.codemods.lintable import read_lintable
from shapecheck.codemods.notebook import read_notebook
from shapecheck.codemods.source import SourceError


def notebook(*cells, language="python", **options):
    """Cells are code as a text or a list of rows; a `markdown` cell is a tuple of its text."""
    content = {
        "cells": [
            {"cell_type": "markdown", "metadata": {}, "source": cell[0]}
            if isinstance(cell, tuple)
            else {"cell_type": "code", "execution_count": 1, "metadata": {"x": "é"}, "outputs": [], "source": cell}
            for cell in cells
        ],
        "metadata": {"kernelspec": {"language": language, "name": "x"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return (json.dumps(content, **{"indent": 1, "ensure_ascii": False, **options}) + "\n").encode()


def sources(data):
    return ["".join(cell["source"]) for cell in json.loads(data)["cells"]]


def test_cells_form_one_module_with_a_way_back():
    book = read_notebook(
        notebook(("# Title",), ["import torch\n", "x = 1"], ("text",), ["y = torch.ones(x)\n", "\n", "z = y"])
    )
    tree = ast.parse(book.text)
    assert [book.locate(node.lineno) for node in tree.body] == [(2, 1), (2, 2), (4, 1), (4, 3)]
    assert [book.row_of(*book.locate(node.lineno)) for node in tree.body] == [node.lineno for node in tree.body]


@pytest.mark.parametrize("language", ["R", "julia", "Scala"])
def test_other_languages_are_skipped(language):
    assert read_notebook(notebook(["x <- 1"], language=language)) is None


def test_without_code_there_is_nothing():
    assert read_notebook(notebook(("text",))) is None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a notebook"),
        (b"{", "not a notebook"),
        (b"[]", 'no list "cells"'),
        (b"\xff{}", "not a notebook"),
        (b'{"nbformat": 3, "worksheets": []}', "format 3 or older"),
        (b'{"nbformat": 4, "cells": {}}', 'no list "cells"'),
        (b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": 1}]}', 'cell 1 has no "source"'),
        (b'{"nbformat": 4, "cells": [{"cell_type": "code"}]}', 'cell 1 has no "source"'),
    ],
)
def test_broken_notebooks_are_refused_with_the_reason(data, reason):
    with pytest.raises(SourceError, match=reason):
        read_notebook(data)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"indent": 2},
        {"indent": "\t"},
        {"indent": None},
        {"indent": None, "separators": (",", ":")},
        {"ensure_ascii": True},
    ],
)
@pytest.mark.parametrize(
    "source", ["a = 1\nb = 'å'", ["a = 1\n", "b = 'å'"], ["a = 1\n", "b = 'å'\n"], ["a = 1"], "a = 1"]
)
def test_only_the_touched_cell_changes(options, source):
    before = notebook(("# Ü",), ["x = 0\n", "y = 1"], source, ["!ls\n", "z = 2"], **options)
    book = read_notebook(before)
    assert book.encode(book.text) == before
    after = book.encode(book.text.replace("a = 1\n", "a = [1,\n     2]\n"))
    fixed = "".join(source).replace("a = 1", "a = [1,\n     2]", 1)
    value = fixed if isinstance(source, str) else fixed.splitlines(keepends=True)
    assert after == notebook(("# Ü",), ["x = 0\n", "y = 1"], value, ["!ls\n", "z = 2"], **options)


@pytest.mark.parametrize(
    "cell",
    [
        "%matplotlib inline\nx = 1",
        "!pip install \\\n    torch \\\n    numpy\nx = 1",
        "if True:\n    %time f()\n    !ls -l\nx = 1",
        "files = !ls\nt = %timeit -o f()\nx = 1",
        "torch.cat?\n?torch\ntorch.cat??\nx = 1",
        "%%bash\nfor x in *; do\n  echo $x\ndone",
        "\n%%html\n<b>",
        "%%time\nx = 1",
        "%%time\r\nx = 1\r\n",
    ],
)
def test_magics_parse_and_come_back(cell):
    before = notebook(["a = 0\n"], cell, ["b = 2"])
    book = read_notebook(before)
    tree = ast.parse(book.text)
    assert book.text.count("\n") == cell.count("\n") + (not cell.endswith("\n")) + 5
    assert book.locate(tree.body[-1].lineno) == (3, 1)
    assert book.encode(book.text) == before
    assert sources(book.encode(book.text.replace("b = 2", "b = 3"))) == ["a = 0\n", cell, "b = 3"]
    assert sources(book.encode(book.text.replace("x = 1", "x = [\n]"))) == [
        "a = 0\n",
        cell.replace("x = 1", "x = [\n]"),
        "b = 2",
    ]


@pytest.mark.parametrize(
    "cell",
    ["x = (a\n% b)", 'x = """\n%magic\n!ls\nwhat?\n"""', "x = a \\\n% b", "x = [  # why?\n  a\n]", "x = 'really?'"],
)
def test_what_only_looks_like_a_magic_stays(cell):
    assert cell in read_notebook(notebook(cell)).text


def test_python_cell_magics_keep_the_cells_code():
    assert "x = 1" in read_notebook(notebook("%%time\nx = 1")).text
    assert "x = 1" not in read_notebook(notebook("%%writefile a.py\nx = 1")).text


def test_a_cell_may_hold_a_marker_of_another_notebook():
    inner = read_notebook(notebook("x = 1\n!ls\n")).text
    before = notebook(inner, "y = 2")
    book = read_notebook(before)
    assert sources(book.encode(book.text.replace("y = 2", "y = 3"))) == [inner, "y = 3"]


def test_lost_markers_are_refused():
    book = read_notebook(notebook("x = 1", "y = 2"))
    with pytest.raises(SourceError, match="cannot be cut into cells"):
        book.encode("x = 1\ny = 2\n")


@given(st.lists(st.text(st.sampled_from("ab=1%!?\\\n\r#'\"[(\t é😀")), min_size=1, max_size=4), st.booleans())
def test_any_cells_round_trip(cells, ascii_only):
    before = notebook(*cells, ensure_ascii=ascii_only)
    book = read_notebook(before)
    assert book.encode(book.text) == before
    # Force a change in every cell.
    number = len(cells)
    changed = book.text.replace(" cell\n", " cell\n0\n", number)
    assert sources(book.encode(changed)) == [f"0\n{cell}" if cell else "0" for cell in cells]


def test_lines_in_messages_count_within_their_cell():
    text = read_lintable(notebook("a = 1\nb = 2\n", ("Text",), "c = 3\nd = 4\n"), "n.ipynb")
    row = text.text.splitlines().index("d = 4") + 1
    span = Span(Position(row, 1), Position(row, 2))
    message = f"`d` (line {row}) is not `c` (line {row - 1}) or `b` (line 3), of 3 lines"
    note = Note(Span(Position(3, 1), Position(3, 2)), "made from line 2")
    placed = text.place(Finding("n.ipynb", span, "VL101", "rule", message, (note,)))
    assert placed.message == "`d` (line 2) is not `c` (line 1) or `b` (line 2 of cell 1), of 3 lines"
    assert (placed.cell, placed.span.start.row, placed.notes[0].message) == (3, 2, "cell 1: made from line 1")
    silence = text.place_silence(Silence("n.ipynb", span, "f", "x", "made elsewhere (line 2)"))
    assert (silence.cell, silence.reason) == (3, "made elsewhere (line 1 of cell 1)")
