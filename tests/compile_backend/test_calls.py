"""Calls that are varlen already: found by their schemas, never rewritten, their boundaries proved or checked."""

from typing import Annotated

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float, Int
from shapecheck.compile_backend import rewrite
from shapecheck.compile_backend.calls_facts import Reader
from shapecheck.compile_backend.calls_operators import operator_of
from shapecheck.compile_backend.normalize import Normalized
from shapecheck.compile_backend.reading import Memory
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention.varlen import varlen_attn
from torch.nn.functional import pad
from torch.nn.functional import scaled_dot_product_attention as sdpa
from torch.utils.checkpoint import checkpoint

import shapecheck

from .varlen_operators import flash, fusion, fusion_v3, others

own = torch.ops.shapecheck.varlen_attention


def attend(q, cu_q, cu_k, max_q=8, max_k=8):
    return own(q, q, q, cu_q, cu_k, max_q, max_k, False, -1, -1, None, True)[0]


def report_of(function, *inputs, dynamic=False, run=True, **options):
    """The report of the one graph of a call, and the graph as it was left."""
    kept = []

    def backend(gm, example_inputs):
        gm, report = rewrite(gm)
        kept.append((report, gm))
        return gm.forward if run else lambda *_: (torch.zeros(1),)

    torch._dynamo.reset()
    torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=True, **options)(*inputs)
    (found,) = kept
    assert not found[0].failure
    return found


def statuses(site):
    return {one.name: one.status for one in site.obligations}


def status(site, words):
    (found,) = [one for one in site.obligations if words in one.name]
    return found.status


def names(gm):
    return [str(node.target) for node in gm.graph.nodes]


Q = torch.randn(8, 2, 4)
CU = torch.tensor([0, 3, 8])
LENS = torch.tensor([3, 5])


# Which operators ----------------------------------------------------------------------------------------------------


def test_operators_are_known_from_the_catalogue():
    torch_own = operator_of(torch.ops.torch_attn._varlen_attn.default)
    assert torch_own.name == "torch_attn::_varlen_attn"
    assert dict(torch_own.roles) == {
        "query": "q",
        "key": "k",
        "value": "v",
        "cu_seq_q": "bounds_q",
        "cu_seq_k": "bounds_k",
        "max_q": "max_q",
        "max_k": "max_k",
        "seqused_k": "lens_k",
    }
    assert torch_own.dtypes == (torch.int32,)
    assert operator_of(flash.default).dtypes == (torch.int32,)
    assert operator_of(own.default).dtypes == (torch.int32, torch.int64)
    found = operator_of(fusion_v3.default)
    assert {"ends_q", "ends_k"} <= set(found.roles.values())


def test_what_takes_queries_keys_values_and_boundaries_by_their_names_is_one_too():
    found = operator_of(others.home_made.default)
    assert found.roles["cu_seqlens_kv"] == "bounds_k"
    assert found.dtypes is None


@pytest.mark.parametrize(
    "other",
    [
        torch.ops.aten.scaled_dot_product_attention.default,
        torch.ops.flash_attn._flash_attn_varlen_backward.default,
        others.rows_of.default,
        torch.ops.shapecheck.check_values.default,
        torch.add,
    ],
)
def test_others_are_none(other):
    assert operator_of(other) is None


# Facts --------------------------------------------------------------------------------------------------------------


def by_pad(q, lens):
    return pad(lens.cumsum(0), (1, 0))


def by_cat(q, lens):
    return torch.cat([lens.new_zeros(1), lens.cumsum(0)])


def by_cat_of_clamped(q, lens):
    return torch.cat([torch.zeros(1, dtype=torch.int64), lens.clamp(min=0).cumsum(0)])


def equal_lengths(q, lens):
    return torch.arange(0, q.shape[0] + 1, q.shape[0] // 2)


def of_literals(q, lens):
    return torch.tensor([0, 3, 8])


def of_mask(q, lens):
    return pad((q[:, :, 0] > 0).sum(0).cumsum(0), (1, 0))


def of_tags(q, lens):
    tags = (q[:, 0, 0] > 0).cumsum(0)
    return torch.searchsorted(tags, torch.arange(3))  # shapecheck: ignore[VL208]


def given_in(q, lens):
    return lens


KNOWN = [  # starts at 0, never decreases, ends within the rows
    (by_pad, "proved", "checked", "checked"),
    (by_cat, "proved", "checked", "checked"),
    (by_cat_of_clamped, "proved", "proved", "checked"),
    (equal_lengths, "proved", "proved", "guarded"),
    (of_mask, "proved", "proved", "checked"),
    (of_tags, "checked", "proved", "guarded"),
    (given_in, "checked", "checked", "checked"),
]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("made", "starts", "ordered", "ends"), KNOWN, ids=lambda one: getattr(one, "__name__", None))
def test_facts_about_boundaries(made, starts, ordered, ends, dynamic):
    def f(q, given):
        cu = made(q, given)
        return own(q, q, q, cu, cu, q.shape[0], q.shape[0], False, -1, -1, None, True)[0]

    report, gm = report_of(f, Q, CU if made is given_in else LENS, dynamic=dynamic, run=made is not of_mask)
    (site,) = report.sites
    assert (site.form, site.lowered, site.reason) == ("shapecheck::varlen_attention", False, "varlen already")
    longest = "proved" if "constants" in site.mask else "guarded"
    assert statuses(site) == {
        "dtype of cu_seqlens_q": "guarded",
        "dtype of cu_seqlens_k": "guarded",
        "queries and keys of one batch": "proved",
        "max_seqlen_q covers the longest segment": longest,
        "max_seqlen_k covers the longest segment": longest,
        "cu_seqlens_q, cu_seqlens_k start at 0": starts,
        "cu_seqlens_q, cu_seqlens_k never decrease": ordered,
        "cu_seqlens_q, cu_seqlens_k end within the rows": ends,
    }
    checks = [name for name in names(gm) if "check_values" in name]
    assert len(checks) == ("checked" in (starts, ordered, ends))


def test_constants_are_read():
    report, _ = report_of(lambda q: attend(q, of_literals(q, None), of_literals(q, None), 5, 6), Q)
    (site,) = report.sites
    assert "[0, 3, 8]" in site.mask
    assert {one.status for one in site.obligations} == {"proved", "guarded"}


@pytest.mark.parametrize(
    ("longest", "expected"),
    [
        (lambda cu, lens: int((cu[1:] - cu[:-1]).max()), "proved"),
        (lambda cu, lens: int(cu.diff().max()), "proved"),
        (lambda cu, lens: int(lens.max()), "proved"),
        (lambda cu, lens: int((cu[1:] - cu[:-1]).min()), "refused"),
        (lambda cu, lens: int((lens - 1).max()), "refused"),
        (lambda cu, lens: 5, "refused"),
    ],
)
def test_the_longest_segment(longest, expected):
    def f(q, lens):
        cu = pad(lens.cumsum(0), (1, 0))
        return attend(q, cu, cu, longest(cu, lens), q.shape[0])

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        report, _ = report_of(f, Q, LENS)
    (site,) = report.sites
    assert status(site, "max_seqlen_q") == expected
    assert status(site, "max_seqlen_k") == "guarded"


STEPS = {
    "pad": lambda x, n: pad(x, (1, 0)),
    "pad with n": lambda x, n: pad(x, (1, 0), value=n),
    "cumsum": lambda x, n: x.cumsum(0),
    "int32": lambda x, n: x.int(),
    "behind n": lambda x, n: torch.cat([torch.tensor([n]), x]),
    "behind 0": lambda x, n: torch.cat([x.new_zeros(1), x]),
    "cut": lambda x, n: x[1:],
    "cut the end": lambda x, n: x[:-1],
    "every other": lambda x, n: x[::2],
    "times n": lambda x, n: x * n,
    "diff": lambda x, n: x.diff(),
    "steps": lambda x, n: x[1:] - x[:-1],
    "clamp": lambda x, n: x.clamp(min=n),
    "plus n": lambda x, n: x + n,
    "minus itself": lambda x, n: x - x,
    "written": lambda x, n: x.clone().fill_(n),
    "flip": lambda x, n: x.flip(0),
    "search": lambda x, n: torch.searchsorted(x.contiguous(), torch.arange(4)),
    "bool": lambda x, n: (x > n).long(),
    "sum": lambda x, n: x[None].expand(2, -1).sum(0),
    "range": lambda x, n: torch.arange(0, x.shape[0] * 3, 3),
    "range by n": lambda x, n: torch.arange(1, x.shape[0] * 2, abs(n) + 1),
}


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(-2, 3)), min_size=1, max_size=5),
    start=st.lists(st.integers(-3, 6), min_size=4, max_size=6),
    symbolic=st.booleans(),
)
def test_what_is_known_is_true(steps, start, symbolic):
    def f(x):
        for name, number in steps:
            x = STEPS[name](x, number)
        return x * 1

    start = torch.tensor(start)
    traced = make_fx(f, tracing_mode="symbolic" if symbolic else "fake", pre_dispatch=True)(start)
    normalized = Normalized(traced.graph)
    output = next(node for node in traced.graph.nodes if node.op == "output")
    known = Reader(normalized, Memory(normalized)).known(output.args[0].args[0], output)
    values = f(start).tolist()
    if known.values is not None:
        assert list(known.values) == values
    if values:
        assert known.first in (None, values[0])
        assert known.least is None or known.least <= min(values)
        if known.ordered:
            assert values == sorted(values)
            if known.last is not None:
                symbols = {one: len(start) for one in known.last.free_symbols}
                assert values[-1] <= known.last.subs(symbols)


# Checks at run time -------------------------------------------------------------------------------------------------


def test_a_contract_in_the_graph_checks_them():
    report, gm = report_of(lambda q, cu: shapecheck.varlen_attention(q, q, q, cu, cu, 8, 8), Q, CU)
    (site,) = report.sites
    held = [one for one in site.obligations if one.status == "checked"]
    assert len(held) == 3
    assert {one.detail for one in held} == {"at run time by the contract of varlen_attention"}
    assert __file__ in site.location
    assert sum("check_values" in name for name in names(gm)) == 1  # the contract's own


def test_a_block_compiled_alone_is_covered_by_its_contract():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        @shapecheck.contract
        def forward(
            self,
            x: Float[Tensor, "T H D"],
            cu: Annotated[Int[Tensor, "B+1"], shapecheck.PrefixSum(end="T", tail="allow")],
        ):
            x = self.inner(x)
            return flash(x, x, x, cu, cu, x.shape[0], x.shape[0])

    report, gm = report_of(Block(), Q, CU.int())
    (site,) = report.sites
    held = [one for one in site.obligations if one.status == "checked"]
    assert len(held) == 3
    assert all(one.detail.startswith("at run time by the contract of") and "Block" in one.detail for one in held)
    assert "at run time by the contract of" in str(shapecheck.explain(Block(), Q, CU.int()))
    assert sum("check_values" in name for name in names(gm)) == 1


def test_a_contract_that_leaves_the_end_open_leaves_it_to_us():
    @shapecheck.contract
    def f(q: Float[Tensor, "T H D"], cu: Annotated[Int[Tensor, "B+1"], shapecheck.PrefixSum()]):
        return attend(q, cu, cu)

    report, gm = report_of(f, Q, CU)
    (site,) = report.sites
    details = {one.name.rpartition("cu_seqlens_k ")[2]: one.detail for one in site.obligations}
    assert "contract of" in details["start at 0"]
    assert "contract of" in details["never decrease"]
    assert "put in here" in details["end within the rows"]
    assert sum("check_values" in name for name in names(gm)) == 2


def test_one_check_for_all_layers():
    def f(q, cu):
        for _ in range(3):
            q = attend(q, cu, cu)
        return q

    report, gm = report_of(f, Q, CU)
    assert len(report.sites) == 3
    assert sum("check_values" in name for name in names(gm)) == 1


def test_boundaries_that_are_overwritten_are_checked_where_they_are_read():
    def f(q, cu):
        cu = cu.clone()
        out = attend(q, cu, cu)
        cu[1] = 5
        return out + attend(q, cu, cu)

    _, gm = report_of(f, Q, CU)
    order = [name for name in names(gm) if "check_values" in name or "varlen" in name or "setitem" in name]
    assert ["check_values" in name for name in order] == [True, False, False, True, False]


BAD = {"[0] is 1": [1, 3, 8], "[2] is 2": [0, 3, 2], "[-1] is 9": [0, 3, 9]}


@pytest.mark.parametrize(
    ("inner", "problem", "values"),
    [
        *((inner, *one) for inner in ("eager", "aot_eager") for one in BAD.items()),
        pytest.param("inductor", "[0] is 1", [1, 3, 8], marks=pytest.mark.slow),
    ],
)
def test_bad_values_raise_at_run_time(problem, values, inner):
    def f(q, cu):
        return flash(q, q, q, cu, cu, 8, 8)

    torch._dynamo.reset()
    compiled = torch.compile(f, backend="shapecheck", options={"inner": inner}, fullgraph=True)
    torch.testing.assert_close(compiled(Q, CU.int()), f(Q, CU.int()))
    with pytest.raises(shapecheck.ContractError) as caught:
        compiled(Q, torch.tensor(values, dtype=torch.int32))
    message = str(caught.value)
    assert message.startswith(f"flash_attn::_flash_attn_varlen_forward at {__file__}:")
    assert f"cu_seqlens_q{problem}" in message
    assert caught.value.argument == "cu_seqlens_q"


def test_in_training_and_in_a_checkpoint():
    def layer(q, cu):
        return attend(q * 2, cu, cu)

    def f(q, cu):
        return checkpoint(layer, q, cu, use_reentrant=False)

    torch._dynamo.reset()
    compiled = torch.compile(f, backend="shapecheck", options={"inner": "aot_eager"}, fullgraph=True)
    q = Q.clone().requires_grad_()
    (grad,) = torch.autograd.grad(compiled(q, CU).sin().sum(), q)
    (expected,) = torch.autograd.grad(f(q, CU).sin().sum(), q)
    torch.testing.assert_close(grad, expected)
    with pytest.raises(shapecheck.ContractError, match=r"cu_seqlens_q\[-1\] is 9"):
        compiled(q, CU + torch.tensor([0, 0, 1]))


@pytest.mark.parametrize("level", ["off", "shape"])
def test_levels_below_host_leave_values_alone(level, monkeypatch):
    monkeypatch.setenv("SHAPECHECK", level)
    report, gm = report_of(lambda q, cu: attend(q, cu, cu), Q, CU)
    (site,) = report.sites
    assert status(site, "never decrease") == "refused"
    assert "SHAPECHECK=host checks them" in site.obligations[-1].detail
    assert not any("check_values" in name for name in names(gm))


@pytest.mark.parametrize("level", ["host", "device", "sync"])
def test_on_an_accelerator(level, monkeypatch):
    """Level host reads nothing there, device asserts there, sync copies."""
    monkeypatch.setenv("SHAPECHECK", level)
    with torch._subclasses.FakeTensorMode() as mode:
        q, cu = (
            torch.empty(*size, device="cuda", dtype=dtype) for size, dtype in (((8, 2, 4), None), ((3,), torch.int32))
        )
    graph = torch.fx.Graph()
    inputs = [graph.placeholder(name) for name in ("q", "cu")]
    out = graph.call_function(flash.default, (*inputs[:1] * 3, *inputs[1:] * 2, 8, 8))
    graph.output((out,))
    with mode:
        for node, held in zip((*inputs, out), (q, cu, q), strict=True):
            node.meta["example_value"] = held
    gm, report = rewrite(torch.fx.GraphModule({}, graph))
    assert not report.failure
    (site,) = report.sites
    assert status(site, "never decrease") == ("refused" if level == "host" else "checked")
    found = names(gm)
    assert any("_assert_async" in name for name in found) == (level == "device")
    assert any("check_values" in name for name in found) == (level == "sync")


# What is left alone -------------------------------------------------------------------------------------------------


def test_calls_are_never_rewritten_and_attentions_beside_them_are_lowered():
    def f(q, x, cu):
        tags = torch.searchsorted(cu, torch.arange(8), right=True)
        return attend(q, cu, cu), sdpa(x, x, x, attn_mask=tags[:, None] == tags)

    x = torch.randn(1, 2, 8, 4)
    report, _ = report_of(f, Q, x, CU)
    assert [(one.form, one.lowered) for one in report.sites] == [
        ("shapecheck::varlen_attention", False),
        ("sdpa", True),
    ]
    explained = shapecheck.explain(f, Q, x, CU)
    assert [one.boundaries[0].cu_seqlens_q for one in explained.sites] == [(0, 3, 8), (0, 0, 3, 8, 8)]
    assert "varlen already" in str(explained)


def test_a_graph_with_nothing_to_check_is_not_touched():
    def f(q):
        cu = torch.tensor([0, 3, 8])
        return attend(q, cu, cu)

    kept = []

    def backend(gm, example_inputs):
        before = gm.code
        gm, report = rewrite(gm)
        kept.append(before == gm.code and len(report.sites) == 1)
        return gm.forward

    torch.compile(f, backend=backend, fullgraph=True)(Q)
    assert kept == [True]


def test_torch_varlen_attn_on_a_graph():
    def f(q, lens):
        cu = pad(lens.cumsum(0, dtype=torch.int32), (1, 0))
        return varlen_attn(q, q, q, cu, cu, 8, 8, window_size=(-1, 0))

    report, _ = report_of(f, Q, LENS, run=False)
    (site,) = report.sites
    assert (site.form, site.causal, site.window) == ("torch_attn::_varlen_attn", True, (-1, -1))
    assert site.mask == "boundaries: cumsum of input lens behind a 0"
    assert status(site, "start at 0") == "proved"


@pytest.mark.parametrize("tensors", [False, True])
def test_ends_as_ascend_wants_them(tensors):
    def f(q):
        op = fusion_v3 if tensors else fusion
        ends = torch.tensor([3, 8]) if tensors else [3, 8]
        return op(q, q, q, 2, "TND", actual_seq_qlen=ends, actual_seq_kvlen=ends)

    report, _ = report_of(f, Q)
    (site,) = report.sites
    assert not report.contradictions
    assert not any("start at 0" in one.name for one in site.obligations)
    ends = [one.status for one in site.obligations if "end within" in one.name]
    # The catalogue does not describe the third version: what it asks of its rows is not known.
    assert ends == (["refused"] if tensors else ["guarded", "guarded"])


def test_of_operators_that_are_not_described_nothing_is_asked():
    def f(q, cu):
        return others.home_made(q, q, q, cu, cu)

    report, gm = report_of(f, Q, CU)
    (site,) = report.sites
    assert {one.status for one in site.obligations} == {"proved", "refused"}
    assert all("unchecked" in one.detail for one in site.obligations if one.status == "refused")
    assert not any("check_values" in name for name in names(gm))


def test_a_fault_in_the_analysis_costs_nothing(monkeypatch):
    def f(q, x, cu):
        tags = torch.searchsorted(cu, torch.arange(8), right=True)
        return attend(q, cu, cu), sdpa(x, x, x, attn_mask=tags[:, None] == tags)

    monkeypatch.setattr("shapecheck.compile_backend.calls.site_of", lambda *_: 1 / 0)
    report, _ = report_of(f, Q, torch.randn(1, 2, 8, 4), CU)
    assert [one.form for one in report.sites] == ["sdpa"]
    assert report.sites[0].lowered


def test_another_layout_has_no_boundaries():
    def f(q):
        op = fusion
        return op(q, q, q, 2, "BSH", actual_seq_qlen=[9], actual_seq_kvlen=[9])

    report, _ = report_of(f, Q)
    assert report.sites == []


def test_keys_in_pages_are_not_counted():
    def f(q, k, cu, table):
        return flash(q, k, k, cu, cu[1:], 8, 8, block_table=table)

    report, _ = report_of(f, Q, Q[:2], CU.int(), torch.zeros(2, 2, dtype=torch.int32))
    (site,) = report.sites
    assert not report.contradictions
    assert not any("cu_seqlens_k" in one.name for one in site.obligations)


def test_no_graph_more_than_stock():
    from torch._dynamo.testing import CompileCounterWithBackend

    def f(q, cu):
        return flash(q, q, q, cu, cu, q.shape[0], q.shape[0])

    batches = [(3, 5), (4, 4, 9), (7,), (1, 2, 3, 4), (2, 30)]
    counts = []
    for ours in (False, True):
        torch._dynamo.reset()
        counter = CompileCounterWithBackend("eager")
        compiled = (
            torch.compile(f, backend="shapecheck", options={"inner": counter})
            if ours
            else torch.compile(f, backend=counter)
        )
        for lengths in batches:
            cu = torch.tensor([0, *lengths]).cumsum(0, dtype=torch.int32)
            compiled(torch.randn(int(cu[-1]), 2, 4), cu)
        counts.append(counter.frame_count)
    assert counts[0] == counts[1]
