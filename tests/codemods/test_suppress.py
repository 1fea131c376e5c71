import ast
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shapecheck.codemods.findings import Finding, Position, Span
from shapecheck.codemods.suppress import add_noqa, protected_rows, suppress, suppressions


def finding(row, code="VL101", name="some-rule", column=1):
    return Finding("a.py", Span(Position(row, column), Position(row, column + 1)), code, name, "message")


def left(text, *findings, report_unused=False, off=()):
    """`row code` of the findings that remain."""
    kept = suppress(suppressions(text), findings or (finding(1),), "a.py", report_unused=report_unused, off=off)
    return [f"{found.span.start.row} {found.code}" for found in kept]


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa",
        "#noqa",
        "# NOQA",
        "# noqa: VL101",
        "# noqa:VL101",
        "# noqa : VL101",
        "# NoQA: vl101",
        "# noqa: E501, VL101",
        "# noqa: E501 VL101",
        "# noqa: E501,VL101 because of the kernel",
        "# noqa: VL101  # type: ignore",
        "# type: ignore  # noqa: VL101",
        "# noqa: some reason",
        "# noqa: E501  # noqa: VL101",
        "# shapecheck: ignore",
        "#shapecheck:ignore",
        "# shapecheck: ignore[VL101]",
        "# shapecheck: ignore[vl102, vl101] why",
        "# shapecheck: ignore[some-rule]",
        "# noqa: E501  # shapecheck: ignore[some-rule]",
    ],
)
def test_comments_that_suppress(comment):
    assert left(f"f(x)  {comment}\n") == []
    assert left(f"f(x)  {comment}") == []
    assert left(f"x = 1  {comment}\nf(x)\n", finding(2)) == ["2 VL101"]


@pytest.mark.parametrize(
    "line",
    [
        "f(x)  # noqa: E501",
        "f(x)  # noqa: VL102, E501",
        "f(x)  # noqa: VL1",
        "f(x)  # noqa: VL1011",
        "f(x)  # noqas",
        "f(x)  # shapecheck: ignore[VL102]",
        "f(x)  # shapecheck: ignore[VL10]",
        "f(x)  # shapecheck: ignore[]",
        "f(x)  # shapecheck: ignore[VL101",
        "f(x)  # shapecheck: ignored",
        "f(x)  # shapecheck: ignore-file",
        "f('# noqa')",
        "f('''\n# noqa: VL101\n# shapecheck: ignore-file\n''')",
        "f(x)\n# noqa: VL101",
    ],
)
def test_comments_that_do_not(line):
    assert left(line + "\n") == ["1 VL101"]


CALL = """\
cu = f(
    q,
    # about k
    k,
    cu,
)
g()
"""


@pytest.mark.parametrize("row", range(1, 7))
def test_a_comment_anywhere_in_the_statement_holds_for_all_of_it(row):
    lines = CALL.splitlines()
    lines[row - 1] += "  # noqa: VL101"
    text = "\n".join(lines) + "\n"
    assert left(text, *(finding(at) for at in range(1, 8))) == ["7 VL101"]


def test_of_a_compound_statement_only_the_header_counts():
    text = "def f(\n    x,\n):  # noqa\n    return g(x)\n"
    assert left(text, finding(1), finding(4)) == ["4 VL101"]
    text = "with a as b:\n    f()  # noqa\n    g()\n"
    assert left(text, finding(1), finding(2), finding(3)) == ["1 VL101", "3 VL101"]


def test_backslashes_strings_and_blank_rows():
    assert left("x = a + \\\n    f(b)  # noqa\n", finding(1), finding(2)) == []
    assert left('x = f("""\n\n""", y)  # noqa\n\nz = 1\n', finding(1), finding(3), finding(5)) == ["5 VL101"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_row_ends(end):
    text = end.join(["x = 1", "y = f(x)  # noqa: VL101", "z = g(y)", ""])
    assert left(text, finding(2), finding(3)) == ["3 VL101"]


def test_the_file():
    assert left("# shapecheck: ignore-file\n\nf()\n", finding(3), finding(3, "VL102")) == []
    assert left("x\n    # shapecheck: ignore-file[VL101]\nf()\n", finding(3), finding(3, "VL102")) == ["3 VL102"]
    assert left("x = 1\n\n# shapecheck: ignore-file[some-rule]\n", finding(1)) == []


def test_text_that_does_not_parse_can_still_ignore_itself():
    broken = finding(3, "VL001", "invalid-syntax")
    assert left("# shapecheck: ignore-file\nx = 1\nx = (\n", broken) == []
    assert left("x = 1\n\nx = ( # noqa\n", broken) == []
    assert left("x = 1 # noqa\n\nx = (\n", broken) == ["3 VL001"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f()  # noqa: VL101\n", []),
        ("f()  # noqa\nx = 1  # noqa\n", []),
        ("f()  # noqa: VL101, E501\ng()  # noqa: E501\n", []),
        ("f()  # noqa: VL101, VL102\n", ["1 VL901"]),
        ("f()  # noqa: VL101\nx = 1  # noqa: VL101\n", ["2 VL901"]),
        ("f()  # noqa: VL101\nx = 1  # shapecheck: ignore[some-rule]\n", ["2 VL901"]),
        ("f()  # shapecheck: ignore[VL102, VL103]\n", ["1 VL101", "1 VL901"]),
        ("f()  # noqa: VL101\n# shapecheck: ignore-file[VL102]\n", ["2 VL901"]),
        ("f()  # noqa: VL101, VL999\n", ["1 VL901"]),
        ("f()  # noqa: VL101, VL103\n", []),
        ("f()  # noqa: VL101, VL102, VL901\n", []),
        ("f()  # noqa: VL101, VL901\n", []),
        ("f()\n", ["1 VL101"]),
    ],
)
def test_unused_suppressions(text, expected):
    assert left(text, report_unused=True, off={"VL103"}) == expected
    assert [found for found in left(text) if "VL901" in found] == []


def test_the_message_names_the_codes_and_the_comment():
    found = suppressions("x = 1  # why  # noqa: E501, VL101, vl102\n")
    (unused,) = suppress(found, (), "a.py", report_unused=True, off=())
    assert unused.message == "unused suppression: VL101, VL102 is not reported here"
    assert unused.span == Span(Position(1, 15), Position(1, 41))


def test_protected_rows_are_those_of_comments_to_this_linter():
    text = "f(\n  x)  # noqa: VL101\ng()  # noqa: E501\nh()  # noqa\n# shapecheck: ignore-file[VL102]\n"
    assert protected_rows(suppressions(text)) == {1, 2, 4}


@pytest.mark.parametrize(
    ("before", "row", "after"),
    [
        ("f(x)\n", 1, "f(x)  # noqa: VL101\n"),
        ("f(x)", 1, "f(x)  # noqa: VL101"),
        ("f(x)  \r\ng()\r\n", 1, "f(x)  # noqa: VL101\r\ng()\r\n"),
        ("f(x)  # why\n", 1, "f(x)  # why  # noqa: VL101\n"),
        ("f(x)  # noqa: E501\n", 1, "f(x)  # noqa: E501, VL101\n"),
        ("f(x)  # noqa: E501 too long\n", 1, "f(x)  # noqa: E501, VL101 too long\n"),
        (
            "f(x)  # shapecheck: ignore[VL102]  # noqa: E501\n",
            1,
            "f(x)  # shapecheck: ignore[VL102, VL101]  # noqa: E501\n",
        ),
        ("f(\n  x,\n)\n", 2, "f(\n  x,  # noqa: VL101\n)\n"),
        ("f('# noqa: E501')\n", 1, "f('# noqa: E501')  # noqa: VL101\n"),
        ("f('''\n# noqa: E501\n''', x)\n", 1, "f('''\n# noqa: E501\n''', x)  # noqa: VL101\n"),
        ("f('''\n''', [\n  x])\n", 2, "f('''\n''', [  # noqa: VL101\n  x])\n"),
        ("f(f'''{x}\n{\ny}\n''')\n", 2, "f(f'''{x}\n{\ny}\n''')  # noqa: VL101\n"),
        ("x = a + \\\n  f(b)\n", 1, "x = a + \\\n  f(b)  # noqa: VL101\n"),
        ("if x:\n\tf(x)\n", 2, "if x:\n\tf(x)  # noqa: VL101\n"),
    ],
)
def test_add_noqa(before, row, after):
    assert add_noqa(before, [finding(row)]) == after
    ast.parse(after)
    assert left(after, finding(row)) == []


def test_add_noqa_joins_codes_of_a_row_and_leaves_broken_text():
    findings = [finding(1, "VL102"), finding(1), finding(1), finding(2)]
    assert add_noqa("f(g)\nh\n", findings) == "f(g)  # noqa: VL101, VL102\nh  # noqa: VL101\n"
    assert add_noqa("f(\n", [finding(1, "VL001", "invalid-syntax")]) == "f(\n"


STATEMENTS = st.sampled_from(
    [
        "x = 1", "f(a,\n  b,\n\n  # why\n  c)", 's = """a\n# noqa: VL101\nb"""', "t = f'''{\nx}\n'''", "y = a + \\\n    b", "x = [  # noqa: E501\n  1]",
        "if x:\n    y = (1,\n\t2)", "def f(a,\n      b): return '''\n\\\n'''", "z = 'a\\\nb'", "u = 1  # noqa: VL102 why", "", "# comment", "x; y",
        "v = 1  # shapecheck: ignore[VL102]", "w = ('a'\n  '''b\n''' 'c' # d\n)",
    ]
)  # fmt: skip


@given(st.lists(STATEMENTS, min_size=1, max_size=6), st.data())
def test_added_comments_suppress_and_change_nothing_else(statements, data):
    text = "\n".join(statements) + data.draw(st.sampled_from(["", "\n"]))
    rows = text.count("\n") + 1
    code = [row for row in range(1, rows + 1) if any(_covers(node, row) for node in ast.walk(ast.parse(text)))]
    if not code:
        return
    findings = [finding(row) for row in data.draw(st.lists(st.sampled_from(code), max_size=4))]
    after = add_noqa(text, findings)
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(text))
    assert left(after, *findings or [finding(rows + 9)]) == ([] if findings else [f"{rows + 9} VL101"])
    assert add_noqa(after, []) == after
    assert (
        re.sub(r"(, |  # noqa: )VL101", "", after).replace(" ", "")
        == re.sub(r"(, |  # noqa: )VL101", "", text).replace(" ", "")
        or "VL101" in text
    )


def _covers(node, row):
    return (
        isinstance(node, ast.stmt)
        and not isinstance(node, ast.If | ast.FunctionDef)
        and node.lineno <= row <= node.end_lineno
    )


@given(st.text(st.sampled_from("# noqa:shpeck[]VL10123ignore-fi, \n\r'\"()\\x=")))
def test_any_text_can_be_read(text):
    suppressions(text)
    suppressions(f"# noqa\n{text}")
