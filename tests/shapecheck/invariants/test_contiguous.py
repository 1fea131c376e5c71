"""`Contiguous`: a layout in memory that a kernel misreads."""

from dataclasses import asdict
from typing import Annotated

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float
from torch import Tensor

from shapecheck import AnnotationError, Contiguous, ContractError, contract
from shapecheck._invariants import Operand, Scope


@st.composite
def tensors(draw):
    tensor = torch.zeros(draw(st.lists(st.integers(0, 3), max_size=4)))
    tensor = tensor.permute(draw(st.permutations(range(tensor.dim()))))
    for axis in range(tensor.dim()):
        if draw(st.integers(0, 3)) == 0:
            step = draw(st.integers(1, 2))
            tensor = tensor[(slice(None),) * axis + (slice(None, None, step),)]
    return tensor


def refused(invariant, tensor):
    code = invariant.refusal_code(Operand("x", "shape"), {}, {})
    return bool(eval(code, {"x": tensor, "shape": tensor.shape}))


@given(tensors(), st.sampled_from([None, -1, -2, 0, 1]))
@settings(max_examples=150, deadline=None)
def test_every_form_agrees_with_the_definition(tensor, axis):
    if axis is None:
        good = tensor.is_contiguous()
    else:
        there = -tensor.dim() <= axis < tensor.dim()
        good = not there or tensor.numel() == 0 or tensor.shape[axis] == 1 or tensor.stride(axis) == 1
    assert (Contiguous(axis).find_static(tensor, Scope()) is None) == good
    assert refused(Contiguous(axis), tensor) == (not good)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("axis", [None, -1])
def test_what_has_no_strides_is_silent(axis):
    dense = torch.eye(4)
    ragged = [torch.ones(2, 3), torch.ones(1, 3)]
    for tensor in (
        dense.to_sparse(),
        dense.to_sparse_csr(),
        dense.to_sparse_csc(),
        torch.nested.nested_tensor(ragged),
        torch.nested.nested_tensor(ragged, layout=torch.jagged),
    ):
        assert Contiguous(axis).find_static(tensor, Scope()) is None
        assert not eval(Contiguous(axis).refusal_code(Operand("x", "x.shape"), {}, {}), {"x": tensor})


def test_findings():
    turned = torch.zeros(3, 4).T
    found = Contiguous().find_static(turned, Scope())
    assert (found.problem, found.expected, found.actual, found.axis) == (
        " axis 1 has stride 4, expected 1",
        "stride 1",
        4,
        1,
    )
    assert found.notes == ("its shape is [4, 3], its strides are [1, 4]",)
    assert found.hint == "copy it into place after the last transpose or slice: .contiguous()"
    found = Contiguous(None).find_static(turned, Scope())
    assert (found.problem, found.axis) == (" has strides [1, 4], expected it contiguous", None)


@pytest.mark.parametrize("compiled", [None, "eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize("axis", [None, -1])
def test_under_a_contract(axis, compiled):
    @contract
    def forward(q: Annotated[Float[Tensor, "S D"], Contiguous(axis)]) -> Float[Tensor, "S D"]:
        return q + 1

    @contract
    def without_result(q: Annotated[Float[Tensor, "S D"], Contiguous(axis)]):
        return q + 1

    torch._dynamo.reset()
    for function in (forward, without_result):
        run = torch.compile(function, fullgraph=True, backend=compiled) if compiled else function
        run(torch.zeros(4, 4))
        with pytest.raises(ContractError, match="q (axis 1 has stride 4|has strides)"):
            run(torch.zeros(4, 4).T)


def test_stands_at_tensors():
    with pytest.raises(AnnotationError, match=r"Contiguous\(axis=-1\) says nothing about int"):

        @contract
        def forward(x: Float[Tensor, "S"], n: Annotated[int, Contiguous()]): ...


def test_refuses_what_is_no_axis():
    with pytest.raises(ValueError, match=r"^Contiguous\(axis='all'\): expected the number of an axis, or None"):
        Contiguous("all")


def test_is_data():
    assert Contiguous.rebuild(asdict(Contiguous(None))) == Contiguous(None)
    assert len({Contiguous(), Contiguous(-1), Contiguous(None)}) == 2
    assert (Contiguous().symbols(), Contiguous().arguments(), Contiguous().reads_values()) == ((), (), False)
