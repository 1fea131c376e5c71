"""Cutting a file and parsing the pieces gives what parsing the file gives, or an error that is noticed."""

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shapecheck.codemods.engine.chunks import Chunk, cut

# Lines that begin with STAY keep their place at column 0 when the code around them is indented: they are inside a string or
# bracket.
STAY = "\N{BROKEN BAR}"

SIMPLE = [
    "x = 1",
    f"x = (1,\n{STAY}2,\n{STAY})",
    f"x = [\n{STAY}# a comment at column 0\n{STAY}1,\n]",
    f'x = """\n{STAY}def inside(): pass\n{STAY}@decorator\n{STAY}class Inside: pass\n{STAY}"""',
    f"x = '''\n{STAY}else:\n{STAY}'''",
    f"x = 1 \\\n{STAY}+ 2",
    f"{STAY}# a comment at column 0",
    "# a comment",
    "",
    "import torch",
    f"from a import (\n{STAY}b,\n    c,\n)",
    "print('\u00e9', \"\u00fc\")",
    f"{STAY}\f",
    "x: int = 3  # ' \"",
    "if x:\n    y = 1\nelif z:\n    y = 2\nelse:\n    y = 3",
    "try:\n    y = 1\nexcept E:\n    y = 2\nfinally:\n    y = 3",
    "for i in x:\n    pass\nelse:\n    y = 1",
    "while x:\n    pass",
    "with a as b:\n    pass",
    "match = 3",
    "type_ = '@'",
    "(\na\n).b()",
    "[\na\n][0] = 1",
    "-x",
    "'a string as a statement'",
    f"'''it holds \"\"\" once\n{STAY}def f():\n{STAY}'''",
]


def indented(text: str) -> str:
    return "\n".join(line if line.startswith(STAY) or not line else f"    {line}" for line in text.split("\n"))


@st.composite
def functions(draw: st.DrawFn, depth: int) -> str:
    decorators = draw(st.lists(st.sampled_from(["@cached", "@wraps(\n    f,\n)", "@a.b  # why"]), max_size=2))
    prefix, name = draw(st.sampled_from(["", "async "])), draw(st.sampled_from(["f", "g", "forward"]))
    arguments = draw(st.sampled_from(["self", "", f"a,\n{STAY}b", "a=')', *, b: 'x' = {1: 2}"]))
    docstring = draw(st.sampled_from(["pass", f'"""Text.\n\n{STAY}code at column 0:\n{STAY}x = 1\n"""', "'One line.'"]))
    body = draw(st.lists(statements(depth + 1), max_size=3))
    return "\n".join([*decorators, f"{prefix}def {name}({arguments}):", *map(indented, [docstring, *body, "return 1"])])


@st.composite
def classes(draw: st.DrawFn, depth: int) -> str:
    decorators = draw(st.lists(st.sampled_from(["@dataclass", "@register('x')"]), max_size=1))
    name, bases = draw(st.sampled_from("AB")), draw(st.sampled_from(["", "(Base)", f"(Base,\n{STAY}Other)"]))
    body = draw(st.lists(statements(depth + 1), min_size=1, max_size=4))
    return "\n".join([*decorators, f"class {name}{bases}:", *map(indented, [*body, "size = 1"])])


def statements(depth: int = 0) -> st.SearchStrategy[str]:
    simple = st.sampled_from(SIMPLE)
    return simple if depth > 2 else st.one_of(simple, simple, functions(depth), classes(depth))


HEADS = ["", '"""Module.\n\ndef example():\n    pass\n"""\n', "#!/usr/bin/env python\n"]


@st.composite
def modules(draw: st.DrawFn) -> str:
    parts = draw(st.lists(statements(), max_size=6))
    text = draw(st.sampled_from(HEADS)) + draw(st.sampled_from(["\n", "\n\n\n"])).join(parts)
    return text.replace(STAY, "").replace("\n", draw(st.sampled_from(["\n", "\r\n"]))) + draw(
        st.sampled_from(["", "\n"])
    )


def dumped(body: list[ast.stmt]) -> list[str]:
    return [ast.dump(statement, include_attributes=True) for statement in body]


def pieces(chunks: list[Chunk]) -> list[ast.stmt] | None:
    try:
        return [statement for chunk in chunks for statement in chunk.parse()]
    except SyntaxError:
        return None  # the checker parses the whole file instead


@settings(max_examples=40)
@given(modules())
def test_the_pieces_are_the_whole_or_the_cut_is_noticed(text: str) -> None:
    try:
        chunks = cut(text)
    except SyntaxError:
        return
    assert "".join(chunk.text for chunk in chunks) == text
    found = pieces(chunks)
    assert found is None or dumped(found) == dumped(ast.parse(text).body)


@settings(max_examples=30)
@given(classes(0))
def test_the_methods_are_those_of_the_class(text: str) -> None:
    text = text.replace(STAY, "")
    [owner] = ast.parse(text).body
    assert isinstance(owner, ast.ClassDef)
    chunks = cut(text)
    found = pieces([member for member in chunks[0].members() if member.kind == "function"])
    if found is not None and len(chunks) == 1:
        assert set(dumped(found)) <= set(dumped(owner.body))


CUTS = {
    "functions": ("def f():\n    pass\n\ndef g():\n    pass\n", [("function", "f", 1), ("function", "g", 4)]),
    "decorators": ("@a\n@b(\n    c\n)\ndef f():\n    pass\nx = 1\n", [("function", "f", 1), ("other", "x", 7)]),
    "async": ("async def f():\n    pass\n", [("function", "f", 1)]),
    "classes": ("class A(B):\n    x = 1\n\n\n\nclass C:\n    pass\n", [("class", "A", 1), ("class", "C", 6)]),
    "else belongs to its if": ("if a:\n    b\nelse:\n    c\nd\n", [("other", "if", 1), ("other", "d", 5)]),
    "brackets": ("x = [\n1,\n]\ny = 2\n", None),
    "strings": ('x = """\ndef f():\n"""\ny = 2\n', [("other", "x", 1), ("other", "y", 4)]),
    "quotes inside the other's": (
        "x = '''\n\"\"\"\n'''\ndef f():\n    pass\n",
        [("other", "x", 1), ("function", "f", 4)],
    ),
    "quotes in comments": ('x = 1  # """\ndef f():\n    pass\n', [("other", "x", 1), ("function", "f", 2)]),
    "comments": ("# a\n\n# b\nx = 1\n# c\ny = 2\n", [("other", "", 1), ("other", "x", 4), ("other", "y", 6)]),
    "carriage returns": ("def f():\r\n    pass\r\nx = 1\r\n", [("function", "f", 1), ("other", "x", 3)]),
    "empty": ("", []),
}


@pytest.mark.parametrize("name", CUTS)
def test_cuts(name: str) -> None:
    text, expected = CUTS[name]
    found = [(chunk.kind, chunk.name, chunk.row) for chunk in cut(text)]
    if expected is None:
        assert pieces(cut(text)) is None
    else:
        assert found == expected


def test_rows_and_columns_are_those_of_the_file() -> None:
    text = "x = 1\n\n\nclass A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n"
    owner = cut(text)[-1]
    method = owner.members()[-1]
    assert (method.name, method.row) == ("g", 8)
    [node] = method.parse()
    assert (node.lineno, node.col_offset, node.end_lineno) == (8, 4, 9)


def test_a_string_without_an_end_is_noticed() -> None:
    with pytest.raises(SyntaxError):
        cut("x = \"'''\"\ndef f():\n    pass\n")


@pytest.mark.parametrize(
    ("body", "members"),
    [
        ("    size = 1\n\n    def f(self):\n        pass\n", ["size", "f"]),
        (
            "    class Inner:\n        def g(self):\n            pass\n\n    def f(self):\n        pass\n",
            ["Inner", "f"],
        ),
        (
            '    """Text.\n\n  def g():\n    """\n\n    def f(self):\n        pass\n',
            [],
        ),  # no cut at that depth: parse it whole
        ("\tdef f(self):\n\t\tpass\n", ["f"]),
    ],
)
def test_members(body: str, members: list[str]) -> None:
    [chunk] = cut("class A:\n" + body)
    assert [member.name for member in chunk.members()] == members


def test_a_class_in_one_line_has_no_members_of_its_own() -> None:
    [chunk] = cut("class A: pass\n")
    assert chunk.members() == []
