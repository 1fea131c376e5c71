"""Expressions: displays, operators, comprehensions and the paths of calls."""

from collections.abc import Callable
from typing import Any

import pytest

Read = Callable[..., Any]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = a + 0", "a"), ("y = 0 + a", "a"), ("y = 2 + 3", "5"), ("y = 2 * 3 - 1", "5"), ("y = -1", "-1"),
        ("y = not not a", "a"), ("y = not a", "not(a)"), ("y = [a] + [b]", "list(a, b)"), ("y = (a,) + (b,)", "tuple(a, b)"),
        ("y = {'k': a}['k']", "a"), ("y = dict(k=a)['k']", "a"), ("y = {**b, 'k': a}['k']", "a"), ("y = {'k': a, **b}['k']", "b['k']"),
        ("y = dict(b)['k']", "b['k']"), ("y = b.get('k')", "b['k']"), ("y = b.pop('k')", "b['k']"), ("y = [a, b][-1]", "b"),
        ("y = a.shape[0]", "shape(a, 0)"), ("y = a.size(0)", "shape(a, 0)"), ("y = a.size()[0]", "shape(a, 0)"),
        ("y = a.shape[1:][0]", "shape(a, 1)"), ("y = a.data", "a"), ("y = a.mT", "a"), ("y = await a", "a"),
        ("y = len([a, b])", "2"), ("y = len((a, *b))", "len(tuple(a, star))"), ("y = [p for p, q in zip(a, b)]", "each(a*, zip)"),
        ("y = [q for i, q in enumerate(a)]", "each(a*, enumerate)"), ("y = [p for p in a if p]", "each(a*, a, a*)"),
        ("y = [t.k for t in (a, b)]", "list(a.k, b.k)"), ("y = [t.k for t in (a, *b)][0]", "each(tuple(a, star)*.k, tuple(a, star))[0]"),
        ("y = {k: v.n for k, v in (('m', a), ('n', b))}['n']", "b.n"), ("y = [*(a, b)]", "list(a, b)"),
        ("y = a if 'k' == 'k' else b", "a"), ("y = a if 'k' != 'k' else b", "b"), ("y = a if 'k' in ('k', 'l') else b", "a"),
        ("y = a if 'k' not in ('k', 'l') else b", "b"), ("y = [a[k] if k == 'm' else b for k in ('m', 'n')]", "list(a['m'], b)"),
        ("y = a if 'k' == 'k' and b else c", "phi(b, a, c)"), ("y = a if 'k' == b else c", "phi(Eq, a, c)"),
    ],
)  # fmt: skip
def test_values(read: Read, body: str, expected: str) -> None:
    assert read(body).show("y") == expected


@pytest.mark.parametrize("body", ["y = next(a)\nz = next(a)", "y = a.pop()\nz = a.pop()", "y = f'{a}'\nz = f'{a}'"])
def test_what_may_differ_differs(read: Read, body: str) -> None:
    found = read(body)
    assert found.term("y") is not found.term("z")


def test_equal_calls_are_equal(read: Read) -> None:
    found = read("y = g(a, k=b)\nz = g(a, k=b)\nw = g(b, k=b)")
    assert found.term("y") is found.term("z")
    assert found.term("y") is not found.term("w")


@pytest.mark.parametrize(
    ("body", "path", "imported"),
    [
        ("torch.cat(a)", "torch.cat", True),
        ("F.pad(a)", "torch.nn.functional.pad", True),
        ("unpad_input(a)", "flash_attn.bert_padding.unpad_input", True),
        ("len(a)", "len", True),
        ("g(a)", "g", False),
        ("o.attend(a)", "o.attend", False),
        ("o.blocks[0].attend(a)", "?.attend", False),
        ("import torch as th\nth.cat(a)", "torch.cat", True),
    ],
)
def test_paths_of_callees(read: Read, body: str, path: str, imported: bool) -> None:
    call = read(body).function.calls[-1]
    assert (call.path, call.imported, call.name) == (path, imported, path.rpartition(".")[2])


def test_arguments(read: Read) -> None:
    [call] = read("g(a, *(b, c), k=a, **{'m': b})").function.calls
    assert [term.args[0] for term in call.args] == ["a", "b", "c"]
    assert sorted(call.kwargs) == ["k", "m"]
    [call] = read("g(a, *b, **c)").function.calls
    assert call.args[1] is None
    assert list(call.kwargs) == ["**"]
    assert call.arg_node(0) is not None
    assert call.arg_node(1) is None


def test_a_lambda_has_its_own_names(read: Read) -> None:
    found = read("y = lambda t: t + n\nt = a")
    assert found.show("t") == "a"
    assert found.term("y").op == "lambda"
