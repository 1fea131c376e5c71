"""Padded batches: a key mask of each sample, with causal, with ids; all queries are kept."""

# mypy: disable-error-code="no-any-return"
# Any is what `**` and untyped functions of torch return.

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from . import claims, metadata
from .positive_forms import INF, rows, same_segment, sdpa
from .program import Adverse, Corpus, Sizes, packed, padded

BATCHES = Corpus()

KEYS = padded(metadata.key_mask())
# A sample without a token: no key is left to its queries.
EMPTY = (Adverse(name="an empty sample", inputs=padded(metadata.key_mask(), empty=True)),)
EMPTY_INTEGERS = (Adverse(name="an empty sample", inputs=padded(metadata.key_mask(torch.int64), empty=True)),)


def _holes(sizes: Sizes, generator: torch.Generator) -> Tensor:
    made = torch.rand(len(sizes), max(sizes), generator=generator) > 0.4
    made[:, 1] = True
    return made


HOLES = (Adverse(name="padding between tokens", inputs=padded(_holes)),)


@BATCHES(KEYS, 1, claim=claims.real_keys, adverse=EMPTY + HOLES)
def keys_bool(q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
    return sdpa(q, k, v, valid[:, None, None, :])


@BATCHES(padded(metadata.key_mask(torch.int64)), 1, claim=claims.real_keys, adverse=EMPTY_INTEGERS)
def keys_integers_to_bool(q: Tensor, k: Tensor, v: Tensor, attention_mask: Tensor) -> Tensor:
    return sdpa(q, k, v, attention_mask.view(q.shape[0], 1, 1, -1).to(torch.bool))


@BATCHES(padded(metadata.key_mask(left=True)), 1, claim=claims.real_keys_left)
def keys_padded_on_the_left(q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
    return sdpa(q, k, v, valid[:, None, None, :])


@BATCHES(KEYS, 1, claim=claims.real_keys, adverse=EMPTY + HOLES)
def keys_expanded(q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
    batch, length = valid.shape
    return sdpa(q, k, v, valid[:, None, None, :].expand(batch, 1, length, length))


@BATCHES(KEYS, 1, claim=claims.real_keys, adverse=EMPTY)
def keys_expanded_to_heads(q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
    return sdpa(q, k, v, valid.unsqueeze(1).unsqueeze(2).expand(-1, q.size(1), q.size(2), -1))


@BATCHES(padded(metadata.lens()), 1, claim=claims.real_keys)
def keys_from_lengths(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
    valid = torch.arange(k.shape[2], device=k.device)[None, :] < lengths[:, None]
    return sdpa(q, k, v, valid[:, None, None, :])


# In training a row may be fully masked, and SDPA's kernels disagree on the gradients of its scores: left alone.
@BATCHES(KEYS, None, claim=claims.real_keys, runtime=True, adverse=EMPTY + HOLES)
def keys_additive_finfo_min(q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
    return sdpa(q, k, v, (1.0 - valid[:, None, None, :].to(q.dtype)) * torch.finfo(q.dtype).min)


@BATCHES(padded(metadata.key_mask(torch.int64)), 1, claim=claims.real_keys, runtime=True, adverse=EMPTY_INTEGERS)
def keys_additive_expanded(q: Tensor, k: Tensor, v: Tensor, attention_mask: Tensor) -> Tensor:
    batch, length = attention_mask.shape
    inverted = 1.0 - attention_mask[:, None, None, :].expand(batch, 1, q.shape[2], length).to(q.dtype)
    bias = inverted.masked_fill(inverted.to(torch.bool), torch.finfo(q.dtype).min)
    return sdpa(q, k, v, bias)


# Here a sample without tokens is NaN in eager, and so are its gradients: left alone.
@BATCHES(KEYS, 0, claim=claims.real_keys, adverse=EMPTY)
def keys_explicit_inf(q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return scores.masked_fill(~valid[:, None, None, :], INF).softmax(-1) @ v


# And here the mean of all its values.
@BATCHES(KEYS, 1, claim=claims.real_keys, runtime=True, adverse=EMPTY)
def keys_explicit_finfo_min(q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
    bias = torch.where(valid, 0.0, torch.finfo(q.dtype).min)[:, None, None, :]
    weights = F.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + bias, dim=-1, dtype=torch.float32)
    return weights.to(q.dtype) @ v


@BATCHES(KEYS, 1, claim=claims.causal(claims.real_keys), adverse=EMPTY + HOLES)
def keys_and_causal(q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
    causal = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
    return sdpa(q, k, v, valid[:, None, None, :] & causal)


@BATCHES(padded(metadata.key_mask(left=True)), 1, claim=claims.causal(claims.real_keys_left))
def keys_on_the_left_and_causal(q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
    # The queries of the padding are left without a key: zeros in SDPA.
    row = rows(q)
    return sdpa(q, k, v, valid[:, None, None, :] & (row[None, None, :, None] >= row))


@BATCHES(padded(metadata.key_mask(torch.int64)), 1, claim=claims.causal(claims.real_keys), adverse=EMPTY_INTEGERS)
def keys_and_causal_advanced_indexing(q: Tensor, k: Tensor, v: Tensor, attention_mask: Tensor) -> Tensor:
    valid = attention_mask.to(device=q.device, dtype=torch.bool)
    batch = torch.arange(q.shape[0], device=q.device)[:, None, None, None]
    query, key = rows(q)[None, None, :, None], rows(q)[None, None, None, :]
    mask = q.new_ones((), dtype=torch.bool) & (key <= query) & valid[batch, key]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.expand(q.shape[0], -1, -1, -1), dropout_p=0.0)


@BATCHES(padded(metadata.key_mask(left=True)), None, claim=None, runtime=True)
def keys_on_the_left_and_causal_explicit(q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
    # The queries of the padding see no key: eager gives them the mean of all values, which varlen does not.
    row = rows(q)
    mask = valid[:, None, None, :] & (row[:, None] >= row[None, :])
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return (scores + torch.where(mask, 0.0, torch.finfo(q.dtype).min)).softmax(-1) @ v


@BATCHES(KEYS, 1, claim=claims.window(claims.real_keys, 2, 2), adverse=EMPTY + HOLES)
def keys_and_window(q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
    near = (rows(q)[:, None] - rows(q)[None, :]).abs() <= 2
    return sdpa(q, k, v, valid[:, None, None, :] & near[None, None])


@BATCHES(KEYS, None, claim=claims.real_pairs, adverse=EMPTY)
def pairs_of_tokens(q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
    return sdpa(q, k, v, (valid[:, None, :] & valid[:, :, None])[:, None])


@BATCHES(padded(metadata.lens()), None, claim=claims.real_pairs)
def pairs_of_rows_below_lengths(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
    query = rows(q).view(1, -1, 1)
    key = rows(q).view(1, 1, -1)
    count = lengths.view(-1, 1, 1)
    return sdpa(q, k, v, ((query < count) & (key < count)).unsqueeze(1))


@BATCHES(padded(metadata.key_mask(), kv_heads=1), 1, claim=claims.real_keys)
def keys_of_one_head(q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=valid[:, None, None, :], enable_gqa=True)


def _text_image(sizes: Sizes, generator: torch.Generator) -> Tensor:
    """The text mask [B, L // 2] of a joint sequence, text in front of the image; no text is empty."""
    text = max(sizes) // 2
    return torch.arange(text)[None] < torch.tensor([max(1, size // 2) for size in sizes])[:, None]


@BATCHES(padded(_text_image), 1)
def text_and_image(q: Tensor, k: Tensor, v: Tensor, text_mask: Tensor) -> Tensor:
    image = text_mask.new_ones((q.shape[0], q.shape[2] - text_mask.shape[1]))
    valid = torch.cat([text_mask, image], dim=1)
    return sdpa(q, k, v, valid[:, None, None, :])


@BATCHES(padded(_text_image), 1)
def image_and_text(q: Tensor, k: Tensor, v: Tensor, text_mask: Tensor) -> Tensor:
    valid = F.pad(text_mask, (q.shape[2] - text_mask.shape[1], 0), value=True)
    return sdpa(q, k, v, valid.unsqueeze(1).unsqueeze(1))


@BATCHES(padded(_text_image), 1)
def image_and_counted_text(q: Tensor, k: Tensor, v: Tensor, text_mask: Tensor) -> Tensor:
    counts = q.shape[2] - text_mask.shape[1] + text_mask.sum(dim=1, dtype=torch.int)
    mask = torch.ones(q.shape[0], q.shape[2], device=q.device, dtype=torch.bool)
    mask = mask.masked_fill(rows(q).unsqueeze(0) >= counts.unsqueeze(1), False)
    return sdpa(q, k, v, mask[:, None, None, :])


# Packed rows of several samples.


def _ids_of_samples(sizes: Sizes, _: torch.Generator) -> Tensor:
    """[B, L]: a few documents per sample, other boundaries in each."""
    longest = max(sizes)
    return torch.stack([(torch.arange(longest) >= 1 + index % (longest - 1)).long() for index in range(len(sizes))])


def _shuffled_ids_of_samples(sizes: Sizes, generator: torch.Generator) -> Tensor:
    return torch.randint(0, 3, (len(sizes), max(sizes)), generator=generator)


ANY_IDS = (Adverse(name="ids in any order", inputs=padded(_shuffled_ids_of_samples)),)


@BATCHES(padded(_ids_of_samples), 1, runtime=True, adverse=ANY_IDS)
def ids_of_samples(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    return sdpa(q, k, v, ids[:, None, :, None] == ids[:, None, None, :])


@BATCHES(padded(_ids_of_samples), 1, runtime=True, adverse=ANY_IDS)
def ids_of_samples_causal(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    same = ids.unsqueeze(-1) == ids.unsqueeze(-2)
    return sdpa(q, k, v, same.tril().unsqueeze(1).expand(-1, q.shape[1], -1, -1))


@BATCHES(padded(_ids_of_samples, metadata.key_mask()), 1, runtime=True)
def ids_and_keys_of_samples(q: Tensor, k: Tensor, v: Tensor, ids: Tensor, valid: Tensor) -> Tensor:
    return sdpa(q, k, v, (ids[:, None, :, None] == ids[:, None, None, :]) & valid[:, None, None, :])


def _positions_of_samples(sizes: Sizes, generator: torch.Generator) -> Tensor:
    ids = _ids_of_samples(sizes, generator)
    return torch.arange(max(sizes))[None] - ids * (ids == 0).sum(-1, keepdim=True)


@BATCHES(padded(_positions_of_samples), 1)
def positions_of_samples_causal(q: Tensor, k: Tensor, v: Tensor, position_ids: Tensor) -> Tensor:
    tags = (position_ids == 0).cumsum(-1)
    same = tags[:, :, None] == tags[:, None, :]
    causal = rows(q)[:, None] >= rows(q)[None, :]
    return sdpa(q, k, v, (same & causal)[:, None])


@BATCHES(packed(metadata.cu_seqlens(), lambda sizes, _: torch.arange(sum(sizes)) % 5 != 2), 1)
def segments_and_keys(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, valid: Tensor) -> Tensor:
    # A segment of which no key is valid is zero.
    return sdpa(q, k, v, same_segment(q, cu) & valid[None, :])


@BATCHES(packed(metadata.cu_seqlens(), lambda sizes, _: torch.arange(sum(sizes)) % 5 != 2), 1)
def segments_and_keys_causal(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, valid: Tensor) -> Tensor:
    causal = rows(q)[:, None] >= rows(q)[None, :]
    return sdpa(q, k, v, same_segment(q, cu) & causal & valid[None, None, None, :])


@BATCHES(packed(metadata.ids()), 1, claim=claims.blocks, runtime=True)
def tail_of_padding_has_an_id(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    # Id 0 means padding, as packers write it: it is no key, and its rows come out as zeros.
    ids = ids + 1
    same = (ids[:, None] == ids[None, :]) & (ids != 0)[None, :]
    return sdpa(q, k, v, same)


BATCHES.variant(
    tail_of_padding_has_an_id,
    "tail_of_padding",
    inputs=packed(
        lambda sizes, generator: metadata.ids()(sizes, generator).masked_fill(torch.arange(sum(sizes)) > 8, -1)
    ),
    claim=None,
)
