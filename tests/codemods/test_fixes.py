import ast
import io
import os
import re
import subprocess
import sys
from tokenize import COMMENT, generate_tokens

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shapecheck.codemods.findings import (
    AddKeyword,
    Finding,
    Fix,
    InsertItem,
    Position,
    ReorderItems,
    Replace,
    Span,
)
from shapecheck.codemods.fixes import FixRefused, apply, fix_text, unified_diff, write_atomically


def span(text, part, nth=0):
    """Where `part` occurs in the text."""
    start = -1
    for _ in range(nth + 1):
        start = text.index(part, start + 1)
    return Span(position(text, start), position(text, start + len(part)))


def position(text, offset):
    before = re.split("\r\n|\r|\n", text[:offset])
    return Position(len(before), len(before[-1]) + 1)


@pytest.mark.parametrize(
    ("text", "part", "code", "expected"),
    [
        ("y = f(cu_q, cu_k)\n", "cu_k", "cu_q", "y = f(cu_q, cu_q)\n"),
        ("y = a * b\n", "b", "c + d", "y = a * (c + d)\n"),
        ("y = a + b\n", "a", "c * d", "y = c * d + b\n"),
        ("y = (a + b)\n", "a + b", "c", "y = (c)\n"),
        ("y = (a + b) * 2\n", "(a + b)", "c + d", "y = (c + d) * 2\n"),
        ("def f():\n    return(x)\n", "(x)", "y", "def f():\n    return(y)\n"),
        ("y = f(a)\n", "a", "b, c", "y = f((b, c))\n"),
        ("y = f(a)\n", "a", "lambda: 0", "y = f(lambda: 0)\n"),
        ("y = x.max\n", "x", "-1", "y = (-1).max\n"),
        ("y = é[1] + x  # ü\n", "x", "z", "y = é[1] + z  # ü\n"),
        ("y = a\r\nz = 1\r\n", "a", "b +\\\n c", "y = b +\\\r\n c\r\nz = 1\r\n"),
        ("y = a\n", "a", "b\n+ c", "y = (b\n+ c)\n"),
        ("x = 1; y = [\n  a]; z = 3\n", "a", "b", "x = 1; y = [\n  b]; z = 3\n"),
        ("\f\nx = f'{a}' + '\\d'\n\f\n", "a", "b", "\f\nx = f'{b}' + '\\d'\n\f\n"),
        ("@d(a)\ndef f(): pass", "a", "b", "@d(b)\ndef f(): pass"),
        ("s = '\u2028\x1c\x85'; y = a\nz = 1", "a", "b", "s = '\u2028\x1c\x85'; y = b\nz = 1"),
        ("y = max(lens)\n", "max(lens)", "max_seqlen", "y = max_seqlen\n"),
    ],
)
def test_replace(text, part, code, expected):
    assert apply(text, [Replace(span(text, part), code)]) == expected


@pytest.mark.parametrize(
    ("text", "part", "index", "expected"),
    [
        ("y = [a, b]", "[a, b]", 0, "y = [NEW, a, b]"),
        ("y = [a, b]", "[a, b]", 1, "y = [a, NEW, b]"),
        ("y = [a, b]", "[a, b]", 2, "y = [a, b, NEW]"),
        ("y = [a,b]", "[a,b]", 2, "y = [a,b,NEW]"),
        ("y = [a, b,]", "[a, b,]", 2, "y = [a, b, NEW,]"),
        ("y = {a}", "{a}", 1, "y = {a, NEW}"),
        ("y = []", "[]", 0, "y = [NEW]"),
        ("y = [  # none\n]", "[  # none\n]", 0, "y = [NEW  # none\n]"),
        ("y = ()", "()", 0, "y = (NEW,)"),
        ("y = (a,)", "(a,)", 1, "y = (a, NEW)"),
        ("y = (a,)", "(a,)", 0, "y = (NEW, a,)"),
        ("y = (a, b)", "a, b", 2, "y = (a, b, NEW)"),
        ("y = a, b", "a, b", 1, "y = a, NEW, b"),
        ("y = a,", "a,", 1, "y = a, NEW"),
        ("y = cat([a, b])", "cat([a, b])", 2, "y = cat([a, b, NEW])"),
        ("y = [(a), *b]", "[(a), *b]", 1, "y = [(a), NEW, *b]"),
        ("y = [\n    a,  # one, 1\n    b,\n]", None, 2, "y = [\n    a,  # one, 1\n    b,\n    NEW,\n]"),
        ("y = [\n    a,  # one, 1\n    b,\n]", None, 1, "y = [\n    a,  # one, 1\n    NEW,\n    b,\n]"),
        ("y = [\n    a,\n    # of b\n    b,\n]", None, 1, "y = [\n    a,\n    NEW,\n    # of b\n    b,\n]"),
        ("y = [  # all\n    a,\n]", None, 0, "y = [  # all\n    NEW,\n    a,\n]"),
        ("y = [\n    a,\n    b  # two\n]", None, 2, "y = [\n    a,\n    b,  # two\n    NEW\n]"),
        ("y = [\r\n\ta\r\n]", None, 1, "y = [\r\n\ta,\r\n\tNEW\r\n]"),
        ("y = [a,\n     b]", None, 2, "y = [a,\n     b,\n     NEW]"),
        ("y = [a,\n     b]", None, 0, "y = [NEW,\n     a,\n     b]"),
        ("y = [\n    a\n    , b\n    , c\n]", None, 1, "y = [\n    a\n    , NEW\n    , b\n    , c\n]"),
        ("y = [\n    a, b,\n    c, d,\n]", None, 4, "y = [\n    a, b,\n    c, d, NEW,\n]"),
    ],
)
def test_insert_item(text, part, index, expected):
    part = part or text.removeprefix("y = ")
    assert apply(text, [InsertItem(span(text, part), index, "NEW")]) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [("a if b else c", "[x, a if b else c]"), ("p, q", "[x, (p, q)]"), ("*rest", "[x, *rest]"), ("0 ", "[x, 0]")],
)
def test_insert_item_parentheses(code, expected):
    assert apply("[x]", [InsertItem(span("[x]", "[x]"), 1, code)]) == expected


@pytest.mark.parametrize(
    ("text", "order", "expected"),
    [
        ("[a, b, c]", (2, 0, 1), "[c, a, b]"),
        ("(a,b , c,)", (1, 0, 2), "(b,a , c,)"),
        (
            "[\n    text,  # first\n    # then\n    video,\n]",
            (1, 0),
            "[\n    video,  # first\n    # then\n    text,\n]",
        ),
        ("[f(a, [1, 2]), (b), *c]", (2, 1, 0), "[*c, (b), f(a, [1, 2])]"),
    ],
)
def test_reorder_items(text, order, expected):
    assert apply(text, [ReorderItems(span(text, text), order)]) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f()", "f(k=v)"),
        ("f(\n)", "f(k=v\n)"),
        ("f(a)", "f(a, k=v)"),
        ("f(a, j=1)", "f(a, j=1, k=v)"),
        ("f(a, j=1,)", "f(a, j=1, k=v,)"),
        ("(f)  (a)", "(f)  (a, k=v)"),
        ("f(\n    a,\n    j=1,\n)", "f(\n    a,\n    j=1,\n    k=v,\n)"),
        ("f(\n    a,\n    j=1  # one\n)", "f(\n    a,\n    j=1,  # one\n    k=v\n)"),
        ("f(a,\n  *b)", "f(a,\n  *b,\n  k=v)"),
        ("f(\n    a, j=1\n)", "f(\n    a, j=1, k=v\n)"),
        ("f(x=[1,\n  2], y=3)", "f(x=[1,\n  2], y=3, k=v)"),
    ],
)
def test_add_keyword(text, expected):
    assert apply(text, [AddKeyword(span(text, text), "k", "v")]) == expected


def test_add_keyword_parentheses_and_two_at_once():
    edits = [AddKeyword(span("f(a)", "f(a)"), "k", "x, y"), AddKeyword(span("f(a)", "f(a)"), "j", "lambda: 0")]
    assert apply("f(a)", edits) == "f(a, k=(x, y), j=lambda: 0)"


def test_edits_of_several_nodes():
    text = "def f(q, k):\n    cu = cat([q, k])\n    return attn(q, cu, causal=True)\n"
    edits = [
        InsertItem(span(text, "[q, k]"), 0, "zero"),
        AddKeyword(span(text, "attn(q, cu, causal=True)"), "max_seqlen", "n"),
        Replace(span(text, "q", 2), "p"),
    ]
    assert apply(text, edits) == (
        "def f(q, k):\n    cu = cat([zero, q, k])\n    return attn(p, cu, causal=True, max_seqlen=n)\n"
    )


@pytest.mark.parametrize(
    ("text", "edits", "reason"),
    [
        ("x = a", [Replace(Span(Position(1, 5), Position(1, 9)), "b")], "no expression spans 1:5 to 1:9"),
        ("x = a", [Replace(Span(Position(9, 1), Position(9, 2)), "b")], "no statement spans 9:1 to 9:2"),
        ("x = a", [Replace(span("x = a", "x = a"), "b")], "no expression spans 1:1 to 1:6"),
        ("x = a", [Replace(span("x = a", "a"), "b = 1")], "'b = 1' is no expression"),
        ("x = a", [Replace(span("x = a", "a"), " ")], "' ' is no expression"),
        ("x = (", [Replace(span("x = (", "x"), "b")], "the text does not parse"),
        ("f(a)", [InsertItem(span("f(a)", "f(a)"), 0, "b")], "can only be inserted into a list, tuple or set display"),
        ("[a]", [InsertItem(span("[a]", "[a]"), 2, "b")], "item 2 cannot be inserted: the display has 1 items"),
        ("[i for i in a]", [InsertItem(span("[i for i in a]", "[i for i in a]"), 0, "b")], "display"),
        ("{a, b}", [ReorderItems(span("{a, b}", "{a, b}"), (1, 0))], "list or tuple display"),
        ("[a, b]", [ReorderItems(span("[a, b]", "[a, b]"), (1, 1))], "(1, 1) is no order of 2 items"),
        ("f", [AddKeyword(span("f", "f"), "k", "v")], "only be added to a call"),
        ("f(k=1)", [AddKeyword(span("f(k=1)", "f(k=1)"), "k", "v")], "has a k= already"),
        ("f(**o)", [AddKeyword(span("f(**o)", "f(**o)"), "k", "v")], "** argument may hold k already"),
        ("f(i for i in a)", [AddKeyword(span("f(i for i in a)", "f(i for i in a)"), "k", "v")], "generator"),
        ("x = a + b", [Replace(span("x = a + b", "a + b"), "c"), Replace(span("x = a + b", "b"), "d")], "overlap"),
        ("[a]", [InsertItem(span("[a]", "[a]"), 0, "b"), ReorderItems(span("[a]", "[a]"), (0,))], "overlap"),
    ],
)
def test_refused(text, edits, reason):
    with pytest.raises(FixRefused, match=re.escape(reason)):
        apply(text, edits)


def test_deep_nesting_is_refused():
    text = f"x = {'-' * 80}{'[' * 80}a{']' * 80}\n"
    assert apply(text, [Replace(span(text, "a"), "b")]) == text.replace("a", "b")
    text = f"x = {'a + ' * 3000}b\n"
    with pytest.raises(FixRefused, match="nested too deeply|does not parse"):
        apply(text, [Replace(span(text, "b"), "c")])


# What follows compares edits of random modules with the same edits of their syntax trees.

NAMES = st.sampled_from(["q", "cu_seqlens", "lens", "ü", "x.y", "f(1, a=2)", "(z)", "a + b", "-1", "[1, 2]", "'a,b#c'"])
GAPS = st.sampled_from([", ", ",", " , ", ",\n    ", ", # of, it\n  ", "\n  , ", ",\n\n    # next, one\n    ", ",\t"])
ENDS = st.sampled_from(["", ",", "\n", ",\n", ", # last\n", " # last, one\n", " "])
STARTS = st.sampled_from(["", "\n    ", " # all\n\t", " "])
STATEMENTS = st.sampled_from(
    [
        "import os",
        "x = 1; y = 2",
        "s = '''a\n\tb,\n'''",
        "# note, this",
        "",
        "\f",
        "if x:\n\ty = [\n\t 1]",
        "del x; ü = 3;",
    ]
)


@st.composite
def displays(draw, kinds=("list", "tuple", "set", "call")):
    kind = draw(st.sampled_from(kinds))
    items = draw(st.lists(NAMES, min_size=1, max_size=5))
    inner = draw(STARTS) + items[0] + "".join(draw(GAPS) + item for item in items[1:]) + draw(ENDS)
    opening, closing = {"list": "[]", "tuple": "()", "set": "{}", "call": ("call(", ")")}[kind]
    if kind == "tuple" and len(items) == 1:
        inner = draw(STARTS) + items[0] + ","
    return kind, len(items), opening + inner + closing


@st.composite
def modules(draw, kinds=("list", "tuple", "set", "call")):
    """Text, the span of a display in it, its kind and size, and what stands before and after it."""
    kind, size, display = draw(displays(kinds))
    head = "\n".join([*draw(st.lists(STATEMENTS, max_size=3)), "def f(q):", "  \tüü = g(q, "])
    tail = ") # end\n" + "\n".join(draw(st.lists(STATEMENTS, max_size=3)))
    row_end = draw(st.sampled_from(["\n", "\r\n"]))
    head, display, tail = (part.replace("\n", row_end) for part in (head, display, tail))
    text = head + display + tail
    return text, Span(position(text, len(head)), position(text, len(head + display))), kind, size, head, tail


def argument(text):
    """The tree of the whole text, and in it the display."""
    tree = ast.parse(text)
    [function] = [statement for statement in tree.body if isinstance(statement, ast.FunctionDef)]
    return tree, function.body[0].value.args[1]


def check_untouched(text, result, head, tail):
    assert result.startswith(head)
    assert result.endswith(tail)
    assert ("\r\n" in text) == ("\r\n" in result)
    assert "\n" not in result.replace("\r\n", "") or "\r\n" not in result
    assert comments(result) == comments(text)


def comments(text):
    return [token.string for token in generate_tokens(io.StringIO(text).readline) if token.type == COMMENT]


@settings(deadline=None, max_examples=100)
@given(modules(), st.integers(0, 5), st.sampled_from(["NEW", "a, b", "lambda: 0", "(c)"]))
def test_insertions_change_one_item(module, index, code):
    text, place, kind, size, head, tail = module
    index = min(index, size)
    if kind == "call":
        index, edit = size, AddKeyword(place, "k", code)
    else:
        edit = InsertItem(place, index, code)
    result = apply(text, [edit])
    tree, display = argument(text)
    new = ast.parse(f"({code})", mode="eval").body
    if kind == "call":
        display.keywords.append(ast.keyword("k", new))
    else:
        display.elts.insert(index, new)
    assert ast.dump(ast.parse(result)) == ast.dump(tree)
    check_untouched(text, result, head, tail)


@settings(deadline=None, max_examples=50)
@given(modules(kinds=("list", "tuple")), st.randoms())
def test_reordering_moves_items_only(module, random):
    text, place, _, size, head, tail = module
    order = random.sample(range(size), size)
    result = apply(text, [ReorderItems(place, tuple(order))])
    tree, display = argument(text)
    display.elts = [display.elts[source] for source in order]
    assert ast.dump(ast.parse(result)) == ast.dump(tree)
    check_untouched(text, result, head, tail)
    back = [order.index(place) for place in range(size)]
    assert (
        apply(result, [ReorderItems(Span(place.start, position(result, len(result) - len(tail))), tuple(back))]) == text
    )


@settings(deadline=None, max_examples=50)
@given(modules(), st.sampled_from(["NEW", "a, b", "lambda: 0", "x + 1", "(c)", "await_", "a if b else c"]))
def test_replacing_an_expression(module, code):
    text, place, _, _, head, tail = module
    result = apply(text, [Replace(place, code)])
    tree, _ = argument(text)
    [function] = [statement for statement in tree.body if isinstance(statement, ast.FunctionDef)]
    function.body[0].value.args[1] = ast.parse(f"({code})", mode="eval").body
    assert ast.dump(ast.parse(result)) == ast.dump(tree)
    assert (result.startswith(head), result.endswith(tail)) == (True, True)


def finding(text, start, end, code, fix=None, message="m"):
    return Finding("m.py", Span(position(text, start), position(text, end)), code, "n", message, fix=fix)


def bad_names(text, safe=True, edits=None):
    """A linter: every name `bad` is a fault, and so is every `worse`, which cannot be mended."""
    found = []
    for match in re.finditer(r"\b(bad|worse)\b", text):
        fix = None
        if match.group() == "bad":
            place = Span(position(text, match.start()), position(text, match.end()))
            fix = Fix("Say good", safe, edits(place) if edits else (Replace(place, "good"),))
        found.append(finding(text, match.start(), match.end(), "VL101" if fix else "VL102", fix))
    return tuple(found)


def test_fix_text_mends_all():
    text = "a = bad\n\n\ndef f():\n    return [bad, worse, bad]\n"
    fixed = fix_text(text, bad_names, unsafe=False, protected_rows=frozenset())
    assert fixed.text == text.replace("bad", "good")
    assert [found.span.start.row for found in fixed.applied] == [1, 5, 5]
    assert fixed.refused == ()


def test_unsafe_fixes_only_if_asked():
    def check(text):
        return bad_names(text, safe=False)

    assert fix_text("a = bad\n", check, unsafe=False).text == "a = bad\n"
    assert fix_text("a = bad\n", check, unsafe=True).text == "a = good\n"


@pytest.mark.parametrize("code", ["bad", "worse", "[worse, good]"])
def test_a_fix_that_does_not_help_is_rolled_back(code):
    text = "a = [bad, worse]\n"

    def check(text):
        return bad_names(text, edits=lambda place: (Replace(place, code),))

    fixed = fix_text(text, check, unsafe=False)
    assert (fixed.text, fixed.applied) == (text, ())
    [(found, reason)] = fixed.refused
    assert found.code == "VL101"
    assert reason.startswith("there would")


def test_one_bad_fix_does_not_stop_the_others():
    text = "".join(f"a{row} = bad\n" for row in range(12))

    def check(text):
        def edits(place):
            return (Replace(place, "worse" if place.start.row == 3 else "good"),)

        return bad_names(text, edits=edits)

    fixed = fix_text(text, check, unsafe=False)
    assert fixed.text.count("good") == len(fixed.applied) == 11
    assert [found.span.start.row for found, _ in fixed.refused] == [3]


def test_two_fixes_of_one_display_take_two_rounds():
    def check(text):
        missing = [name for name in ("text", "audio") if name not in text]
        place = Span(Position(1, 5), position(text, len(text) - 1))
        return tuple(
            Finding("m.py", place, "VL201", "n", name, fix=Fix("t", True, (InsertItem(place, 0, name),)))
            for name in missing
        )

    fixed = fix_text("x = [\n    video,\n]\n", check, unsafe=False)
    assert fixed.text == "x = [\n    audio,\n    text,\n    video,\n]\n"


def test_protected_rows_move_with_the_text():
    text = "x = [\n    bad,\n]\ny = bad  # noqa\nz = bad\n"

    def check(text):
        found = bad_names(text)
        if "zero" not in text:
            place = span(text, text[4 : text.index("]") + 1])
            edits = (InsertItem(place, 0, "zero"),)
            found += (Finding("m.py", place, "VL103", "n", "m", fix=Fix("t", True, edits)),)
        return found

    fixed = fix_text(text, check, unsafe=False, protected_rows=frozenset({4}))
    assert fixed.text == "x = [\n    zero,\n    good,\n]\ny = bad  # noqa\nz = good\n"
    assert [(found.span.start.row, reason) for found, reason in fixed.refused] == [(5, "row 5 is suppressed")]


def test_edits_that_touch_a_protected_row_are_not_made():
    text = "x = f(\n    a,  # noqa\n    bad,\n)\n"

    def check(text):
        return bad_names(text, edits=lambda _: (AddKeyword(span(text, text[4:-1]), "good", "1"),))

    fixed = fix_text(text, check, unsafe=False, protected_rows=frozenset({2}))
    assert fixed.text == text
    assert fixed.refused[0][1] == "row 2 is suppressed"


def test_an_edit_that_cannot_be_made_is_refused_with_its_reason():
    def check(text):
        return bad_names(text, edits=lambda place: (AddKeyword(place, "k", "v"),))

    fixed = fix_text("a = bad\n", check, unsafe=False)
    assert fixed.text == "a = bad\n"
    assert [reason for _, reason in fixed.refused] == ["a keyword can only be added to a call"]


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.sampled_from(["a = bad", "b = [bad, worse]", "f(bad,\n  bad)", "# bad", "c = 1 + bad\r"]), max_size=6),
    st.sampled_from(["good", "worse", "g + 1", "[bad]"]),
    st.frozensets(st.integers(1, 6)),
)
def test_fixing_twice_changes_nothing_more(statements, code, rows):
    text = "\n".join(statements) + "\n"

    def check(text):
        return bad_names(text, edits=lambda place: (Replace(place, code),))

    fixed = fix_text(text, check, unsafe=False, protected_rows=rows)
    assert len(check(fixed.text)) == len(check(text)) - len(fixed.applied)
    again = fix_text(fixed.text, check, unsafe=False, protected_rows=rows)
    assert again.text == fixed.text
    for row in rows & set(range(1, len(statements) + 1)):
        assert fixed.text.split("\n")[row - 1] == text.split("\n")[row - 1]


def test_nothing_to_fix_imports_no_libcst():
    code = (
        "import sys; from shapecheck.codemods.fixes import fix_text\n"
        "fix_text('x = 1', lambda text: (), unsafe=True)\n"
        "assert 'libcst' not in sys.modules"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True)


def test_write_keeps_mode_and_symlink(tmp_path):
    target = tmp_path / "a.py"
    target.write_bytes(b"old")
    target.chmod(0o755)
    link = tmp_path / "link.py"
    link.symlink_to(target)
    write_atomically(link, b"new\r\n")
    assert target.read_bytes() == b"new\r\n"
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o755
    assert sorted(os.listdir(tmp_path)) == ["a.py", "link.py"]


def test_write_makes_new_files(tmp_path):
    write_atomically(tmp_path / "new.py", b"x")
    assert (tmp_path / "new.py").read_bytes() == b"x"


def test_a_failed_write_leaves_everything(tmp_path, monkeypatch):
    target = tmp_path / "a.py"
    target.write_bytes(b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(target, b"new")
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.py"]


def test_read_only_files_are_not_replaced(tmp_path, monkeypatch):
    target = tmp_path / "a.py"
    target.write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everything
    with pytest.raises(PermissionError):
        write_atomically(target, b"new")
    assert target.read_bytes() == b"old"


def test_unified_diff():
    assert unified_diff("a.py", "x\n", "x\n") == ""
    assert unified_diff("a.py", "x\r\n\fy", "x\r\n\fz") == (
        "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n x\r\n-\fy\n\\ No newline at end of file\n+\fz\n\\ No newline at end of file\n"
    )
