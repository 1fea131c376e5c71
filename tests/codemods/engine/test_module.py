"""Files: attributes of self, helpers of the file, constants, and what is parsed."""

import ast
from collections.abc import Callable
from typing import Any

import pytest
from shapecheck.codemods.engine.module import Module

ReadModule = Callable[[str, str], Any]

CLASS = """
class Model:
    def __init__(self, size):
        self.size = size
        self.twice = 2 * size
        self.branch = 1 if size else 2

    def reset(self):
        self.twice = 0

    def forward(self, x):
        {body}
        return y
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = self.size", "size"),
        ("y = self.twice", "self.twice"),  # assigned in two methods
        ("y = self.branch", "self.branch"),
        ("y = self.other", "self.other"),
        ("self.size = x; y = self.size", "x"),
    ],
)
def test_attributes_of_self(read_module: ReadModule, body: str, expected: str) -> None:
    assert read_module(CLASS.format(body=body), "Model.forward").show("y") == expected


HELPERS = """
def offsets(lens, dim=0):
    return F.pad(lens.cumsum(dim), (1, 0))

def pair(x, n):
    return x[:n], len(x)

def forever(x):
    return forever(x)

def either(x):
    if x:
        return x
    return 0

def rest(*parts):
    return parts

def numbers(x):
    yield x

@cached
def decorated(x):
    return x

class Model:
    def shorten(self, x):
        return x[:8]

    def f(self, lens, x):
        {body}
"""


@pytest.mark.parametrize(
    "call", ["offsets(lens)", "offsets(lens=lens)", "offsets(lens, 0)", "offsets(lens, dim=0)", "offsets(*(lens,))"]
)
def test_helpers_are_looked_into(read_module: ReadModule, call: str) -> None:
    assert read_module(HELPERS.format(body=f"y = {call}"), "Model.f").bounds("y") == ("lens", "lens", True, "int64")


def test_helpers_that_return_tuples_and_methods(read_module: ReadModule) -> None:
    found = read_module(HELPERS.format(body="y, n = pair(x, 3); z = self.shorten(x)"), "Model.f")
    assert found.rows("y") == ["x slice"]
    assert found.show("n") == "len(x)"
    assert found.rows("z") == ["x slice"]


@pytest.mark.parametrize(
    "call",
    ["forever(x)", "either(x)", "rest(x)", "numbers(x)", "decorated(x)", "offsets()", "offsets(x, 0, 1)", "offsets(**x)", "offsets(x, *lens)", "unknown(x)", "self.unknown(x)", "other.shorten(x)"],
)  # fmt: skip
def test_helpers_that_say_nothing(read_module: ReadModule, call: str) -> None:
    assert read_module(HELPERS.format(body=f"y = {call}"), "Model.f").term("y").op == "call"


def test_two_functions_of_one_name_are_none() -> None:
    module = Module("def f():\n    pass\n\ndef f(x):\n    pass\n")
    assert module.function("f") is None


def test_a_local_function_hides_an_import() -> None:
    module = Module("from a import f\n\ndef f(x):\n    pass\n")
    assert "f" not in module.imports


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("LIMIT = 8", "const"),
        ("LIMIT: int = 8", "const"),
        ("LIMIT = 8\nLIMIT = 9", None),
        ("if a:\n    LIMIT = 8", None),
    ],
)
def test_constants(text: str, op: str | None) -> None:
    found = Module(text + "\n").constant("LIMIT")
    assert (found.op if found is not None else None) == op


def test_only_wanted_parts_are_parsed() -> None:
    text = "def good():\n    pass\n\ndef broken(:\n    pass\n\nclass A:\n    def m(self):\n        pass\n\n    def n(self):\n        pass\n"
    module = Module(text)
    assert [node.name for node in module.definitions(lambda part: "good" in part)] == ["good"]
    assert [node.name for node in module.definitions(lambda part: "class A" in part or "def n" in part)][-1] == "n"
    with pytest.raises(SyntaxError):
        list(module.definitions(lambda part: True))


def test_definitions_below_conditions_are_found() -> None:
    text = "try:\n    def f():\n        pass\nexcept E:\n    class B:\n        def g(self):\n            pass\n"
    assert {node.name for node in Module(text).definitions(lambda part: True)} == {"f", "g"}
    assert {node.name for node in Module(text, ast.parse(text)).definitions(lambda part: True)} == {"f", "g"}


def test_a_nested_class_keeps_its_methods() -> None:
    text = "class A:\n    class Inner:\n        def g(self):\n            pass\n\n    def f(self):\n        pass\n"
    module = Module(text)
    owner = module.class_of("A")
    assert owner is not None
    assert list(module.methods(owner)) == ["f"]
