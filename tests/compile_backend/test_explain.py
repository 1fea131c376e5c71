import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

import shapecheck

LENGTHS = (5, 0, 7)
ROWS, HEADS, CHANNELS = sum(LENGTHS), 2, 8


def attention(q, boundaries):
    ids = torch.searchsorted(boundaries, torch.arange(q.shape[2]), right=True)
    return scaled_dot_product_attention(q * 1.0, q, q, attn_mask=ids[:, None] == ids[None, :])


def inputs(*, requires_grad=False):
    boundaries = torch.tensor([0, *LENGTHS]).cumsum(0)
    return torch.randn(1, HEADS, ROWS, CHANNELS, requires_grad=requires_grad), boundaries


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(CHANNELS, CHANNELS)

    def forward(self, q, boundaries):
        return attention(self.proj(q), boundaries).contiguous()  # as q is: other strides would be another graph


class Model(nn.Module):
    def __init__(self, *, breaks=False):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.breaks = breaks
        self.calls = 0

    def forward(self, q, boundaries):
        self.calls += 1
        q = self.blocks[0](q, boundaries)
        if self.breaks:
            torch._dynamo.graph_break()
        q = self.blocks[1](q, boundaries)
        q = self.blocks[2](q, boundaries)
        return scaled_dot_product_attention(q, q, q)


def lowered(explanation):
    return [one.site.lowered for one in explanation.sites]


def seen(site):
    (boundaries,) = site.boundaries
    lengths = [boundaries.cu_seqlens_q[i + 1] - boundaries.cu_seqlens_q[i] for i in boundaries.segments]
    return lengths, boundaries.pairs


def test_the_attentions_of_a_model():
    model = Model()
    explanation = shapecheck.explain(model, *inputs())
    assert lowered(explanation) == [True, True, True, False]
    assert explanation.reports[0].sites == [one.site for one in explanation.sites]
    assert (len(explanation.reports), explanation.breaks, explanation.skipped) == (1, (), 0)
    for one in explanation.lowered:
        assert seen(one) == ([5, 7], 5**2 + 7**2)
    assert explanation.sites[3].observed == ()
    assert explanation.sites[3].site.reason
    assert model.calls == 1


def test_keyword_arguments():
    q, boundaries = inputs()
    assert lowered(shapecheck.explain(attention, q, boundaries=boundaries)) == [True]


def test_graph_breaks_are_told_with_place_and_reason():
    with torch.no_grad():
        explanation = shapecheck.explain(Model(breaks=True), *inputs())
    assert lowered(explanation) == [True, True, True, False]
    assert [one.graph for one in explanation.sites] == [1, 2, 2, 2]
    (found,) = explanation.breaks
    assert "graph_break" in found.reason
    assert found.location.partition(":")[0] == __file__


def test_a_function_that_is_not_captured_is_counted():
    def loop(q, boundaries):
        for _ in range(2):
            q = attention(q, boundaries)
            torch._dynamo.graph_break()
        return q

    explanation = shapecheck.explain(loop, *inputs())
    assert explanation.skipped == 1
    assert "1 function not captured" in str(explanation)


@pytest.mark.parametrize("how", ["module", "in place", "function"])
def test_what_is_compiled_already_is_captured_anew(how):
    counter = CompileCounter()
    q, boundaries = inputs()
    fn = attention
    if how == "function":
        fn = torch.compile(attention, backend=counter)
    else:
        fn = Model()
        if how == "in place":
            fn.compile(backend=counter)
        else:
            fn = torch.compile(fn, backend=counter)
    fn(q, boundaries)
    assert counter.frame_count == 1
    explanation = shapecheck.explain(fn, q, boundaries)
    assert lowered(explanation)[0]
    assert counter.frame_count == 1
    fn(q, boundaries)
    assert counter.frame_count == 2  # compiles with its own backend again


def test_blocks_that_are_compiled_one_by_one():
    model = Model()
    for block in model.blocks:
        block.compile(backend="eager")
    with torch.no_grad():
        explanation = shapecheck.explain(model, *inputs())
    # One graph for all three, and the attention outside of them was never captured.
    assert len(explanation.reports) == 1
    (site,) = explanation.sites
    assert len(site.observed) == 3
    dense, flops = explanation.saved_flops()
    assert dense == 3 * site.work.flops_dense
    assert flops == 3 * site.work.flops


def test_a_checkpoint_body():
    def wrapped(q, boundaries):
        return checkpoint(attention, q, boundaries, use_reentrant=False).sum()

    explanation = shapecheck.explain(wrapped, *inputs(requires_grad=True))
    assert seen(explanation.sites[0]) == ([5, 7], 74)


# Dynamo looks at `.grad` of whatever a resumed function gets.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_the_call_runs_in_the_mode_of_the_caller():
    modes = []

    def fn(q, boundaries):
        q = attention(q, boundaries)
        torch._dynamo.graph_break()
        modes.append((torch.is_grad_enabled(), q.requires_grad))
        return q

    shapecheck.explain(fn, *inputs(requires_grad=True))
    with torch.no_grad():
        shapecheck.explain(fn, *inputs(requires_grad=True))
    assert modes == [(True, True), (False, False)]


def test_results_are_those_of_the_function():
    results = []

    def fn(q, boundaries):
        out = attention(q, boundaries)
        torch._dynamo.graph_break()
        results.append(out)
        return out

    arguments = inputs()
    shapecheck.explain(fn, *arguments)
    torch.testing.assert_close(results[0], attention(*arguments))


def test_what_the_call_raises_is_raised():
    def fn(q, boundaries):
        raise KeyError("batch")

    with pytest.raises(KeyError, match="batch"):
        shapecheck.explain(fn, *inputs())


def test_explaining_uses_up_no_recompiles():
    q, boundaries = inputs()
    for _ in range(torch._dynamo.config.recompile_limit + 1):
        assert lowered(shapecheck.explain(attention, q, boundaries)) == [True]
    counter = CompileCounter()
    torch.compile(attention, backend=counter, fullgraph=True)(q, boundaries)
    assert counter.frame_count == 1
