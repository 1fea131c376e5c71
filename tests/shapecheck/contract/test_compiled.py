"""The contract inside compiled regions: no break, no graph more than the undecorated module, and `ContractError`."""

import functools
import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
import torch
from jaxtyping import Bool, Float, Int, Int32
from torch import Tensor, nn
from torch._dynamo.utils import counters

from shapecheck import (
    ContractError,
    InRange,
    MultipleOf,
    OneOf,
    PrefixSum,
    SameAsHost,
    SameBatch,
    SameDevice,
    contract,
)

SIZES = (32, 48, 64, 96)

SHAPES = [
    pytest.param(None, False, id="static"),
    pytest.param(True, False, id="dynamic"),
    pytest.param(None, True, id="mark_dynamic"),
]
BACKENDS = ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]


@pytest.fixture(autouse=True)
def fresh_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Dynamo warns, once, that its profile cache is off.
    monkeypatch.setattr("torch._dynamo.pgo.warn_once", lambda *_: None)
    torch._dynamo.reset()
    counters.clear()
    # Caches off: a graph cached by a run without the check would pass for one that has it.
    with torch.compiler.config.patch(force_disable_caches=True):
        yield
    torch._dynamo.reset()
    gc.collect()


class Plain(nn.Module):
    """Does not read cu_seqlens or max_seqlen, so that a check which specializes on them shows as a graph more."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, token_tags, cu_seqlens, max_seqlen, mask=None):
        y = self.linear(x) + token_tags[None, :, None]
        return y if mask is None else y * mask[None, :, None]


def spec_with_result(
    self,
    x: Float[Tensor, "1 S C"],
    token_tags: Annotated[Int[Tensor, "S"], OneOf(-1, 0, 1, 2)],
    cu_seqlens: Annotated[Int32[Tensor, "B+1"], PrefixSum(end="S"), SameDevice("x")],
    max_seqlen: int,
    mask: Bool[Tensor, "S"] | None = None,
) -> Float[Tensor, "1 S C"]: ...


def contracted(annotations: dict[str, Any], **options: Any) -> type[nn.Module]:
    class Contracted(Plain):
        def forward(self, x, token_tags, cu_seqlens, max_seqlen, mask=None):
            y = self.linear(x) + token_tags[None, :, None]
            return y if mask is None else y * mask[None, :, None]

        forward.__annotations__ = annotations
        forward = contract(**options)(forward)

    return Contracted


WithResult = contracted(spec_with_result.__annotations__)
WithoutResult = contracted(
    {name: annotation for name, annotation in spec_with_result.__annotations__.items() if name != "return"}
)


class Outer(nn.Module):
    """The contracted module is not the outermost: its result, or the violation's, goes on through the graph."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.linear = nn.Linear(4, 4)

    def forward(self, x, *rest):
        return self.linear(self.inner(x * 1.0, *rest))


def call(rows: int, fault: str | None = None) -> tuple[Any, ...]:
    x = torch.randn(1, rows, 4)
    token_tags = torch.zeros(rows, dtype=torch.long)
    cu_seqlens = torch.linspace(0, rows, 4).int()
    mask = None
    if fault == "length":
        token_tags = token_tags[:-1]
    if fault == "tag":
        token_tags[3] = 7
    if fault == "end":
        cu_seqlens[-1] -= 1
    if fault == "rank":
        x = x[0]
    if fault == "dtype":
        token_tags = token_tags.float()
    if fault == "none":
        token_tags = None
    if fault == "no boundaries":
        cu_seqlens = torch.zeros(0, dtype=torch.int32)
    if fault == "mask":
        mask = torch.ones(rows + 1, dtype=torch.bool)
    return x, token_tags, cu_seqlens, rows, mask


FAULTS = {
    "length": ("token_tags", 0, "forward: token_tags axis 0 (S) is 39, expected 40"),
    "tag": ("token_tags", 0, "forward: token_tags[3] is 7, expected one of [-1, 0, 1, 2]"),
    "end": ("cu_seqlens", 0, "forward: cu_seqlens[-1] is 39, expected 40 (S)"),
    "rank": ("x", None, "forward: x has 2 axes, expected 3 axes"),
    "dtype": ("token_tags", None, "forward: token_tags is float32, expected one of int64, int32, int16, int8"),
    "none": ("token_tags", None, "forward: token_tags is None, expected a torch.Tensor"),
    "no boundaries": ("cu_seqlens", 0, "forward: cu_seqlens axis 0 is 0, but no B >= 0 makes B+1 equal to that"),
    "mask": ("mask", 0, "forward: mask axis 0 (S) is 41, expected 40"),
}


def graphs(module: nn.Module, backend: str, dynamic: bool | None, mark: bool, *, train: bool) -> tuple[int, int]:
    """Graphs and graph breaks over calls of several sizes."""
    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(module, backend=backend, fullgraph=True, dynamic=dynamic)
    for rows in SIZES:
        args = call(rows)
        if mark:
            torch._dynamo.mark_dynamic(args[0], 1)
            torch._dynamo.mark_dynamic(args[1], 0)
        result = compiled(*args)
        if train:
            result.sum().backward()
    return counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("dynamic", "mark"), SHAPES)
@pytest.mark.parametrize("kind", [WithResult, WithoutResult])
def test_as_many_graphs_as_without_the_contract(kind: Any, dynamic: bool | None, mark: bool, backend: str) -> None:
    bare = graphs(Plain(), backend, dynamic, mark, train=True)
    assert bare[1] == 0
    assert graphs(kind(), backend, dynamic, mark, train=True) == bare


def reported(error: ContractError, fault: str) -> None:
    argument, axis, problem = FAULTS[fault]
    assert (error.argument, error.axis) == (argument, axis)
    assert str(error).split("\n")[0].removeprefix("contracted.Contracted.").startswith(problem)


@pytest.mark.parametrize(
    ("backend", "faults"),
    [
        pytest.param("eager", tuple(FAULTS), id="eager"),
        pytest.param("aot_eager", ("length", "end"), id="aot_eager"),
        pytest.param("inductor", ("length", "tag"), id="inductor", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "module", [WithResult(), Outer(WithResult()), WithoutResult()], ids=["plain", "nested", "bare"]
)
def test_violations_arrive_as_contract_error(
    module: nn.Module, dynamic: bool | None, fullgraph: bool, backend: str, faults: tuple[str, ...]
) -> None:
    compiled = torch.compile(module, backend=backend, fullgraph=fullgraph, dynamic=dynamic)
    for fault in faults:
        with pytest.raises(ContractError) as caught:
            compiled(*call(40, fault))
        argument, axis, problem = FAULTS[fault]
        assert (caught.value.argument, caught.value.axis) == (argument, axis)
        assert str(caught.value).split("\n")[0].removeprefix("contracted.Contracted.").startswith(problem)
        compiled(*call(40))


@pytest.mark.parametrize("dynamic", [None, True])
def test_the_next_good_call_needs_no_recompile(dynamic: bool | None) -> None:
    compiled = torch.compile(WithResult(), backend="eager", fullgraph=True, dynamic=dynamic)
    compiled(*call(40))
    counters.clear()
    for fault in FAULTS:
        with pytest.raises(ContractError):
            compiled(*call(40, fault))
    seen = counters["stats"].get("unique_graphs", 0)
    compiled(*call(40))
    assert counters["stats"].get("unique_graphs", 0) == seen


def test_many_different_violations_do_not_exhaust_the_recompile_limit() -> None:
    compiled = torch.compile(WithResult(), backend="eager", fullgraph=True)
    for short in range(1, 15):
        x, tags, *rest = call(40)
        with pytest.raises(ContractError, match=rf"token_tags axis 0 \(S\) is {40 - short}, expected 40"):
            compiled(x, tags[short:], *rest)
    compiled(*call(40))


@pytest.mark.parametrize("backend", BACKENDS)
def test_equal_results_and_gradients(backend: str) -> None:
    bare, checked = Plain(), WithResult()
    checked.load_state_dict(bare.state_dict())
    args = call(40)
    expected, actual = bare(*args), torch.compile(checked, backend=backend, fullgraph=True)(*args)
    torch.testing.assert_close(actual, expected)
    expected.sum().backward()
    actual.sum().backward()
    torch.testing.assert_close(checked.linear.weight.grad, bare.linear.weight.grad)


@pytest.mark.parametrize("backend", BACKENDS)
def test_value_checks_survive_an_unused_result_and_inference_mode(backend: str) -> None:
    """A check whose result nobody reads is what functionalization deletes."""
    inner = WithResult()

    def outer(x: Tensor, *rest: Any) -> Tensor:
        inner(x, *rest)
        return x * 2

    compiled = torch.compile(outer, backend=backend, fullgraph=True)
    with torch.inference_mode():
        compiled(*call(40))
        with pytest.raises(ContractError, match=r"token_tags\[3\] is 7"):
            compiled(*call(40, "tag"))


def test_plain_functions_and_several_results() -> None:
    @contract
    def split(
        x: Float[Tensor, "S C"], at: Annotated[Int[Tensor, "K"], InRange(0, "S")]
    ) -> tuple[Float[Tensor, "S C"], Float[Tensor, "K C"]]:
        return x * 2, x[at]

    compiled = torch.compile(lambda x, at: split(x, at)[1].sum(), backend="aot_eager", fullgraph=True)
    x = torch.randn(8, 3, requires_grad=True)
    compiled(x, torch.tensor([1, 7])).backward()
    with pytest.raises(ContractError, match=r"at\[1\] is 8, expected 0 <= value < 8 \(S\)"):
        compiled(x, torch.tensor([1, 8]))
    with pytest.raises(ContractError, match=r"x has 1 axis, expected 2 axes"):
        compiled(x[0].detach(), torch.tensor([1, 7]))


def test_a_wrong_result_is_reported() -> None:
    @contract
    def trimmed(x: Float[Tensor, "S C"]) -> Float[Tensor, "S C"]:
        return x[:-1]

    with pytest.raises(ContractError, match=r"return axis 0 \(S\) is 7, expected 8") as caught:
        torch.compile(trimmed, backend="aot_eager", fullgraph=True)(torch.randn(8, 3))
    assert caught.value.argument == "return"
    assert caught.value.bound_by == "x"


def test_numbers_with_invariants_become_guards() -> None:
    @contract
    def scaled(x: Float[Tensor, "S"], align: Annotated[int, MultipleOf(8)]) -> Float[Tensor, "S"]:
        return x * align

    compiled = torch.compile(scaled, backend="eager", fullgraph=True)
    compiled(torch.randn(4), 16)
    with pytest.raises(ContractError, match="align is 12, expected a multiple of 8"):
        compiled(torch.randn(4), 12)


def test_two_sides() -> None:
    @contract
    def cross(
        q: Float[Tensor, "Sq H"],
        k: Float[Tensor, "Sk H"],
        cu_seqlens_q: Annotated[Int32[Tensor, "_"], PrefixSum(end="Sq")],
        cu_seqlens_k: Annotated[Int32[Tensor, "_"], PrefixSum(end="Sk"), SameBatch("cu_seqlens_q", empty="both")],
    ) -> Float[Tensor, "Sq H"]:
        return q + k.sum()

    compiled = torch.compile(cross, backend="aot_eager", fullgraph=True)
    q, k = torch.randn(5, 2), torch.randn(9, 2)
    compiled(q, k, torch.tensor([0, 2, 5]).int(), torch.tensor([0, 4, 9]).int())
    with pytest.raises(ContractError, match=r"cu_seqlens_k has 2 boundaries \(1 sequence\), expected 3"):
        compiled(q, k, torch.tensor([0, 2, 5]).int(), torch.tensor([0, 9]).int())
    with pytest.raises(ContractError, match="has 0 rows in sequence 1, but cu_seqlens_q has 3"):
        compiled(q, k, torch.tensor([0, 2, 5]).int(), torch.tensor([0, 9, 9]).int())


def test_checkpointed_bodies_and_func_grad() -> None:
    from torch.utils.checkpoint import checkpoint

    module = WithResult()

    def body(x: Tensor, *rest: Any) -> Tensor:
        return checkpoint(module, x, *rest, use_reentrant=False)

    compiled = torch.compile(body, backend="aot_eager", fullgraph=True)
    compiled(*call(40)).sum().backward()
    with pytest.raises(ContractError, match=r"cu_seqlens\[-1\] is 39"):
        compiled(*call(40, "end"))

    x, *rest = call(40)
    gradient = torch.func.grad(lambda x: module(x, *rest).sum())
    assert gradient(x).shape == x.shape
    bad = call(40, "end")
    with pytest.raises(ContractError, match=r"cu_seqlens\[-1\] is 39"):
        torch.func.grad(lambda x: module(x, *bad[1:]).sum())(bad[0])


def test_device_level_asserts_without_a_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no accelerator here: the generated assertions run on the CPU, as if it were one."""
    monkeypatch.setattr("shapecheck._contract._decorator.accelerated", lambda value: value is not None)
    monkeypatch.setattr("shapecheck._contract._decorator.check_values", lambda *_: True)  # leave it to the device
    module = contracted(spec_with_result.__annotations__, level="device")
    source = module.forward.__contract__.source
    assert source.count("assert_on_device(") == 1
    assert "(cu_seqlens[-1].long() == S)" in source
    assert "tolist" not in source
    message = source.split("assert_on_device(conditions, '")[1].split("'")[0]
    assert len(message) < 250
    assert message.isascii()
    assert not set("\"'\\\n") & set(message)
    for backend in ("eager", "aot_eager"):
        torch._dynamo.reset()
        compiled = torch.compile(module(), backend=backend, fullgraph=True)
        compiled(*call(40))
        for fault in ("tag", "end"):
            with pytest.raises(RuntimeError, match="shapecheck: .*broken is one of token_tags: OneOf") as caught:
                compiled(*call(40, fault))
            assert not isinstance(caught.value, ContractError)


def test_non_strict_export_keeps_value_checks_and_refuses_bad_shapes() -> None:
    module = WithResult()
    program = torch.export.export(module, call(40), strict=False)
    assert any("check_values" in str(node.target) for node in program.graph.nodes)
    program.module()(*call(40))
    with pytest.raises(ContractError, match=r"token_tags\[3\] is 7"):
        program.module()(*call(40, "tag"))
    with pytest.raises(ContractError, match="token_tags axis 0"):
        torch.export.export(module, call(40, "length"), strict=False)


@contract
def tagged(x: Float[Tensor, "S"], tags: Annotated[Int[Tensor, "S"], OneOf(0, 1)]) -> Float[Tensor, "S"]:
    return x * tags


def whole(function: Any, backend: str = "eager") -> Any:
    return torch.compile(function, backend=backend, fullgraph=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_vmap(backend: str) -> None:
    x = torch.ones(3, 4)
    each = whole(torch.func.vmap(tagged), backend)
    assert torch.equal(each(x, torch.ones(3, 4, dtype=torch.long)), x)
    with pytest.raises(ContractError, match=r"tags axis 0 \(S\) is 5, expected 4"):
        each(x, torch.ones(3, 5, dtype=torch.long))
    shared = whole(torch.func.vmap(tagged, in_dims=(0, None)), backend)
    assert torch.equal(shared(x, torch.ones(4, dtype=torch.long)), x)
    with pytest.raises(ContractError, match=r"tags\[0\] is 9, expected one of \[0, 1\]"):
        shared(x, torch.full((4,), 9))
    with pytest.raises(ContractError, match=r"tags axis 0 \(S\) is 5, expected 4"):
        shared(x, torch.ones(5, dtype=torch.long))


@pytest.mark.parametrize("backend", BACKENDS)
def test_cond(backend: str) -> None:
    def either(x: Tensor, tags: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, tagged, lambda x, tags: tagged(-x, tags), (x, tags))

    compiled = whole(either, backend)
    for x in (torch.ones(4), -torch.ones(4)):
        assert torch.equal(compiled(x, torch.ones(4, dtype=torch.long)), torch.ones(4))
        with pytest.raises(ContractError, match=r"tags\[0\] is 9, expected one of \[0, 1\]"):
            compiled(x, torch.full((4,), 9))


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's: nested tensors are a prototype
def test_jagged_tensors_under_a_value_invariant() -> None:
    @contract
    def summed(x: Float[Tensor, "S"], tags: Annotated[Int[Tensor, "_ _"], OneOf(0, 1)]) -> Float[Tensor, "S"]:
        return x + tags.sum()

    tags = torch.nested.nested_tensor([torch.ones(2).long(), torch.ones(3).long()], layout=torch.jagged)
    assert whole(summed)(torch.zeros(3), tags).tolist() == [5] * 3


@contract
def hosted(
    x: Float[Tensor, "S"],
    host: Annotated[list[int], PrefixSum(end="S")],
    cu: Annotated[Int32[Tensor, "B+1"], PrefixSum(end="S"), SameAsHost("host")],
) -> Float[Tensor, "S"]:
    return x * 2


@pytest.mark.parametrize("backend", ["python", *BACKENDS])
def test_invariants_on_sequences_of_ints(backend: str) -> None:
    call = hosted if backend == "python" else whole(hosted, backend)
    x, cu = torch.ones(3), torch.tensor([0, 1, 3], dtype=torch.int32)
    for _ in range(2):
        call(x, [0, 1, 3], cu)
        with pytest.raises(ContractError, match=r"host\[0\] is 1, expected 0"):
            call(x, [1, 1, 3], cu)
        with pytest.raises(ContractError, match=r"host\[-1\] is 2, expected 3 \(S\)"):
            call(x, [0, 1, 2], cu)
        with pytest.raises(ContractError, match=r"cu\[1\] is 1, expected 2 as in its host copy host"):
            call(x, [0, 2, 3], cu)
        with pytest.raises(ContractError, match="cu has 3 entries, expected 2 as its host copy host has"):
            call(x, [0, 3], cu)


@pytest.mark.parametrize("backend", ["python", "eager"])
def test_symbols_that_only_an_optional_argument_binds(backend: str) -> None:
    @contract
    def aligned(y: Float[Tensor, "C"], x: Annotated[Float[Tensor, "S C"] | None, MultipleOf(64, of="S")] = None):
        return y * 2

    @contract
    def indexed(y: Float[Tensor, "C"], n: Annotated[int, InRange(0, "S")], x: Float[Tensor, "S C"] | None = None):
        return y * 2

    if backend != "python":
        aligned, indexed = whole(aligned), whole(indexed)
    y = torch.ones(2)
    aligned(y)
    aligned(y, torch.ones(64, 2))
    with pytest.raises(ContractError, match=r"x: S is 63, expected a multiple of 64"):
        aligned(y, torch.ones(63, 2))
    indexed(y, 99)
    indexed(y, 9, torch.ones(63, 2))
    with pytest.raises(ContractError, match=r"n is 99, expected 0 <= value < 63 \(S\)"):
        indexed(y, 99, torch.ones(63, 2))


@pytest.mark.parametrize("backend", ["python", "eager", "aot_eager"])
def test_a_decorator_below_that_passes_its_arguments_through(backend: str) -> None:
    def with_cache(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            seen.append((len(args), sorted(kwargs)))
            if kwargs.get("use_cache") is None:
                kwargs["use_cache"] = True
            return function(*args, **kwargs)

        return wrapper

    @contract
    @with_cache
    def forward(
        x: Float[Tensor, "S"], y: Float[Tensor, "S"] | None = None, use_cache: bool | None = None
    ) -> Float[Tensor, "S"]:
        return x * 2 if use_cache else x

    seen: list[Any] = []
    call = forward if backend == "python" else whole(forward, backend)
    x = torch.ones(2)
    assert call(x).tolist() == call(x, use_cache=None).tolist() == call(x=x).tolist() == [2, 2]
    assert call(x, use_cache=False).tolist() == call(x, y=x, use_cache=False).tolist() == [1, 1]
    if backend == "python":  # what the caller passed, as the caller passed it
        assert seen == [(1, []), (1, ["use_cache"]), (0, ["x"]), (1, ["use_cache"]), (1, ["use_cache", "y"])]
    with pytest.raises(ContractError, match=r"y axis 0 \(S\) is 3, expected 2"):
        call(x, y=torch.ones(3))


CACHED = """
from typing import Annotated
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch._dynamo.utils import counters
from shapecheck import ContractError, OneOf, contract

@contract
def tagged(x: Float[Tensor, "S"], tags: Annotated[Int[Tensor, "S"], OneOf(0, 1)]) -> Float[Tensor, "S"]:
    return x * 2

compiled = torch.compile(lambda x, tags: (tagged(x, tags), x * 3)[1], fullgraph=True)
compiled(torch.ones(4), torch.zeros(4, dtype=torch.long))
try:
    compiled(torch.ones(4), torch.full((4,), 9))
except ContractError:
    print("refused", counters["inductor"]["fxgraph_cache_hit"], counters["inductor"]["fxgraph_cache_bypass"])
"""


@pytest.mark.slow
def test_the_caches_of_inductor_keep_the_check(tmp_path: Any) -> None:
    script = tmp_path / "cached.py"
    script.write_text(CACHED)
    environment = {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    seen = [
        subprocess.run(
            [sys.executable, "-P", str(script)], env=environment, capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(2)
    ]
    assert seen == [["refused", "0", "0"], ["refused", "1", "0"]]
