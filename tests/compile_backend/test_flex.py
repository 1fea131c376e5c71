"""FlexAttention: lowered where its mask_mod groups rows and its blocks are made from it; else left, with the reason."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from shapecheck.compile_backend import rewrite
from shapecheck.compile_backend.flex import read
from shapecheck.compile_backend.report import Site
from shapecheck.compile_backend.vmap import Maps
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    and_masks,
    create_block_mask,
    flex_attention,
)
from torch.nn.functional import scaled_dot_product_attention as sdpa
from torch.utils.checkpoint import checkpoint

from .programs.judge import Inner

# Dynamo itself makes one, whenever it captures a mask_mod.
pytestmark = pytest.mark.filterwarnings("ignore:.* should not be instantiated:DeprecationWarning")

LENGTH = 200  # no multiple of the 128 rows of a block
SAMPLES, HEADS, CHANNELS = 2, 4, 8

Attention = Callable[..., Tensor]
MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def batch(length: int = LENGTH, *, training: bool = False) -> tuple[Tensor, ...]:
    """q, k, v [2, 4, S, 8], and document ids [2, S]: documents of 60 rows in the first sample, of 45 in the second."""
    generator = torch.Generator().manual_seed(length)
    shape = (SAMPLES, HEADS, length, CHANNELS)
    q, k, v = (torch.randn(shape, generator=generator).requires_grad_(training) for _ in range(3))
    rows = torch.arange(length)
    return q, k, v, torch.stack([rows // 60, rows // 45])


def block_mask(q: Tensor, k: Tensor, mask_mod: MaskMod, b: int | None = None, h: int | None = None, **rest: Any) -> Any:
    return create_block_mask(mask_mod, b, h, q.shape[2], k.shape[2], device=str(q.device), **rest)


def documents(ids: Tensor) -> MaskMod:
    """Of ids [S]."""

    def same(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return ids[i] == ids[j]

    return same


def documents_of(ids: Tensor) -> MaskMod:
    """Of ids [B, S]."""

    def same(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return ids[b, i] == ids[b, j]

    return same


def causal(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return i >= j


def equal(ids: Tensor) -> Tensor:
    """[B, 1, S, S]: rows with the same id."""
    return ids[:, None, :, None] == ids[:, None, None, :]


def distance(ids: Tensor) -> Tensor:
    """[S, S]: how many rows the key is before the query."""
    rows = torch.arange(ids.shape[-1])
    return rows[:, None] - rows


# What is lowered: FlexAttention, and the same with SDPA.


def plain(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    return flex_attention(q, k, v, block_mask=block_mask(q, k, documents(ids[0])))


def plain_expected(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    return sdpa(q, k, v, attn_mask=equal(ids[:1]))


def by_sample(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    mask = block_mask(q, k, and_masks(documents_of(ids), causal), q.shape[0])
    return flex_attention(q, k, v, block_mask=mask)


def by_sample_expected(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    return sdpa(q, k, v, attn_mask=equal(ids) & (distance(ids) >= 0))


def grouped_window(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    tags = ids[0]

    def near(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (i >= j) & (i - j <= 30) & (tags[i] == tags[j])

    mask = block_mask(q, k, near)
    return flex_attention(q, k[:, :2], v[:, :2], block_mask=mask, scale=0.2, enable_gqa=True)


def grouped_window_expected(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    mask = equal(ids[:1]) & (distance(ids) >= 0) & (distance(ids) <= 30)
    return sdpa(q, k[:, :2], v[:, :2], attn_mask=mask, scale=0.2, enable_gqa=True)


def padded(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    real = ids != 2

    def seen(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return real[b, j] & (ids[b, i] == ids[b, j])

    return flex_attention(q, k, v, block_mask=block_mask(q, k, seen, q.shape[0]))


def padded_expected(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    return sdpa(q, k, v, attn_mask=equal(ids) & (ids != 2)[:, None, None, :])


def small_blocks(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    mask = block_mask(q, k, documents(ids[0]), BLOCK_SIZE=(64, 32))
    return flex_attention(q, k, v, lambda score, b, h, i, j: score, block_mask=mask)


def no_full_blocks(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    return flex_attention(q, k, v, block_mask=block_mask(q, k, documents(ids[0]), separate_full_blocks=False))


def causal_in_documents(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    """Rows are compared by their numbers inside their documents."""
    tags = ids[0]
    counts = torch.zeros(q.shape[2], dtype=torch.int64).index_add(0, tags, torch.ones_like(tags))
    starts = counts.cumsum(0) - counts

    def seen(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (tags[i] == tags[j]) & causal(b, h, i - starts[tags[i]], j - starts[tags[j]])

    return flex_attention(q, k, v, block_mask=block_mask(q, k, seen))


def causal_in_documents_expected(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    return by_sample_expected(q, k, v, ids[:1])


def checkpointed(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    mask = block_mask(q, k, documents(ids[0]))

    def layer(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return flex_attention(q, k, v, block_mask=mask)

    out: Tensor = checkpoint(layer, q, k, v, use_reentrant=False)
    return out


compiled_before = torch.compile(flex_attention)


def compiled_inside(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    out: Tensor = compiled_before(q, k, v, block_mask=block_mask(q, k, documents(ids[0])))
    return out


def case(function: Attention, expected: Attention, *, dynamic: bool, training: bool, slow: bool = False) -> Any:
    mode = f"{'dynamic' if dynamic else 'static'}-{'training' if training else 'inference'}"
    marks = (pytest.mark.slow,) if slow else ()
    return pytest.param(function, expected, dynamic, training, id=f"{function.__name__}-{mode}", marks=marks)


def compile_ours(function: Attention, *, dynamic: bool = False, inner: str = "aot_eager") -> tuple[Attention, Inner]:
    torch.compiler.reset()
    counter = Inner(inner)
    return torch.compile(function, backend="shapecheck", dynamic=dynamic, options={"inner": counter}), counter


@pytest.mark.parametrize(
    ("function", "expected", "dynamic", "training"),
    [
        case(plain, plain_expected, dynamic=False, training=False),
        case(by_sample, by_sample_expected, dynamic=True, training=True),
        case(by_sample, by_sample_expected, dynamic=False, training=True, slow=True),
        case(grouped_window, grouped_window_expected, dynamic=False, training=True),
        case(grouped_window, grouped_window_expected, dynamic=True, training=False, slow=True),
        case(padded, padded_expected, dynamic=True, training=False, slow=True),
        case(padded, padded_expected, dynamic=False, training=True, slow=True),
        case(small_blocks, plain_expected, dynamic=True, training=False, slow=True),
        case(no_full_blocks, plain_expected, dynamic=False, training=False, slow=True),
        case(causal_in_documents, causal_in_documents_expected, dynamic=True, training=True),
        case(checkpointed, plain_expected, dynamic=False, training=True, slow=True),
        case(compiled_inside, plain_expected, dynamic=False, training=True, slow=True),
    ],
)
def test_lowered_to_what_sdpa_gives(function: Attention, expected: Attention, dynamic: bool, training: bool) -> None:
    compiled, inner = compile_ours(function, dynamic=dynamic)
    for length in (LENGTH, 130) if dynamic else (LENGTH,):
        arguments = batch(length, training=training)
        out, wanted = compiled(*arguments), expected(*arguments)
        torch.testing.assert_close(out, wanted, atol=2e-5, rtol=2e-5)
        if training:
            found, right = (torch.autograd.grad(one.sin().sum(), arguments[:3]) for one in (out, wanted))
            torch.testing.assert_close(found, right, atol=1e-4, rtol=1e-4)
    assert inner.lowered == inner.graphs == 1


@pytest.mark.slow
def test_inductor_trains_on_cpu() -> None:
    compiled, inner = compile_ours(by_sample, inner="inductor")
    arguments = batch(training=True)
    out, wanted = compiled(*arguments), by_sample_expected(*arguments)
    torch.testing.assert_close(out, wanted, atol=2e-5, rtol=2e-5)
    found, right = (torch.autograd.grad(one.sin().sum(), arguments[:3]) for one in (out, wanted))
    torch.testing.assert_close(found, right, atol=1e-4, rtol=1e-4)
    assert inner.lowered == 1


def test_any_ids_of_any_length() -> None:
    compiled, inner = compile_ours(by_sample, dynamic=True, inner="eager")

    @settings(max_examples=15, deadline=None, database=None)
    @given(st.integers(129, 300), st.integers(1, 9), st.booleans(), st.integers(0, 2**32 - 1))
    def check(length: int, documents: int, sort: bool, seed: int) -> None:
        q, k, v, _ = batch(length)
        ids = torch.randint(-documents, documents, (SAMPLES, length), generator=torch.Generator().manual_seed(seed))
        ids = ids.sort(dim=-1).values if sort else ids
        wanted = by_sample_expected(q, k, v, ids)
        torch.testing.assert_close(compiled(q, k, v, ids), wanted, atol=2e-5, rtol=2e-5)

    check()
    assert inner.lowered == inner.graphs == 1


# What is left alone.


def reports(function: Attention, arguments: tuple[Tensor, ...]) -> tuple[Tensor, list[Site]]:
    """The result of the rewritten graph, run as it is, and what became of its attentions."""
    sites: list[Site] = []

    def backend(module: fx.GraphModule, _: list[Any]) -> Any:
        module, report = rewrite(module)
        assert not report.failure
        sites.extend(report.sites)
        return module.forward

    torch.compiler.reset()
    torch.manual_seed(3)
    return torch.compile(function, backend=backend, fullgraph=True)(*arguments), sites


def alibi(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    mask = block_mask(q, k, documents(ids[0]))
    return flex_attention(q, k, v, lambda score, b, h, i, j: score + (j - i), block_mask=mask)


def by_head(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    tags = ids[0]

    def seen(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (tags[i] == tags[j]) | (h == 0)

    return flex_attention(q, k, v, block_mask=block_mask(q, k, seen, None, q.shape[1]))


def by_data(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    allowed = torch.rand(q.shape[2], k.shape[2]) > 0.5

    def seen(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return allowed[i, j]

    return flex_attention(q, k, v, block_mask=block_mask(q, k, seen))


def prefix(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    def seen(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (i >= j) | (j < 50)

    return flex_attention(q, k, v, block_mask=block_mask(q, k, seen))


def no_mask(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    return flex_attention(q, k, v)


def missing_blocks(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    counts = torch.ones(1, 1, 2, dtype=torch.int32)
    indices = torch.tensor([[[[0, 1], [1, 0]]]], dtype=torch.int32)
    mask = BlockMask.from_kv_blocks(
        counts, indices, mask_mod=documents(ids[0]), BLOCK_SIZE=128, seq_lengths=(q.shape[2], k.shape[2])
    )
    return flex_attention(q, k, v, block_mask=mask)


def full_blocks_dropped(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    mask = block_mask(q, k, documents(ids[0] // 10))
    mask = BlockMask.from_kv_blocks(
        mask.kv_num_blocks,
        mask.kv_indices,
        mask_mod=documents(ids[0] // 10),
        BLOCK_SIZE=128,
        seq_lengths=(q.shape[2], k.shape[2]),
    )
    return flex_attention(q, k, v, block_mask=mask)


def blocks_of_another_mask(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    mask = block_mask(q, k, and_masks(documents(ids[0]), causal))
    mask.mask_mod = documents(ids[0])
    return flex_attention(q, k, v, block_mask=mask)


def blocks_of_the_first_sample(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    return flex_attention(q, k, v, block_mask=block_mask(q, k, documents_of(ids)))


def blocks_overwritten(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    mask = block_mask(q, k, documents(ids[0]))
    mask.kv_num_blocks.zero_()
    return flex_attention(q, k, v, block_mask=mask)


def ids_overwritten(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    held = ids[0].clone()
    mask = block_mask(q, k, documents(held))
    held.copy_(ids[1])
    return flex_attention(q, k, v, block_mask=mask)


def log_sum_exp(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    mask = block_mask(q, k, documents(ids[0]))
    out, aux = flex_attention(q, k, v, block_mask=mask, return_aux=AuxRequest(lse=True))
    return out + aux.lse[..., None]


def shared_samples(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    mask = block_mask(q, k, documents(ids[0]), q.shape[0])
    return flex_attention(q, k[:1], v[:1], block_mask=mask)


def starts_of_other_documents(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    tags, starts, others = ids[0], ids[1], ids[0] * 2

    def seen(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (tags[i] == tags[j]) & (i - starts[tags[i]] >= j - others[tags[j]])

    return flex_attention(q, k, v, block_mask=block_mask(q, k, seen))


QUICK = {"alibi", "missing_blocks", "blocks_of_the_first_sample", "ids_overwritten"}


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize(
    ("function", "reason"),
    [
        pytest.param(one, reason, id=one.__name__, marks=() if one.__name__ in QUICK else (pytest.mark.slow,))
        for one, reason in (
            (alibi, "its score_mod changes the scores"),
            (by_head, "the mask differs between heads"),
            (by_data, "rand"),
            (prefix, "an alternative"),
            (no_mask, "the mask hides nothing"),
            (missing_blocks, "are not made by create_block_mask inside"),
            (full_blocks_dropped, "are not made by create_block_mask inside"),
            (blocks_of_another_mask, "made from another mask_mod"),
            (blocks_of_the_first_sample, "for one sample"),
            (blocks_overwritten, "its blocks"),
            (ids_overwritten, "made from another mask_mod"),
            (log_sum_exp, "log-sum-exp"),
            (shared_samples, "different numbers of samples"),
            (starts_of_other_documents, "no comparison of tags"),
        )
    ],
)
def test_left_alone(function: Attention, reason: str) -> None:
    arguments = batch()
    out, (site,) = reports(function, arguments)
    assert not site.lowered
    assert reason in site.reason
    assert site.location.startswith(__file__)
    torch.manual_seed(3)
    torch.testing.assert_close(out, function(*arguments))


def test_cuda_is_left_alone() -> None:
    graph = fx.Graph()
    score = graph.placeholder("score")
    graph.output(score)
    with FakeTensorMode():
        q = torch.empty(1, 2, 8, 8, device="cuda")
    blocks = (8, 8, None, None, None, None, 128, 128, None)
    call = (q, q, q, fx.GraphModule({}, graph), blocks, 1.0, {}, (), ())
    found = read(call, Maps(), lambda body, *arguments: None, lambda held: score)
    assert found is not None
    assert "on CUDA" in found.obstacle


def test_blocks_from_outside_are_left_alone() -> None:
    q, k, v, ids = batch()
    mask = block_mask(q, k, documents(ids[0]))

    def attend(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
        return flex_attention(q, k, v, block_mask=mask)

    _, (site,) = reports(attend, (q, k, v, ids))
    assert not site.lowered
    assert "call create_block_mask inside" in site.reason


def test_other_attentions_of_the_graph_are_lowered() -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
        return sdpa(alibi(q, k, v, ids), k, v, attn_mask=equal(ids))

    arguments = batch()
    out, (flex, other) = reports(attend, arguments)
    assert (flex.form, flex.lowered) == ("flex_attention", False)
    assert (other.form, other.lowered) == ("sdpa", True)
    q, k, v, ids = arguments
    bias = -distance(ids).float()
    scored = sdpa(q, k, v, attn_mask=bias.masked_fill(~equal(ids[:1]), float("-inf")))
    torch.testing.assert_close(out, sdpa(scored, k, v, attn_mask=equal(ids)), atol=2e-5, rtol=2e-5)


def test_what_is_left_raises_in_training_as_stock_does() -> None:
    compiled, inner = compile_ours(alibi)
    for _ in range(2):
        with pytest.raises(NotImplementedError, match="does not support backward on CPU") as raised:
            compiled(*batch(training=True))
        assert any("its score_mod changes the scores" in note for note in raised.value.__notes__)
    assert not inner.graphs


def test_other_backends_keep_the_check() -> None:
    compile_ours(plain)
    with pytest.raises(NotImplementedError, match="does not support backward on CPU"):
        torch.compile(plain, backend="eager")(*batch(training=True))
