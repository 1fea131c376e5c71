"""Where attention stands: modules, layers, checkpoints, autocast, grouped heads, cross attention, FlexAttention."""

# mypy: disable-error-code="no-any-return"
# Any is what `**` and untyped functions of torch return.

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

from . import claims, metadata
from .positive_forms import CU, rows, same_segment, sdpa, tags_of
from .program import CHANNELS, HEADS, Adverse, Corpus, Sizes, cross, packed, starved

REGIONS = Corpus()

GROUPED = packed(metadata.cu_seqlens(), heads=4, kv_heads=2)
CROSS = cross(metadata.cu_seqlens(), metadata.cu_seqlens_k())
STARVED = Adverse(
    name="a segment without keys", inputs=cross(metadata.cu_seqlens(), metadata.cu_seqlens_k(starved), keys=starved)
)


# Heads.


@REGIONS(GROUPED, 1, claim=claims.blocks)
def grouped_natively(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=same_segment(q, cu), enable_gqa=True)


def repeat_kv(x: Tensor, times: int) -> Tensor:
    batch, heads, length, channels = x.shape
    if times == 1:
        return x
    return (
        x[:, :, None, :, :]
        .expand(batch, heads, times, length, channels)
        .reshape(batch, heads * times, length, channels)
    )


@REGIONS(GROUPED, 1, claim=claims.blocks)
def grouped_by_expand(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, repeat_kv(k, 2), repeat_kv(v, 2), same_segment(q, cu))


@REGIONS(GROUPED, 1, claim=claims.blocks)
def grouped_by_repeat_interleave(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k.repeat_interleave(2, dim=1), v.repeat_interleave(2, 1), same_segment(q, cu))


@REGIONS(GROUPED, 1, claim=claims.causal(claims.blocks))
def grouped_explicit(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    scores = torch.matmul(q, repeat_kv(k, 2).transpose(2, 3)) * q.shape[-1] ** -0.5
    mask = same_segment(q, cu).tril()
    scores = scores + torch.where(mask, 0.0, torch.finfo(q.dtype).min)
    return torch.matmul(F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype), repeat_kv(v, 2))


@REGIONS(packed(metadata.cu_seqlens(), heads=4, kv_heads=1), 1, claim=claims.blocks)
def one_head_broadcast(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k.expand(-1, q.shape[1], -1, -1), v.expand(-1, q.shape[1], -1, -1), same_segment(q, cu))


# The other order of heads: head h reads k head h % 2. Groups of neighbours would be wrong.
@REGIONS(GROUPED, 1)
def grouped_by_repeat(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1), same_segment(q, cu))


@REGIONS(GROUPED, 1)
def grouped_by_expand_of_the_other_axis(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    k, v = (x[:, None].expand(-1, 2, -1, -1, -1).flatten(1, 2) for x in (k, v))
    return sdpa(q, k, v, same_segment(q, cu))


@REGIONS(GROUPED, 1)
def grouped_keys_in_one_order_values_in_the_other(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, repeat_kv(k, 2), v.repeat(1, 2, 1, 1), same_segment(q, cu))


@REGIONS(CU, 1)
def values_of_other_width(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return sdpa(q, k, torch.cat([v, v[..., :3] * 2], -1), same_segment(q, cu))


@REGIONS(CU, 1)
def explicit_scale(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, same_segment(q, cu), 0.0, False, scale=0.25)


# Two sequences.


@REGIONS(CROSS, 1, claim=claims.cross_blocks, adverse=(STARVED,))
def cross_two_boundaries(q: Tensor, k: Tensor, v: Tensor, cu_q: Tensor, cu_k: Tensor) -> Tensor:
    return sdpa(q, k, v, tags_of(q, cu_q)[:, None] == tags_of(k, cu_k)[None, :])


# In eager, queries without a key are NaN, and so are their gradients: left alone.
@REGIONS(CROSS, 0, claim=claims.cross_blocks, adverse=(STARVED,))
def cross_repeat_interleave(q: Tensor, k: Tensor, v: Tensor, cu_q: Tensor, cu_k: Tensor) -> Tensor:
    index = torch.arange(cu_q.numel() - 1, device=q.device)
    tags_q = torch.repeat_interleave(index, cu_q.diff(), output_size=q.shape[2])
    tags_k = torch.repeat_interleave(index, cu_k.diff(), output_size=k.shape[2])
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return scores.masked_fill(tags_q[:, None] != tags_k[None, :], float("-inf")).softmax(-1) @ v


@REGIONS(cross(metadata.cu_seqlens(), metadata.ends(), keys=lambda sizes: sizes), None)
def cross_numbered_from_one_and_from_zero(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, ends: Tensor) -> Tensor:
    # Query segment i sees key segment i + 1: the two numberings differ by one.
    tags_k = torch.searchsorted(ends, rows(k), right=True)
    return sdpa(q, k, v, tags_of(q, cu)[:, None] == tags_k[None, :])


def _fewer(sizes: Sizes) -> Sizes:
    return (sum(sizes[:-2]), 9)


@REGIONS(cross(metadata.cu_seqlens(), metadata.cu_seqlens_k(_fewer), keys=_fewer), None)
def cross_more_segments_than_keys_have(q: Tensor, k: Tensor, v: Tensor, cu_q: Tensor, cu_k: Tensor) -> Tensor:
    return sdpa(q, k, v, tags_of(q, cu_q)[:, None] == tags_of(k, cu_k)[None, :])


@REGIONS(CROSS, None, claim=claims.causal(claims.cross_blocks))
def cross_causal_by_rows(q: Tensor, k: Tensor, v: Tensor, cu_q: Tensor, cu_k: Tensor) -> Tensor:
    # Row numbers of two sequences, compared as they are: neither corner of a segment is where the diagonal passes.
    same = tags_of(q, cu_q)[:, None] == tags_of(k, cu_k)[None, :]
    return sdpa(q, k, v, same & (rows(q)[:, None] >= rows(k)[None, :]))


@REGIONS(CU, None)
def last_rows_as_queries_causal(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags, row = tags_of(k, cu), rows(k)
    mask = (tags[-5:, None] == tags[None, :]) & (row[-5:, None] >= row[None, :])
    return sdpa(q[:, :, -5:], k, v, mask)


@REGIONS(CU, None)
def first_rows_as_queries_causal(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags = tags_of(k, cu)
    mask = (tags[:5, None] == tags[None, :]) & torch.ones(5, k.shape[2], dtype=torch.bool, device=q.device).tril()
    return sdpa(q[:, :, :5], k, v, mask)


# Modules and layers.


class Block(nn.Module):
    """Attention with projections, as models write it: methods, packed projection, [B, S, H, D] in between."""

    def __init__(self, width: int, heads: int, seed: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) / width**0.5)

    def attend(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(batch, length, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return x + self.out(self.attend(self.norm(x), mask))


class Layers(nn.Module):
    """Three blocks that share a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(HEADS * CHANNELS, HEADS, seed) for seed in range(3))

    def mask(self, x: Tensor, cu: Tensor) -> Tensor:
        tags = torch.searchsorted(cu, torch.arange(x.shape[1], device=x.device), right=True)
        return (tags[:, None] == tags[None, :])[None, None]

    def forward(self, x: Tensor, cu: Tensor, save: str = "nothing") -> Tensor:
        mask = self.mask(x, cu)
        for block in self.blocks:
            x = checkpoint(block, x, mask, use_reentrant=False) if save == "blocks" else block(x, mask)
        return x


_layers = Layers()


def tokens_of(q: Tensor) -> Tensor:
    """[1, S, H * D]."""
    return q.transpose(1, 2).flatten(2)


@REGIONS(CU, 3)
def mask_shared_by_layers(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return _layers(tokens_of(q) + tokens_of(k) * tokens_of(v), cu)


@REGIONS(CU, 3)
def mask_shared_by_checkpointed_layers(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return _layers(tokens_of(q) + tokens_of(k) * tokens_of(v), cu, save="blocks")


@REGIONS(CU, 1)
def mask_made_inside_a_checkpoint(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    def body(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return sdpa(q * 2, k, v, same_segment(q, cu)).sin()

    return checkpoint(body, q, k, v, use_reentrant=False) + q


@REGIONS(CU, 1)
def mask_made_before_a_checkpoint(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)
    return checkpoint(lambda q, k, v, mask: sdpa(q * 2, k, v, mask), q, k, v, mask, use_reentrant=False)


@REGIONS(CU, 2)
def one_site_in_a_checkpoint_one_after(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)
    first = checkpoint(sdpa, q, k, v, mask, use_reentrant=False)
    return sdpa(first, k, v, mask)


@REGIONS(CU, 1)
def explicit_in_a_checkpoint(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    bias = torch.where(same_segment(q, cu), 0.0, float("-inf"))

    def body(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
        return (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + bias).softmax(-1) @ v

    return checkpoint(body, q, k, v, bias, use_reentrant=False)


@REGIONS(CU, 1)
def without_gradients(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    with torch.no_grad():
        teacher = sdpa(q, k, v, same_segment(q, cu))
    return teacher * q


@REGIONS(CU, 1)
def mask_made_without_gradients(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    with torch.no_grad():
        mask = same_segment(q, cu)
    return sdpa(q, k, v, mask)


@REGIONS(CU, 1, tolerance=5e-2)
def autocast(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    with torch.autocast(q.device.type, dtype=torch.bfloat16):
        return sdpa(q, k, v, same_segment(q, cu)).to(q.dtype)


@REGIONS(CU, 3, tolerance=2e-1)
def autocast_layers(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    with torch.autocast(q.device.type, dtype=torch.bfloat16):
        return _layers(tokens_of(q) + tokens_of(k) * tokens_of(v), cu).to(q.dtype)


@REGIONS(CU, 1, tolerance=5e-2)
def autocast_explicit(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    with torch.autocast(q.device.type, dtype=torch.bfloat16):
        scores = torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        scores = scores.masked_fill(~same_segment(q, cu), float("-inf"))
        return torch.matmul(scores.softmax(-1), v).to(q.dtype)


@REGIONS(CU, 2)
def two_masks_of_one_numbering(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    mask = same_segment(q, cu)
    return sdpa(sdpa(q, k, v, mask), k, v, mask.tril())


@REGIONS(packed(metadata.cu_seqlens(), lambda sizes, _: torch.tensor([0, sum(sizes) // 3, sum(sizes)])), 2)
def two_boundaries_for_two_sites(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, windows: Tensor) -> Tensor:
    # As in vision towers: some layers attend in windows, others in the whole image.
    return sdpa(sdpa(q, k, v, same_segment(q, windows)), k, v, same_segment(q, cu))


@REGIONS(CU, 1)
def one_site_of_two(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(sdpa(q, k, v, same_segment(q, cu)), k, v, is_causal=True)


@REGIONS(CU, None)
def multihead_attention(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    # In nn.MultiheadAttention True means: do not attend.
    weight = torch.eye(HEADS * CHANNELS, device=q.device)
    tokens = tokens_of(q).transpose(0, 1)
    out, _ = F.multi_head_attention_forward(
        tokens, tokens_of(k).transpose(0, 1), tokens_of(v).transpose(0, 1), HEADS * CHANNELS, HEADS,
        torch.cat([weight] * 3), None, None, None, False, 0.0, weight, None,
        training=True, need_weights=False, attn_mask=~same_segment(q, cu),
    )  # fmt: skip
    return out


# FlexAttention: its backward does not exist on CPU, so eager is the same mask under SDPA.


@REGIONS(CU, 1, claim=claims.blocks, reference=lambda q, k, v, cu: sdpa(q, k, v, same_segment(q, cu)))
def flex_document_mask(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags = tags_of(q, cu)
    length = q.shape[2]

    def same(_batch: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return tags[query] == tags[key]

    mask = create_block_mask(same, None, None, length, length, device=str(q.device))
    return flex_attention(q, k, v, block_mask=mask)


@REGIONS(
    CU, 1, claim=claims.causal(claims.blocks), reference=lambda q, k, v, cu: sdpa(q, k, v, same_segment(q, cu).tril())
)
def flex_document_mask_causal(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    tags = tags_of(q, cu)
    length = q.shape[2]

    def causal(_batch: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query >= key) & (tags[query] == tags[key])

    mask = create_block_mask(causal, B=None, H=None, Q_LEN=length, KV_LEN=length, device=str(q.device))
    return flex_attention(q, k, v, block_mask=mask, scale=q.shape[-1] ** -0.5)


@REGIONS(
    packed(metadata.ids(batch=True)),
    1,
    claim=claims.blocks,
    runtime=True,
    reference=lambda q, k, v, ids: sdpa(q, k, v, ids[:, None, :, None] == ids[:, None, None, :]),
)
def flex_document_ids(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    def same(batch: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return ids[batch, query] == ids[batch, key]

    mask = create_block_mask(same, q.shape[0], None, q.shape[2], k.shape[2], device=str(q.device))
    return flex_attention(q, k, v, block_mask=mask)


# Nothing to lower.


@REGIONS(CU, 0, claim=claims.causal(claims.nothing_else))
def dense_causal(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@REGIONS(CU, 0, claim=claims.nothing_else)
def dense(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


@REGIONS(CU, 0, claim=claims.nothing_else)
def dense_explicit(q: Tensor, k: Tensor, v: Tensor, cu: Tensor) -> Tensor:
    return (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1) @ v
