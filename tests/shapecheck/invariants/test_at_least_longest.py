"""`AtLeastLongest`: all its forms against one naive definition, its messages, and under a contract."""

from dataclasses import asdict
from itertools import pairwise
from typing import Annotated

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Int, Int32
from torch import Tensor

from shapecheck import AnnotationError, AtLeastLongest, ContractError, contract
from shapecheck._contract._spec import from_payload
from shapecheck._invariants import Operand, Scope

few = settings(max_examples=100, deadline=None)
boundaries = st.lists(st.integers(0, 5), max_size=5).map(
    lambda lengths: [sum(lengths[:i]) for i in range(len(lengths) + 1)]
)


def naive(given_max, cu, padding):
    lengths = [end - start for start, end in pairwise(cu)]
    return all(given_max >= length for length in (lengths[:-1] if padding == "segment" else lengths))


@given(boundaries | st.just([]), st.integers(-1, 6), st.sampled_from(["none", "segment"]))
@few
def test_every_form_agrees_with_the_definition(cu, most, padding):
    invariant, expected = AtLeastLongest("cu", padding), naive(most, cu, padding)
    for form in (list, tuple, lambda one: torch.tensor(one, dtype=torch.int32), lambda one: torch.tensor(one).long()):
        scope = Scope(arguments={"cu": form(cu)})
        assert invariant.holds([most], scope) == expected
        for own in (most, torch.tensor(most), torch.tensor([most], dtype=torch.int32)):
            assert (invariant.find(own, scope) is None) == expected
            if isinstance(scope.arguments["cu"], Tensor):
                code = invariant.condition_code("m", {}, {"cu": Operand("cu", "cu.shape")})
                assert bool(eval(code, {"m": own, "cu": scope.arguments["cu"]})) == expected


def test_no_number_wraps_around_on_a_device():
    code = AtLeastLongest("cu").condition_code("m", {}, {"cu": Operand("cu", "cu.shape")})
    assert bool(eval(code, {"m": 2**40, "cu": torch.tensor([0, 5], dtype=torch.int32)}))


@pytest.mark.parametrize("shape", [(), (1,), (2,), (0,), (1, 1)])
def test_refusal_code_is_find_static(shape):
    tensor = torch.zeros(shape, dtype=torch.int64)
    refused = tensor.numel() != 1
    assert (AtLeastLongest("cu").find_static(tensor, Scope()) is not None) == refused
    assert eval(AtLeastLongest("cu").refusal_code(Operand("m", "m.shape"), {}, {}), {"m": tensor}) == refused


def test_finding():
    found = AtLeastLongest("cu").find(4, Scope(arguments={"cu": [0, 3, 9, 10]}))
    assert found.problem == " is 4, expected at least 6: segment 1 of cu has 6 rows"
    assert (found.expected, found.actual, found.bound_by, found.notes) == (
        "at least 6",
        4,
        "cu",
        ("cu is [0, 3, 9, 10]",),
    )
    assert found.hint == "compute it from the lengths behind cu, after the last change of them"


def test_what_is_not_at_hand_is_silent():
    assert AtLeastLongest("cu").find(0, Scope()) is None
    assert AtLeastLongest("cu").holds([0], Scope())
    assert AtLeastLongest("cu").condition_code("m", {}, {}) is None


@pytest.mark.parametrize("engine", ["generated", "reference"])
@pytest.mark.parametrize("hint", [int, Int[Tensor, ""]])
@pytest.mark.parametrize("level", ["host", "sync"])
def test_under_a_contract(level, hint, engine):
    @contract(level=level, engine=engine)
    def forward(cu: Int32[Tensor, "B+1"], most: Annotated[hint, AtLeastLongest("cu", padding="segment")] | None): ...

    cu = torch.tensor([0, 5, 12], dtype=torch.int32)
    form = int if hint is int else torch.tensor
    forward(cu, form(5))
    forward(cu, form(700))
    forward(cu, None)
    forward(cu.to("meta"), form(4))
    with pytest.raises(ContractError, match="most"):
        forward(cu, form(4))


def test_the_message_names_the_segment():
    @contract
    def forward(cu: Int32[Tensor, "B+1"], most: Annotated[int, AtLeastLongest("cu")]): ...

    with pytest.raises(ContractError, match=r"forward: most is 4, expected at least 7: segment 1 of cu has 7 rows"):
        forward(torch.tensor([0, 3, 10], dtype=torch.int32), 4)


def test_beside_a_host_copy():
    @contract
    def forward(x: Int[Tensor, "S"], host: list[int], most: Annotated[int, AtLeastLongest("host")]): ...

    forward(torch.zeros(9, dtype=torch.int64), [0, 9], 9)
    with pytest.raises(ContractError, match=r"most is 8, expected at least 9"):
        forward(torch.zeros(9, dtype=torch.int64), [0, 9], 8)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_in_a_compiled_region(backend):
    @contract
    def forward(
        x: Int[Tensor, "S"], cu: Int32[Tensor, "B+1"], most: Annotated[int, AtLeastLongest("cu")]
    ) -> Int[Tensor, "S"]:
        return x + 1

    torch._dynamo.reset()
    x, cu = torch.zeros(9, dtype=torch.int64), torch.tensor([0, 3, 9], dtype=torch.int32)
    compiled = torch.compile(forward, fullgraph=True, backend=backend)
    assert compiled(x, cu, 6).tolist() == [1] * 9
    assert compiled(x, cu, 7).tolist() == [1] * 9
    with pytest.raises(ContractError, match=r"most is 5, expected at least 6"):
        compiled(x, cu, 5)


def test_refuses_a_hint_and_a_mode_that_say_nothing():
    with pytest.raises(ValueError, match=r"^AtLeastLongest\(padding='all'\): expected 'none' or 'segment'$"):
        AtLeastLongest("cu", padding="all")
    with pytest.raises(AnnotationError, match="says nothing about"):

        @contract
        def forward(cu: Int32[Tensor, "B+1"], most: Annotated[list[int], AtLeastLongest("cu")]): ...


def test_is_data():
    @contract
    def forward(cu: Int32[Tensor, "B+1"], most: Annotated[int, AtLeastLongest("cu", padding="segment")]): ...

    invariant = AtLeastLongest("cu", padding="segment")
    assert AtLeastLongest.rebuild(asdict(invariant)) == invariant
    assert from_payload(forward.__contract__.payload) == forward.__contract__.spec
    assert (invariant.symbols(), invariant.arguments(), invariant.reads_values()) == ((), ("cu",), True)
