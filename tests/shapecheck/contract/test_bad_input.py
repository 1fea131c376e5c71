"""Whatever is passed: a `ContractError`, or a pass. Never a crash inside the checker, never a sync nobody asked for."""

import contextlib
import warnings
from typing import Annotated, Any

import numpy as np
import pytest
import torch
from beartype.vale import Is
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from shapecheck import (
    ContractError,
    InRange,
    MultipleOf,
    OneOf,
    PackedLayout,
    PrefixSum,
    SameAsHost,
    SameBatch,
    SameDevice,
    contract,
)

LEVELS = ("shape", "host", "device", "sync")
at_levels = pytest.mark.parametrize("level", LEVELS)

# `sync` copies what is on an accelerator. These tests have none: a meta tensor stands for one.
ROWS = 300  # beyond the length up to which values are read as a Python list


def attention(
    x: Float[Tensor, "1 S C"],
    cu_q: Annotated[
        Int[Tensor, "B+1"], PrefixSum(end="S"), SameBatch("cu_k", empty="both"), SameAsHost("host"), SameDevice("x")
    ],
    cu_k: Annotated[Int[Tensor, "K"], PrefixSum(end="S", tail="allow")],
    tags: Annotated[Int[Tensor, "S"], OneOf(-1, 0, 1, 2)],
    index: Annotated[Int[Tensor, "I"] | None, InRange(0, "S"), MultipleOf(1)] = None,
    host: list[int] | Tensor | None = None,
    layout: PackedLayout | None = None,
) -> Float[Tensor, "1 S C"]:
    return x * 1


def good(**changed: Any) -> dict[str, Any]:
    values = {
        "x": torch.zeros(1, ROWS, 2),
        "cu_q": torch.tensor([0, 4, ROWS], dtype=torch.int32),
        "cu_k": torch.tensor([0, 5, ROWS], dtype=torch.int32),
        "tags": torch.zeros(ROWS, dtype=torch.int64),
        "index": torch.arange(ROWS),
        "host": [0, 4, ROWS],
    }
    return {**values, **changed}


def moved(values: dict[str, Any], move: Any) -> dict[str, Any]:
    return {name: move(value) if isinstance(value, Tensor) else value for name, value in values.items()}


def outcome(level: str, **changed: Any) -> str | None:
    """The argument that was refused, or None; any other exception gets out."""
    try:
        contract(level=level)(attention)(**good(**changed))
    except ContractError as error:
        return error.argument
    return None


@at_levels
def test_a_good_call(level):
    assert outcome(level) is None


@at_levels
@pytest.mark.parametrize("argument", ["x", "cu_q", "cu_k", "tags", "index"])
@pytest.mark.parametrize(
    "change",
    [
        lambda tensor: tensor[None],
        lambda tensor: tensor[..., 0],
        lambda tensor: tensor[:0][None],
        lambda tensor: tensor.to(torch.complex64),
        lambda tensor: tensor.to(torch.bool),
        lambda tensor: tensor.numpy(),
        lambda tensor: tensor.tolist(),
        lambda tensor: tensor.shape,
        lambda tensor: (),
        lambda tensor: 3,
        lambda tensor: "tensor",
        lambda tensor: object(),
    ],
    ids=[
        "more axes",
        "fewer axes",
        "no rows",
        "complex",
        "bool",
        "numpy",
        "list",
        "shape",
        "()",
        "3",
        "str",
        "?",
    ],
)
def test_what_is_no_such_tensor_is_refused(level, argument, change):
    value = change(good()[argument])
    assert outcome(level, **{argument: value}) in {argument, "cu_q", "tags", "host"}


@pytest.mark.parametrize("argument", ["x", "tags", "host"])
def test_a_class_is_no_tensor(argument):
    assert outcome("host", **{argument: Tensor}) == argument


@at_levels
def test_an_array_of_numpy_where_a_host_copy_belongs_is_refused(level):
    assert outcome(level, host=np.array([0, 4, ROWS])) == "host"


@at_levels
@pytest.mark.parametrize("value", [{"x": 1}, {1, 2}, b"x", range(3), 3, 1.5, "ab"], ids=str)
def test_other_values_where_a_host_copy_belongs_are_refused(level, value):
    assert outcome(level, host=value) == "host"


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor(3),
        [None, 0],
    ],
    ids=str,
)
def test_host_copies_of_another_form_are_refused(value):
    assert outcome("host", host=value) in ("cu_q", "host")


@at_levels
@pytest.mark.parametrize(
    ("changed", "argument"),
    [
        ({"x": torch.zeros(1, 0, 2)}, "tags"),
        ({"x": torch.zeros(0, ROWS, 2)}, "x"),
        ({"tags": torch.zeros(0, dtype=torch.int64)}, "tags"),
        ({"cu_q": torch.zeros(0, dtype=torch.int32)}, "cu_q"),
        ({"cu_k": torch.zeros(0, dtype=torch.int32)}, "cu_q"),
        ({"index": torch.zeros(0, dtype=torch.int64)}, None),
        ({"x": torch.zeros(1, ROWS, 0)}, None),
    ],
    ids=range(7),
)
def test_axes_of_size_zero(level, changed, argument):
    assert outcome(level, **changed) == argument


@at_levels
def test_no_rows_at_all(level):
    two = torch.zeros(2, dtype=torch.int32)
    none = torch.zeros(0, dtype=torch.int64)
    empty = {"x": torch.zeros(1, 0, 2), "cu_q": two, "cu_k": two, "tags": none, "index": none, "host": [0, 0]}
    assert outcome(level, **empty) is None


@at_levels
@pytest.mark.parametrize("last", [2**31, 2**40, 2**62, -1, -(2**63)])
def test_boundaries_beyond_int32(level, last):
    wide = torch.tensor([0, 4, last])
    assert outcome(level, cu_q=wide, host=wide) == (None if level == "shape" else "cu_q")
    assert outcome(level, index=torch.tensor([last])) == (None if level == "shape" else "index")


@at_levels
def test_host_copies_beyond_int64(level):
    assert outcome(level, host=[0, 4, 2**70]) == (None if level == "shape" else "cu_q")


@at_levels
@pytest.mark.parametrize(
    "dtype",
    [torch.uint8, torch.int8, torch.int16, torch.uint16, torch.uint32, torch.uint64, torch.int64],
    ids=str,
)
@pytest.mark.parametrize("rows", [3, ROWS])
def test_tags_of_every_integer_dtype(level, dtype, rows):
    @contract(level=level)
    def forward(tags: Annotated[Shaped[Tensor, "S"], OneOf(-1, 0, 1, 2), InRange(-1, 2**40), MultipleOf(1)]):
        return tags

    forward(torch.ones(rows).to(dtype))
    if level != "shape":
        with pytest.raises(ContractError, match=r"tags\[0\] is 7"):
            forward(torch.full((rows,), 7).to(dtype))


@at_levels
@pytest.mark.parametrize(
    "dtype",
    [torch.float16, torch.bfloat16, torch.float64, torch.float8_e5m2, torch.complex64, torch.bool],
    ids=str,
)
@pytest.mark.parametrize("value", [0.0, 1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("rows", [0, 3, ROWS])
def test_values_of_every_other_dtype(level, dtype, value, rows):
    @contract(level=level)
    def forward(x: Annotated[Shaped[Tensor, "S"], OneOf(0, 1), InRange(0, 2), MultipleOf(1)]):
        return x

    x = torch.full((rows,), value).to(dtype)
    with contextlib.suppress(ContractError) if level != "shape" else contextlib.nullcontext():
        assert forward(x) is x


# -- tensors without values ---------------------------------------------------------------------------------------------


@at_levels
def test_meta_tensors(level):
    forward = contract(level=level)(attention)
    meta = moved(good(), lambda tensor: tensor.to("meta"))
    assert forward(**meta).is_meta
    with pytest.raises(ContractError, match=r"^attention: tags axis 0 \(S\) is 3, expected 300"):
        forward(**{**meta, "tags": torch.zeros(3, dtype=torch.int64, device="meta")})
    with pytest.raises(ContractError, match=r"^attention: cu_q is on meta, expected cpu as x is"):
        forward(**{**meta, "x": torch.zeros(1, ROWS, 2)})
    with pytest.raises(ContractError, match=r"^attention: cu_q has 3 boundaries \(2 sequences\), expected 4"):
        forward(**{**meta, "cu_k": torch.zeros(4, dtype=torch.int32, device="meta")})


@at_levels
@pytest.mark.parametrize("inside", [False, True])
def test_fake_tensors(level, inside):
    forward = contract(level=level)(attention)
    mode = FakeTensorMode()
    fake = moved(good(), mode.from_tensor)
    short = {**fake, "tags": mode.from_tensor(torch.zeros(3, dtype=torch.int64))}
    with mode if inside else warnings.catch_warnings():
        assert forward(**fake).shape == (1, ROWS, 2)
        with pytest.raises(ContractError, match=r"^attention: tags axis 0 \(S\) is 3, expected 300"):
            forward(**short)


@at_levels
def test_fake_tensors_made_under_the_mode(level):
    forward = contract(level=level)(attention)
    with FakeTensorMode():
        assert forward(**good()).shape == (1, ROWS, 2)
        with pytest.raises(ContractError, match="tags axis 0"):
            forward(**good(tags=torch.zeros(3, dtype=torch.int64)))
        layout = PackedLayout.pack({"text": 100, "video": 200}, tags={"text": 1, "video": 0})
        forward(**good(layout=layout, tags=layout.token_tags))
        with pytest.raises(ContractError, match="200 rows are video only"):
            forward(**good(layout=layout, tags=torch.zeros(200, dtype=torch.int64)))


@at_levels
def test_fake_tensors_of_symbolic_sizes(level):
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    forward = contract(level=level)(attention)
    mode = FakeTensorMode(shape_env=ShapeEnv())
    fake = moved(good(), mode.from_tensor)
    with mode:
        assert forward(**fake).shape[-1] == 2
        with pytest.raises(ContractError, match="tags axis 0"):
            forward(**{**fake, "tags": mode.from_tensor(torch.zeros(3, dtype=torch.int64))})


# -- other tensors ------------------------------------------------------------------------------------------------------


class Sharded(Tensor):
    """As DTensor is: a wrapper whose own storage holds nothing, and whose values belong to somebody else."""

    @staticmethod
    def __new__(cls, inner: Tensor) -> "Sharded":
        return Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner: Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten._to_copy.default):
            raise AssertionError(f"{func} gathers all the shards")
        inner = [tree_map_only(Sharded, lambda one: one.inner, one) for one in (args, kwargs or {})]
        return tree_map_only(Tensor, Sharded, func(*inner[0], **inner[1]))


@at_levels
def test_wrapper_subclasses_are_not_read(level):
    forward = contract(level=level)(attention)
    sharded = moved(good(), Sharded)
    assert type(forward(**sharded)) is Sharded
    wrong = {**sharded, "cu_q": Sharded(torch.tensor([0, 4, 9], dtype=torch.int32))}
    assert type(forward(**wrong)) is Sharded  # its values are unknown, and pass
    with pytest.raises(ContractError, match=r"^attention: tags axis 0 \(S\) is 3, expected 300"):
        forward(**{**sharded, "tags": Sharded(torch.zeros(3, dtype=torch.int64))})


class Plain(Tensor):
    """A subclass that only adds a name."""


@at_levels
def test_plain_subclasses_are_read(level):
    forward = contract(level=level)(attention)
    plain = moved(good(), lambda tensor: tensor.as_subclass(Plain))
    assert type(forward(**plain)) is Plain
    wrong = {**plain, "cu_q": torch.tensor([0, 4, 9], dtype=torch.int32).as_subclass(Plain)}
    if level == "shape":
        forward(**wrong)
    else:
        with pytest.raises(ContractError, match=r"cu_q\[2\] is 9, expected 300|cu_q\[-1\] is 9, expected 300"):
            forward(**wrong)


@at_levels
def test_parameters_and_buffers(level):
    forward = contract(level=level)(attention)
    assert forward(**good(x=nn.Parameter(torch.zeros(1, ROWS, 2)))).requires_grad


def jagged(*lengths: int) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.zeros(length, 2) for length in lengths], layout=torch.jagged)


@at_levels
def test_jagged_tensors(level):
    @contract(level=level)
    def forward(x: Annotated[Float[Tensor, "B S C"], InRange(5, 6)], lengths: Annotated[Int[Tensor, "B"], OneOf(2, 3)]):
        return x

    x = jagged(2, 3)
    assert forward(x, torch.tensor([2, 3])) is x
    with pytest.raises(ContractError, match=r"x has 3 axes, expected 2"):
        contract(level=level)(_matrix)(x)


def _matrix(x: Float[Tensor, "S C"]):
    return x


@at_levels
def test_what_does_not_fit_a_jagged_tensor(level):
    @contract(level=level)
    def forward(x: Float[Tensor, "B S C"], lengths: Int[Tensor, "B"]): ...

    with pytest.raises(ContractError, match=r"lengths axis 0 \(B\) is 3, expected 2"):
        forward(jagged(2, 3), torch.tensor([2, 3, 3]))


@at_levels
def test_a_ragged_axis_that_does_not_fit(level):
    @contract(level=level)
    def forward(x: Float[Tensor, "B S C"], y: Float[Tensor, "B S C"]):
        return x

    x = jagged(2, 3)
    assert forward(x, x) is x
    with pytest.raises(ContractError):
        forward(x, torch.zeros(2, 3, 2))


@at_levels
@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_tensors(level):
    @contract(level=level)
    def forward(x: Annotated[Float[Tensor, "S C"], InRange(5, 6)]):
        return x

    for sparse in (torch.eye(3).to_sparse(), torch.eye(3).to_sparse_csr()):
        assert forward(sparse) is sparse
    with pytest.raises(ContractError, match="x has 1 axis"):
        forward(torch.ones(3).to_sparse())


@at_levels
def test_vmap_and_grad(level):
    forward = contract(level=level)(attention)
    values = good()
    x = values.pop("x")
    result = torch.vmap(lambda one: forward(one, **values))(x[None].expand(4, 1, ROWS, 2))
    assert result.shape == (4, 1, ROWS, 2)
    with pytest.raises(ContractError, match=r"^attention: x has 2 axes, expected 3 axes"):
        torch.vmap(lambda one: forward(one, **values))(x)
    assert torch.func.grad(lambda one: forward(one, **values).sum())(x).shape == x.shape

    cu = values.pop("cu_q")
    several = torch.stack([cu, cu + 1])  # wrong in the second, which nobody can see from inside
    torch.vmap(lambda one: forward(x, one, **values))(several)
    jacobian = torch.func.jacrev(lambda one: forward(one, cu, **values).sum())(x)
    assert jacobian.shape == x.shape


# -- syncs --------------------------------------------------------------------------------------------------------------

READS = ("item", "tolist", "cpu", "numpy", "__bool__", "__int__", "__float__", "__index__", "nonzero")


class NoReads(TorchDispatchMode):
    """Fails on whatever would wait for the device of a meta tensor, which stands for one on an accelerator."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        waits = func in (
            torch.ops.aten._local_scalar_dense.default,
            torch.ops.aten._to_copy.default,
            torch.ops.aten.nonzero.default,
            torch.ops.aten.equal.default,
        )
        if waits and any(isinstance(one, Tensor) and one.is_meta for one in args):
            raise AssertionError(f"{func} waits for the device")
        return func(*args, **(kwargs or {}))


@pytest.fixture
def _no_reads_of_meta(monkeypatch):
    """Reading a value of a meta tensor, which stands for one on an accelerator, fails the test."""

    def guarded(name):
        original = getattr(Tensor, name)

        def read(self, *args, **kwargs):
            assert not self.is_meta, f"{name} waits for the device"
            return original(self, *args, **kwargs)

        return read

    for name in READS:
        monkeypatch.setattr(Tensor, name, guarded(name))


@pytest.mark.usefixtures("_no_reads_of_meta")
@pytest.mark.parametrize("level", ["shape", "host", "device"])
def test_nothing_waits_for_a_device(level):
    forward = contract(level=level)(attention)
    meta = moved(good(), lambda tensor: tensor.to("meta"))
    layout = PackedLayout.pack({"text": 100, "video": 200}, tags={"text": 1, "video": 0})
    with NoReads():
        assert forward(**meta, layout=layout).is_meta
        # Nor does writing a message.
        for name, size in (("tags", 200), ("tags", 3), ("cu_q", 1), ("cu_k", 5)):
            wrong = {**meta, name: torch.zeros(size, dtype=torch.int64, device="meta")}
            with pytest.raises(ContractError):
                forward(**wrong, layout=layout)
        with pytest.raises(ContractError):
            forward(**{**meta, "x": torch.zeros(1, ROWS, 2)})


@pytest.mark.usefixtures("_no_reads_of_meta")
def test_what_is_on_the_host_is_read_beside_what_is_not():
    @contract
    def forward(
        x: Float[Tensor, "S"],
        cu: Annotated[Int[Tensor, "B"], PrefixSum(end="S"), SameAsHost("host")],
        host: list[int] | Tensor,
    ):
        return x

    x, cu = torch.zeros(8, device="meta"), torch.tensor([0, 8])
    elsewhere = cu.to("meta")
    with NoReads():
        forward(x, elsewhere, [0, 9])
        forward(x, elsewhere, cu)
        forward(x, cu, elsewhere)
        with pytest.raises(ContractError, match=r"cu\[-1\] is 7, expected 8 \(S\)"):
            forward(x, torch.tensor([0, 7]), [0, 7])


# -- anything at all ----------------------------------------------------------------------------------------------------

DTYPES = (torch.float32, torch.int32, torch.int64, torch.uint8, torch.bool, torch.complex64, torch.uint16)
tensors = st.builds(
    lambda shape, value, dtype, device: torch.full(shape, value).to(dtype).to(device),
    st.lists(st.sampled_from([0, 1, 2, 3, ROWS]), max_size=3),
    st.sampled_from([-1, 0, 1, 5, 2**31]),
    st.sampled_from(DTYPES),
    st.sampled_from(["cpu", "cpu", "cpu", "meta"]),
)
anything = st.one_of(
    tensors,
    st.none(),
    st.integers(),
    st.floats(),
    st.text(max_size=2),
    st.lists(st.integers() | st.floats() | st.text(max_size=1) | st.none(), max_size=4),
    st.sampled_from([np.zeros(3), np.array(["a"]), (), {}, object(), Tensor, torch.int32, float("nan")]),
)


@given(st.dictionaries(st.sampled_from([*good(), "layout"]), anything, min_size=1, max_size=3), st.sampled_from(LEVELS))
@settings(max_examples=300, deadline=None)
def test_nothing_crashes_the_checker(changed, level):
    outcome(level, **changed)


ANY = Is[lambda value: True]  # without it, `x` has nothing to check and no invariant may name it
invariants = st.sampled_from(
    [PrefixSum(), PrefixSum(end="S"), SameBatch("x"), SameAsHost("x"), SameAsHost("x", "upper_bound"),
     OneOf(1, 2), OneOf("a", 1), InRange(0, "S"), MultipleOf(2), MultipleOf(2, of="S")]
)  # fmt: skip


@given(invariants, anything, anything, st.sampled_from(LEVELS))
@settings(max_examples=300, deadline=None)
def test_no_invariant_crashes_on_any_value(invariant, value, x, level):
    hint = Tensor if isinstance(invariant, SameAsHost) else Any  # a SameAsHost stands at tensors only

    @contract(level=level)
    def forward(x: Annotated[Any, ANY], value: Annotated[hint, invariant], s: Shaped[Tensor, "S"]): ...

    with contextlib.suppress(ContractError):
        forward(x, value, torch.zeros(3))
