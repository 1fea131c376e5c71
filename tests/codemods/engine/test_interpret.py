"""Statements: what names hold after branches, loops, mutations and early exits."""

from collections.abc import Callable
from typing import Any

import pytest

Read = Callable[..., Any]

BRANCHES = [
    ("y = a\nif c:\n    y = b", "phi(c, b, a)"),
    ("y = a\nif not c:\n    y = b", "phi(c, a, b)"),
    ("if c:\n    y = a\nelse:\n    y = a", "a"),
    ("y = a\nif c:\n    return a\ny = b", "b"),
    ("if c:\n    raise E\nelse:\n    y = b", "b"),
    ("if c:\n    y = a\nelse:\n    raise E", "a"),
    ("y = a if c else b", "phi(c, a, b)"),
    ("y = a if not c else b", "phi(c, b, a)"),
    ("try:\n    y = a\nexcept E:\n    raise", "a"),
    ("try:\n    y = a\nexcept E:\n    return None", "a"),
    ("try:\n    y = a\nfinally:\n    y = b", "b"),
    ("with g():\n    y = b", "b"),
    ("y = a\nassert y\ny = y", "a"),
    ("for t in (a, b):\n    y = t", "b"),
    ("y = a\nfor t in b:\n    pass", "a"),
    ("y = 0\nfor t in b:\n    y += t", "sum(each(b*, b))"),
    ("y = 0\nfor t in b:\n    if t.ok:\n        y += t", "sum(each(b*, b, b*.ok))"),
    ("y = a\nfor t in b:\n    y += t", "Add(a, sum(each(b*, b)))"),
]


@pytest.mark.parametrize(("body", "expected"), BRANCHES)
def test_branches_and_loops(read: Read, body: str, expected: str) -> None:
    assert read(body).show("y") == expected


@pytest.mark.parametrize(
    "body",
    [
        "try:\n    y = g(a)\nexcept E:\n    y = b",
        "match c:\n    case 1:\n        y = a\n    case _:\n        y = b",
        "y = a\nwhile c:\n    y = b",
        "y = a\nfor t in b:\n    y = t",
        "for t in b:\n    y = t",
        "y = 0\nfor t in b:\n    y = y * 2 + t",
        "y = 0\nfor t in b:\n    y += t\n    if y > 3:\n        break",
    ],
)
def test_nothing_is_concluded(read: Read, body: str) -> None:
    assert read(body).show("y") not in {"a", "b", "b*", "sum(each(b*, b))"}


def test_one_condition_asked_twice_is_one(read: Read) -> None:
    found = read("x = a\nif c:\n    x = b\ny = a\nif c:\n    y = b")
    assert found.term("x") is found.term("y")


def test_a_condition_and_its_opposite_are_one(read: Read) -> None:
    found = read("x = a if c is None else b\ny = b if c is not None else a")
    assert found.term("x") is found.term("y")


UNPACKING = [
    ("x = y = a", "a"), ("y, z = a, b", "a"), ("z, y = [a, b]", "b"), ("y, *z = a, b, c", "a"), ("*z, y = a, b, c", "c"),
    ("x, (y, z) = a, (b, c)", "b"), ("(y := a)", "a"), ("x, y = (t.k for t in (a, b))", "b.k"), ("x, y = [t.k for t in (a, b)]", "b.k"),
    ("b, y = a.shape", "shape(a, 1)"), ("b, y = a.shape[:2]", "shape(a, 1)"), ("y, *_ = a.size()", "shape(a, 0)"),
    ("y: int = a", "a"), ("y = a\ny -= b", "Sub(a, b)"), ("y = a\ndel y\ny = b", "b"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), UNPACKING)
def test_assignments(read: Read, body: str, expected: str) -> None:
    assert read(body).show("y") == expected


STORES = [
    ("d = {}\nd['k'] = a\ny = d['k']", "a"),
    ("d = {'k': a}\nd['k'] = b\ny = d['k']", "b"),
    ("d = {'k': a}\nother = d\nother['k'] = b\ny = d['k']", "b"),
    ("d = {'k': a}\nd.update(k=b)\ny = d['k']", "b"),
    ("d = {'k': a}\nd.update({'k': b, 'n': a})\ny = d['k']", "b"),
    ("o.k = a\np = o\ny = p.k", "a"),
    ("o.k = a\no.k = b\ny = o.k", "b"),
    ("t = [a]\nt.append(b)\ny = t[1]", "b"),
    ("t = [a]\nt.insert(0, b)\ny = t[0]", "b"),
    ("t = [a]\nt.extend([b, c])\ny = t[2]", "c"),
    ("t = [a]\nt += [b]\ny = t[1]", "b"),
    ("t = [a]\nother = t\nother.append(b)\ny = t", "list(a, b)"),
    ("t = [a]\nother = t\nother += [b]\ny = t", "list(a, b)"),
    ("t = [a]\nother = list(t)\nother.append(b)\ny = t", "list(a)"),
    ("t = [a]\nother = t\nother = [b]\ny = t", "list(a)"),
    ("t = 0\ny = t\nt += a", "0"),  # numbers are no places
    ("y = defaultdict(list)\ny['k'].append(a)\ny = y['k']", "list(a)"),
    ("for k in ('m', 'n'):\n    d[k] = a\ny = d['n']", "a"),
]


@pytest.mark.parametrize(("body", "expected"), STORES)
def test_stores_and_aliases(read: Read, body: str, expected: str) -> None:
    assert read(body).show("y") == expected


@pytest.mark.parametrize(
    "change",
    [
        "t.pop()",
        "t.pop(0)",
        "t.pop(-1)",
        "t.clear()",
        "t.remove(a)",
        "del t[0]",
        "x = t.pop()",
        "other = t\nother.pop()",
        "t[0] = c",
        "t.sort()",
        "t.reverse()",
    ],
)
def test_a_list_that_changes_is_no_longer_the_display(read: Read, change: str) -> None:
    assert read(f"t = [a, b]\n{change}\ny = t[0]").show("y") not in {"a", "b"}


@pytest.mark.parametrize("change", ["d.update(other)", "d |= other", "d = g(d)"])
def test_a_dict_that_changes_in_unknown_ways(read: Read, change: str) -> None:
    assert read(f"d = {{'k': a}}\n{change}\ny = d['k']").show("y") != "a"


@pytest.mark.parametrize("change", ["d.pop('n')", "d.pop('n', None)", "del d['n']"])
def test_removing_a_key_leaves_the_others(read: Read, change: str) -> None:
    assert read(f"d = {{'k': a, 'n': b}}\n{change}\ny = d['k']").show("y") == "a"


def test_conditional_append_is_a_branch(read: Read) -> None:
    assert read("t = []\nif c:\n    t.append(a)\ny = t").show("y") == "phi(c, list(a), list())"


def test_keys_that_a_loop_adds_to(read: Read) -> None:
    found = read(
        "d = {'k': []}\nfor s in samples:\n    d['k'].append(s.ids)\n    d['n'] = s\ny = torch.cat(d['k'])\nz = d['n']"
    )
    assert found.rows("y") == ["each samples*.ids"]
    assert found.term("z").op == "last_round"


def test_the_order_of_a_sorted_list_is_another(read: Read) -> None:
    found = read("samples.sort(key=len)\ny = torch.cat(samples)\nrandom.shuffle(samples)\nz = torch.cat(samples)")
    assert found.rows("y") == ["each samples* sort"]
    assert found.rows("z") == ["each samples* sort sort"]


def test_code_behind_a_return_is_not_run(read: Read) -> None:
    found = read("if c:\n    return a\n    g(a)\nreturn b")
    assert [event.path for event in found.function.calls] == []
    assert len(found.function.returns) == 2


def test_events_know_their_conditions(read: Read) -> None:
    found = read("if c:\n    g(a)\nelse:\n    h(a)\nfor s in b:\n    k(s)")
    contexts = {call.path: [(cond.op, holds) for cond, holds in call.context] for call in found.function.calls}
    assert contexts == {"g": [("parameter", True)], "h": [("parameter", False)], "k": [("loop", True)]}


def test_nested_functions_see_the_names_around_them(read: Read) -> None:
    found = read("n = len(a)\ndef inner(x):\n    return x[:n]\nn = n")
    [inner] = found.function.nested
    assert inner.returned[0].op == "item"
    assert inner.returned[0].args[1].args[1].op == "len"


def test_yields_are_returned_values(read: Read) -> None:
    found = read("for s in a:\n    yield s, len(s)")
    assert [event.value.op for event in found.function.returns] == ["tuple"]
