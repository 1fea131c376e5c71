"""`Partition`: all its forms against one naive definition, its messages, and under a contract."""

from dataclasses import asdict
from typing import Annotated

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float, Int, Int32
from torch import Tensor

from shapecheck import ContractError, Partition, contract
from shapecheck._contract._spec import from_payload
from shapecheck._invariants import Operand, Scope

few = settings(max_examples=100, deadline=None)
HINT = "build the index maps from one layout, after its last change"


def naive(maps, rows, covers):
    """The definition in its plainest words."""
    named = [row for one in maps for row in one]
    if any(named.count(row) > 1 or row < 0 for row in named):
        return False
    if rows is None:
        return True
    return all(row < rows for row in named) and (not covers or all(row in named for row in range(rows)))


@st.composite
def cases(draw):
    """Three index maps that share out the rows, often with one of them changed."""
    rows = draw(st.integers(0, 6))
    shuffled = draw(st.permutations(range(rows)))
    cuts = sorted(draw(st.lists(st.integers(0, rows), min_size=2, max_size=2)))
    maps = [shuffled[: cuts[0]], shuffled[cuts[0] : cuts[1]], shuffled[cuts[1] :]]
    if draw(st.booleans()):
        changed = draw(st.sampled_from(maps))
        if changed and draw(st.booleans()):
            changed.pop()
        else:
            changed.append(draw(st.integers(-1, rows + 1)))
    return rows, maps


@given(cases(), st.sampled_from([None, "U", "cu[1]", "number"]), st.booleans(), st.sampled_from([0, 300]))
@few
def test_every_form_agrees_with_the_definition(case, of, covers, more):
    rows, maps = case
    rows, maps = rows + more, [[*maps[0], *range(rows, rows + more)], *maps[1:]]
    invariant = Partition("b", "c", of=rows if of == "number" else of, covers=covers)
    if of is not None:  # a row that is one too many for the shorter layout is one of the longer's
        maps = [[row + more if row == rows - more + 1 else row for row in one] for one in maps]
    expected = naive(maps, None if of is None else rows, covers)
    cu = [0, rows, rows + 3]
    plain = Scope({"U": rows}, {}, {"b": maps[1], "c": maps[2], "cu": cu})
    assert invariant.holds(maps[0], plain) == expected
    assert (invariant.find(maps[0], plain) is None) == expected
    for dtype in (torch.int32, torch.int64):
        a, b, c = (torch.tensor(one, dtype=dtype) for one in maps)
        tensors = {"b": b, "c": c, "cu": torch.tensor(cu, dtype=torch.int32)}
        assert (invariant.find(a, Scope({"U": rows}, {}, tensors)) is None) == expected
        operands = {name: Operand(name, f"{name}.shape") for name in tensors}
        code = invariant.condition_code("a", {"U": "U"}, operands)
        assert bool(eval(code, {"a": a, "U": rows, **tensors})) == expected


def test_what_is_not_at_hand_leaves_the_cover_open():
    invariant = Partition("b", of="U")
    for scope in (Scope({"U": 4}), Scope({}, {}, {"b": [2]})):
        assert invariant.find([0, 1], scope) is None
        assert invariant.holds([0, 1], scope)
    assert invariant.find([0, 0], Scope()) is not None
    assert not invariant.holds([0, 4], Scope({"U": 4}))
    assert invariant.condition_code("a", {"U": "U"}, {}) is None
    assert invariant.condition_code("a", {}, {"b": Operand("b", "b.shape")}) is None
    short = Scope({}, {}, {"b": [2], "cu": [0]})
    assert Partition("b", of="cu[1]").find([0], short) is None


@pytest.mark.parametrize(
    ("mine", "other", "problem", "actual"),
    [
        ([0, 9], [1], "[1] is 9, expected a row in 0 .. 3 (U - 1)", 9),
        ([0, 1], [-1], ": b[0] is -1, expected a row in 0 .. 3 (U - 1)", -1),
        ([0, 1, 0], [3], "[2] is 0, which [0] names too: expected rows once", 0),
        ([0, 1], [2, 1], ": b[1] is 1, which this map[1] names too: expected rows once", 1),
        ([0], [1, 2, 2], ": b[2] is 2, which b[1] names too: expected rows once", 2),
        ([0, 3], [1], " and b name 3 rows, expected all 4 (U): row 2 is in none", 3),
    ],
)
@pytest.mark.parametrize("form", [list, torch.tensor])
def test_findings(form, mine, other, problem, actual):
    scope = Scope({"U": 4}, {"U": ("x", 0)}, {"b": form(other)})
    found = Partition("b", of="U").find(form(mine), scope)
    assert (found.problem, found.actual, found.axis) == (problem, actual, 0)
    assert (found.bound_by, found.notes, found.hint) == ("x", ("U = 4 was bound by x axis 0",), HINT)


@pytest.mark.parametrize("engine", ["generated", "reference"])
@pytest.mark.parametrize("level", ["host", "device", "sync"])
def test_under_a_contract(level, engine):
    @contract(level=level, engine=engine)
    def forward(
        x: Float[Tensor, "1 S C"],
        cu: Int32[Tensor, "B+1"],
        text: Annotated[Int[Tensor, "T"], Partition("audio", "video", of="cu[1]")],
        audio: Int[Tensor, "A"] | None,
        video: Int[Tensor, "V"],
    ): ...

    x, cu = torch.zeros(1, 8, 2), torch.tensor([0, 6, 8], dtype=torch.int32)
    text, audio, video = torch.tensor([0, 1]), torch.tensor([5]), torch.tensor([2, 3, 4])
    forward(x, cu, text, audio, video)
    forward(x, cu, text, None, video)
    forward(x, cu, text.to("meta"), audio, video)
    for wrong in (torch.tensor([2, 3]), torch.tensor([2, 3, 5]), torch.tensor([2, 3, 6])):
        with pytest.raises(ContractError, match=r"forward: text"):
            forward(x, cu, text, audio, wrong)


def test_is_data():
    @contract
    def forward(
        a: Annotated[Int[Tensor, "T"], Partition("b", of="cu[1]", covers=False)], b: list[int], cu: list[int]
    ): ...

    invariant = Partition("b", of="cu[1]", covers=False)
    assert Partition.rebuild(asdict(invariant)) == invariant
    assert from_payload(forward.__contract__.payload) == forward.__contract__.spec
    assert len({invariant, Partition("b", of="cu[1]", covers=False), Partition("b")}) == 2
    assert repr(invariant) == "Partition('b', of='cu[1]', covers=False)"
    assert (invariant.symbols(), invariant.arguments()) == ((), ("b", "cu"))
    assert Partition("b", of="S+P").symbols() == ("S", "P")


def test_refuses_a_malformed_number_of_rows():
    with pytest.raises(ValueError, match=r"^'S\+' is not an expression$"):
        Partition("b", of="S+")
