"""Values are read where they can be; where they cannot, the call passes. Never a crash, never a trace that records the
check."""

import warnings
from typing import Annotated, Any

import pytest
import torch
from jaxtyping import Float, Int32, Shaped
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from shapecheck import ContractError, InRange, MultipleOf, OneOf, PrefixSum, SameBatch, contract
from shapecheck._contract._values import host_readable

LONG = 300  # beyond the length up to which values are read as a Python list


def nested(layout):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # strided ones are a prototype, torch says once a process
        return torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=layout)


def readable(tensor):
    host, sync = host_readable(tensor, sync=False), host_readable(tensor, sync=True)
    assert host == sync  # on the CPU there is nothing to wait for
    return host


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(3),
        torch.zeros(0),
        torch.tensor(1),
        torch.zeros(3).expand(2, 3),
        torch.zeros(3, requires_grad=True),
        torch.zeros(3, requires_grad=True) + 1,
        nn.Parameter(torch.zeros(3)),
        torch.zeros(3).as_subclass(type("Plain", (Tensor,), {})),
    ],
    ids=range(8),
)
def test_plain_tensors_are_readable(tensor):
    assert readable(tensor)
    with torch.inference_mode():
        assert readable(tensor)


def test_tensors_without_values_are_not():
    assert not readable(torch.zeros(3, device="meta"))
    assert not readable(nn.Parameter(torch.zeros(3, device="meta")))
    assert not readable(FakeTensorMode().from_tensor(torch.zeros(3)))


def test_nothing_is_readable_under_fake_tensor_mode():
    with FakeTensorMode():
        assert not readable(torch.zeros(3))
    real = torch.zeros(3)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert not readable(real)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_other_layouts_are_not():
    assert not readable(torch.eye(3).to_sparse())
    assert not readable(torch.eye(3).to_sparse_csr())
    assert not readable(nested(torch.jagged))
    assert not readable(nested(torch.strided))


def test_only_the_tensors_that_a_transform_wraps_are_not():
    real, seen = torch.zeros(3), []

    def function(x):
        seen.append((readable(x), readable(real)))
        return x.sum()

    torch.vmap(function)(torch.zeros(2, 3))
    torch.func.grad(function)(torch.zeros(3))
    assert seen == [(False, True)] * 2


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_nothing_is_readable_while_make_fx_traces(mode):
    seen = []
    make_fx(lambda x: (seen.append(readable(x)), x + 1)[1], tracing_mode=mode)(torch.zeros(3))
    assert seen == [False]


def test_nothing_is_readable_while_make_fx_traces_before_dispatch():
    seen = []
    make_fx(lambda x: (seen.append(readable(x)), x + 1)[1], pre_dispatch=True)(torch.zeros(3))
    assert seen == [False]


def test_other_dispatch_modes_do_not_matter():
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False):
        assert readable(torch.zeros(3))


def plain(
    x: Float[Tensor, "S C"],
    cu: Annotated[Int32[Tensor, "B+1"], PrefixSum(end="S")],
    weight: Annotated[Float[Tensor, "S"], InRange(0, 2)],
) -> Float[Tensor, "S C"]:
    return x * weight[:, None]


def arguments(rows=LONG, *, last=None, weight=1.0):
    cu = torch.tensor([0, rows if last is None else last], dtype=torch.int32)
    return torch.zeros(rows, 2), cu, torch.full((rows,), weight)


LEVELS = pytest.mark.parametrize("level", ["host", "device", "sync"])
LENGTHS = pytest.mark.parametrize("rows", [3, LONG])


@LEVELS
@LENGTHS
def test_what_cannot_be_read_passes(level, rows):
    function, bad = contract(level=level)(plain), arguments(rows, last=9)
    with pytest.raises(ContractError, match=r"^plain: cu\[-1\] is 9"):
        function(*bad)
    assert function(*(tensor.to("meta") for tensor in bad)).is_meta
    fakes = FakeTensorMode()
    assert function(*map(fakes.from_tensor, bad)).shape == (rows, 2)
    with fakes:
        assert function(*map(fakes.from_tensor, bad)).shape == (rows, 2)
    assert torch.vmap(function)(*(tensor[None] for tensor in bad)).shape == (1, rows, 2)


@LEVELS
def test_what_can_be_read_beside_it_is_checked(level):
    function = contract(level=level)(plain)
    x, cu, weight = arguments(last=9)
    with pytest.raises(ContractError, match=r"^plain: cu\[-1\] is 9"):
        function(x.to("meta"), cu, weight.to("meta"))
    with pytest.raises(ContractError, match=r"^plain: cu\[-1\] is 9"):
        torch.vmap(function, in_dims=(0, None, 0))(x[None], cu, weight[None])


@LEVELS
@LENGTHS
@pytest.mark.parametrize("mode", ["real", "symbolic"])
def test_a_trace_records_nothing_of_the_checks(level, rows, mode):
    def operations(function):
        graph = make_fx(function, tracing_mode=mode)(*arguments(rows)).graph
        return [str(node.target) for node in graph.nodes if node.op == "call_function"]

    assert operations(contract(level=level)(plain)) == operations(plain)


@LENGTHS
def test_a_pre_dispatch_trace_records_nothing_of_the_checks(rows):
    def operations(function):
        graph = make_fx(function, pre_dispatch=True)(*arguments(rows)).graph
        return [str(node.target) for node in graph.nodes if node.op == "call_function"]

    assert operations(contract(plain)) == operations(plain)


@LEVELS
@LENGTHS
def test_tensors_that_require_grad(level, rows):
    function = contract(level=level)(plain)
    x, cu, weight = arguments(rows)
    function(x, cu, weight.requires_grad_()).sum().backward()
    assert weight.grad is not None
    for bad in (weight * 2, nn.Parameter(torch.full((rows,), 2.0))):
        with pytest.raises(ContractError, match=r"^plain: weight\[0\] is 2.0, expected 0 <= value < 2"):
            function(x, cu, bad)
    assert torch.func.grad(lambda weight: function(x, cu, weight).sum())(weight.detach()).shape == (rows,)


@LENGTHS
def test_values_under_inference_mode(rows):
    with torch.inference_mode():
        contract(plain)(*arguments(rows))
        with pytest.raises(ContractError, match=r"^plain: cu\[-1\] is 9"):
            contract(plain)(*arguments(rows, last=9))


@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_and_jagged_tensors_pass():
    @contract
    def function(x: Annotated[Shaped[Tensor, "..."], OneOf(7)]):
        return x

    for tensor in (torch.eye(3).to_sparse(), torch.eye(3).to_sparse_csr(), nested(torch.jagged)):
        assert function(tensor) is tensor


def test_strided_nested_tensors_have_no_shape():
    """A known limit: torch itself raises for `.shape` of them. Jagged ones have one."""

    @contract
    def function(x: Float[Tensor, "B S"]):
        return x

    strided, jagged = nested(torch.strided), nested(torch.jagged)
    with pytest.raises(RuntimeError, match="NestedTensorImpl"):
        _ = strided.shape
    with pytest.raises(RuntimeError, match="NestedTensorImpl"):
        function(strided)
    assert function(jagged) is jagged


def test_empty_tensors_and_axes():
    @contract
    def function(
        x: Float[Tensor, "S C"],
        tags: Annotated[Float[Tensor, "S"], OneOf(1), InRange(5, 6), MultipleOf(3)],
        cu: Annotated[Int32[Tensor, "B+1"], PrefixSum(end="S")],
    ): ...

    function(torch.zeros(0, 2), torch.zeros(0), torch.tensor([0, 0], dtype=torch.int32))
    for cu in ([], [0]):
        with pytest.raises(ContractError):
            function(torch.zeros(0, 2), torch.zeros(0), torch.tensor(cu, dtype=torch.int32))


def test_axes_that_divide_by_an_empty_axis_say_nothing():
    @contract
    def function(x: Float[Tensor, "S P"], y: Float[Tensor, "S//P"], z: Float[Tensor, "S%P"]): ...

    function(torch.zeros(3, 0), torch.zeros(9), torch.zeros(7))
    with pytest.raises(ContractError, match=r"function: y axis 0 \(S//P\) is 9, expected 3"):
        function(torch.zeros(3, 1), torch.zeros(9), torch.zeros(0))


def test_boundaries_beyond_int32():
    @contract
    def function(cu: Annotated[Shaped[Tensor, "B+1"], PrefixSum()]): ...

    function(torch.tensor([0, 2**31 - 1]))
    for last in (2**31, 2**62):
        with pytest.raises(ContractError, match=rf"function: cu\[-1\] is {last}, expected at most 2147483647"):
            function(torch.tensor([0, last]))


def test_an_absent_optional_argument_leaves_the_values_open():
    @contract
    def function(
        cu: Annotated[Int32[Tensor, "B+1"], PrefixSum(end="S"), SameBatch("other", empty="both")],
        x: Float[Tensor, "S"] | None = None,
        other: Int32[Tensor, "K"] | None = None,
    ): ...

    cu = torch.tensor([0, 4], dtype=torch.int32)
    function(cu)
    function(cu, torch.zeros(4), cu)
    with pytest.raises(ContractError, match=r"cu\[-1\] is 4, expected 5 \(S\)"):
        function(cu, torch.zeros(5))
    with pytest.raises(ContractError, match="cu has 4 rows in sequence 0, but other has 0"):
        function(cu, None, torch.zeros(2, dtype=torch.int32))


@pytest.mark.parametrize("checked", ["cu", "host"])
def test_same_batch_with_a_host_copy(checked):
    invariants = {"cu": (), "host": (), checked: (SameBatch("host" if checked == "cu" else "cu"),)}

    @contract
    def function(
        cu: Annotated[Int32[Tensor, "B+1"], "doc", *invariants["cu"]],
        host: Annotated[list[int], "doc", *invariants["host"]],
    ): ...

    function(torch.tensor([0, 4], dtype=torch.int32), [0, 4])
    with pytest.raises(ContractError, match=f"^.*function: {checked} has "):
        function(torch.tensor([0, 4], dtype=torch.int32), [0, 2, 4])


@pytest.mark.parametrize("rows", [1, LONG])
@pytest.mark.parametrize("invariant", [InRange(0, 5), MultipleOf(2)], ids=repr)
def test_complex_values_are_in_no_range(invariant, rows):
    @contract
    def function(x: Annotated[Shaped[Tensor, "S"], invariant]): ...

    with pytest.raises(ContractError, match=r"x\[0\] is 1j"):
        function(torch.full((rows,), 1j))


@LENGTHS
def test_words_beside_numbers_say_nothing_of_a_tensor(rows):
    @contract
    def function(x: Annotated[Shaped[Tensor, "S"], OneOf("a", 2)]): ...

    function(torch.full((rows,), 2))
    with pytest.raises(ContractError, match=r"x\[0\] is 1, expected one of \['a', 2\]"):
        function(torch.ones(rows, dtype=torch.int64))


@pytest.mark.parametrize(
    "value",
    [
        [0, "a"],
        [0, None],
        pytest.param(object(), id="object"),
        {0: 3},
        3,
    ],
    ids=str,
)
def test_what_holds_no_numbers_passes(value):
    @contract
    def function(cu: Annotated[Any, PrefixSum()]): ...

    function([0, 3])
    with pytest.raises(ContractError, match=r"function: cu\[2\] is 3, expected at least 5"):
        function((0, 5, 3))
    function(value)


def test_words_in_a_list():
    @contract
    def function(names: Annotated[list[str], OneOf("q", "k")]): ...

    function(["q"])
    with pytest.raises(ContractError, match=r"function: names\[0\] is 'v', expected one of \['q', 'k'\]"):
        function(["v"])
