"""Checking one file: syntax errors, wrong cuts, order and rows of findings."""

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shapecheck.codemods.catalogue import Catalogue
from shapecheck.codemods.check import Checked, check
from shapecheck.codemods.contracts import ContractIndex
from shapecheck.codemods.engine.module import Module
from shapecheck.codemods.rules import all_rules

FAULT = (
    "def f(lens, q, k, v, m):\n"
    "    cu = torch.cumsum(lens, 0, dtype=torch.int32)\n"
    "    return flash_attn_varlen_func(q, k, v, cu, cu, m, m)\n"
)
HEAD = "import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\n"


def run(text: str, *, whole: bool = True, explain: bool = False) -> Checked:
    return check(text, "case.py", all_rules(), Catalogue.load(), whole=whole, explain=explain)


def places(checked: Checked) -> list[tuple[str, int, int]]:
    return [(one.code, one.span.start.row, one.span.start.column) for one in checked.findings]


def test_a_fault_is_found_at_its_row() -> None:
    found = places(run(HEAD + FAULT))
    assert {code for code, _, _ in found} == {"VL103"}
    assert {row for _, row, _ in found} <= {5, 6, 7}


@pytest.mark.parametrize("text", ["", "\n", "x = 1\n", "# only a comment", HEAD, '"""Text."""\n'])
def test_nothing_to_say(text: str) -> None:
    assert run(text) == Checked(())


@pytest.mark.parametrize(
    ("text", "row"), [("def f(:\n", 1), ("x = 1\ny = (\n", 2), (HEAD + FAULT + "\nz = [1,\n", 9), ("x = '\x00'\n", 1)]
)
def test_a_syntax_error_is_a_finding(text: str, row: int) -> None:
    [found] = run(text).findings
    assert (found.code, found.span.start.row) == ("VL001", row)
    assert found.message.startswith("does not parse as Python: ")


def test_without_the_whole_only_the_wanted_parts_are_parsed() -> None:
    broken = HEAD + FAULT + "\n\ndef g():\n    return (\n"
    assert places(run(broken, whole=False)) == places(run(HEAD + FAULT))


def test_code_nested_too_deeply_is_a_finding() -> None:
    text = HEAD + FAULT + "x = " + "-" * 5000 + "1\n"
    assert [finding.code for finding in run(text).findings][:1] in (["VL001"], ["VL103"])


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_rows_do_not_depend_on_line_ends(newline: str) -> None:
    assert places(run((HEAD + FAULT).replace("\n", newline))) == places(run(HEAD + FAULT))


def test_columns_count_characters() -> None:
    text = (HEAD + FAULT).replace("return flash", "return 'ééé', flash")
    moved = places(run(text))
    plain = places(run((HEAD + FAULT).replace("return flash", "return 'eee', flash")))
    assert moved == plain


def test_findings_are_sorted_and_single() -> None:
    found = run(HEAD + FAULT + "\n\n" + FAULT.replace("def f", "def g")).findings
    assert list(found) == sorted(found, key=lambda one: one.sort_key())
    assert len(set(found)) == len(found)


SIGNED = (
    "from jaxtyping import Float, Int\n"
    "class Model:\n"
    "    def forward(self, x: Float[Tensor, 'S C'], tags: Int[Tensor, 'S']): ...\n"
)
CALLER = """\
import torch
{head}

def one(a, b, c):
    x = torch.cat([a, b, c])
    tt = torch.cat([{parts}])
    return {call}(x, tt)
"""
PARTS = ["torch.zeros(len(a))", "torch.ones(len(b))", "torch.ones(len(c))"]


@pytest.mark.parametrize(
    ("head", "call"),
    [
        ("from model import Model", "Model()"),
        ("from model import Model as Net", "Net()"),
        ("from model import Model\nnet = Model()", "net"),
        ("from model import Model\nnet: Model = Model()", "net"),
        ("from model import Model\nclass A:\n    def __init__(self):\n        self.net = Model()", "A().net"),
    ],
)
def test_annotated_signatures_are_called_by_any_name(head: str, call: str) -> None:
    contracts = ContractIndex.of_text(SIGNED, "model.py")
    for parts, codes in ((PARTS[:2], ["VL201"]), (PARTS, [])):
        text = CALLER.format(head=head, call=call, parts=", ".join(parts))
        found = check(text, "case.py", all_rules(), Catalogue.load(), contracts).findings
        assert [one.code for one in found] == codes


STRANGE = [
    "x = '''\n\"\"\"\n'''\n",
    'x = """\ndef f():\n    pass\n"""\n',
    "@decorate\n",
    "class A:\n    '''Text.\n\ndef f(): pass\n'''\n\n    def g(self):\n        return 1\n",
    "if x:\n    def h():\n        pass\nelse:\n    h = None\n",
    "\f\n",
    "x = [\n1,\n]\n",
]


@settings(max_examples=30)
@given(st.lists(st.sampled_from(STRANGE), max_size=3), st.lists(st.sampled_from(STRANGE), max_size=3))
def test_findings_do_not_depend_on_what_stands_around(before: list[str], after: list[str]) -> None:
    text = "".join(before) + FAULT + "".join(after).replace("@decorate\n", "")
    try:
        ast.parse(HEAD + text)
    except SyntaxError:
        return
    found = check(HEAD + text, "case.py", RULE, Catalogue.load()).findings
    assert len(found) == len(check(HEAD + FAULT, "case.py", RULE, Catalogue.load()).findings)
    whole = Module(HEAD + text, ast.parse(HEAD + text))
    rows = [node.lineno for node in whole.definitions(lambda part: "cumsum" in part)]
    assert rows[0] < found[0].span.start.row <= rows[0] + 2


RULE = tuple(rule for rule in all_rules() if rule.code == "VL103")
