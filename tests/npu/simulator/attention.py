"""torch_npu's fused attention operators on the simulated device, for TND layout without dropout.

Signatures and constraints are those of torch_npu 2.13 (its registered schemas and its documentation); a call that breaks
one ends in a RuntimeError, where hardware may compute nonsense. What the documentation leaves undefined is NaN here.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from .device import unwrap, wrap

_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_LANES = 8
_MAX_ROWS = 1 << 20

_INPUTS = "Tensor query, Tensor key, Tensor value"
_EDGES = "int pre_tockens=2147483647, int next_tockens=2147483647, int inner_precise=0"
_OPTIONAL = "Tensor? pse=None, Tensor? padding_mask=None, Tensor? atten_mask=None"
_SAVED = "Tensor? softmax_max=None, Tensor? softmax_sum=None, Tensor? softmax_in=None, Tensor? attention_in=None"
_FLAGS = 'int sparse_mode=0, bool gen_mask_parallel=True, bool sync=False, str softmax_layout="", Tensor? sink=None'
_LISTS = "int[]? prefix=None, int[]? actual_seq_qlen=None, int[]? actual_seq_kvlen=None"
_TENSORS = "SymInt[]? prefix=None, Tensor? actual_seq_qlen=None, Tensor? actual_seq_kvlen=None"

_SCHEMAS = {
    "npu_fusion_attention": f"({_INPUTS}, int head_num, str input_layout, {_OPTIONAL}, float scale=1., "
    f"float keep_prob=1., {_EDGES}, {_LISTS}, {_FLAGS}, Tensor? dropout_mask=None, int seed=0, int offset=0) "
    "-> (Tensor, Tensor, Tensor, Tensor, int, int, int)",
    "npu_fusion_attention_v3": f"({_INPUTS}, int head_num, str input_layout, {_OPTIONAL}, float scale=1., "
    f"float keep_prob=1., {_EDGES}, {_TENSORS}, {_FLAGS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    "npu_fusion_attention_grad": f"({_INPUTS}, Tensor dy, int head_num, str input_layout, *, {_OPTIONAL}, {_SAVED}, "
    f"float scale_value=1., float keep_prob=1., {_EDGES}, int seed=0, int offset=0, int numels=0, {_LISTS}, {_FLAGS}) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "npu_fusion_attention_grad_v3": f"({_INPUTS}, Tensor dy, int head_num, str input_layout, *, {_OPTIONAL}, {_SAVED}, "
    f"float scale_value=1., float keep_prob=1., {_EDGES}, Tensor? seed=None, Tensor? offset=None, {_TENSORS}, {_FLAGS}) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "npu_fused_infer_attention_score_v2": f"({_INPUTS}, *, Tensor? query_rope=None, Tensor? key_rope=None, "
    "Tensor? pse_shift=None, Tensor? atten_mask=None, SymInt[]? actual_seq_qlen=None, SymInt[]? actual_seq_kvlen=None, "
    "Tensor? block_table=None, Tensor? dequant_scale_query=None, Tensor? dequant_scale_key=None, "
    "Tensor? dequant_offset_key=None, Tensor? dequant_scale_value=None, Tensor? dequant_offset_value=None, "
    "Tensor? dequant_scale_key_rope=None, Tensor? quant_scale_out=None, Tensor? quant_offset_out=None, "
    "Tensor? quant_scale_p=None, Tensor? learnable_sink=None, int num_query_heads=1, int num_key_value_heads=0, "
    'float softmax_scale=1.0, int pre_tokens=2147483647, int next_tokens=2147483647, str input_layout="BSH", '
    "int sparse_mode=0, int block_size=0, int query_quant_mode=0, int key_quant_mode=0, int value_quant_mode=0, "
    "int inner_precise=0, bool return_softmax_lse=False) -> (Tensor, Tensor)",
}

calls: list[str] = []
"""Names of the operators that were called."""

Segments = list[tuple[slice, slice]]


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise RuntimeError(f"{message}\n[ERROR] ERR01002 OPS invalid type (simulated)")


def _scores(q: Tensor, k: Tensor, scale: float) -> Tensor:
    """`[N, Sq, Skv]` in float32."""
    keys = k.float().repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    return torch.einsum("qnd,knd->nqk", q.float(), keys) * scale


def _hidden(segments: Segments, mode: int, before: int, ahead: int) -> list[Tensor]:
    """For each segment True where a key is not seen: the documented meaning of modes 0 (no mask), 3 and 4."""
    masks = []
    for one, other in segments:
        rows_q, rows_k = one.stop - one.start, other.stop - other.start
        distance = torch.arange(rows_k) - (torch.arange(rows_q)[:, None] + rows_k - rows_q)
        if mode == 4:
            masks.append((distance > ahead) | (-distance > before))
        else:
            masks.append(distance > 0 if mode == 3 else torch.zeros_like(distance, dtype=torch.bool))
    return masks


def _check_mask(mask: Tensor | None, mode: int) -> None:
    _require(mode in (0, 3, 4), f"sparse_mode {mode} is not simulated")
    if mode == 0:
        _require(mask is None, "sparse_mode 0 with atten_mask is not simulated")
        return
    _require(mask is not None, f"atten_mask is needed when sparse_mode is {mode}")
    _require(mask.dtype in (torch.bool, torch.uint8), f"atten_mask must be bool or uint8, got {mask.dtype}")
    _require(tuple(mask.shape) == (2048, 2048), f"atten_mask must be [2048, 2048], got {list(mask.shape)}")
    upper = torch.ones(2048, 2048, dtype=torch.bool).triu(1)
    _require(torch.equal(mask.bool(), upper), "atten_mask must be the upper triangle, True where masked")


def _segments(call: SimpleNamespace) -> Segments:
    ends_q, ends_k = call.actual_seq_qlen, call.actual_seq_kvlen
    both = (("actual_seq_qlen", ends_q, call.query), ("actual_seq_kvlen", ends_k, call.key))
    for name, ends, packed in both:
        _require(bool(ends), f"The {name} should not be empty when TND")
        _require(all(one <= other for one, other in pairwise([0, *ends])), f"{name} must not decrease, got {ends}")
        _require(ends[-1] <= len(packed), f"the last element of {name} is {ends[-1]}, but T is {len(packed)}")
    _require(len(ends_q) == len(ends_k), "The size of actual_seq_qlen should be equal to actual_seq_kvlen when TND")
    bounds = zip(pairwise([0, *ends_q]), pairwise([0, *ends_k]), strict=True)
    segments = [(slice(*one), slice(*other)) for one, other in bounds]
    one_sided = any((one.start == one.stop) != (other.start == other.stop) for one, other in segments)
    _require(not one_sided, "a sequence must not be empty on one side only")
    return segments


def _check_training(call: SimpleNamespace) -> tuple[Segments, list[Tensor]]:
    q, k, v = call.query, call.key, call.value
    _require(call.input_layout == "TND", f"input_layout {call.input_layout} is not simulated")
    _require(q.dim() == k.dim() == v.dim() == 3, "query, key and value must have 3 axes when TND")
    _require(q.dtype in _DTYPES, f"query must be float16, bfloat16 or float32, got {q.dtype}")
    _require(q.dtype == k.dtype == v.dtype, "query, key and value must have one dtype")
    _require(k.shape == v.shape, f"key and value must have one shape, got {list(k.shape)} and {list(v.shape)}")
    _require(q.shape[2] == k.shape[2], "query and key must have one head dim")
    _require(1 <= q.shape[2] <= 768, f"head dim must be 1 to 768, got {q.shape[2]}")
    _require(call.head_num == q.shape[1] and 1 <= call.head_num <= 256, f"head_num must be 1 to 256: {call.head_num}")
    _require(q.shape[1] % k.shape[1] == 0, "Nq must be a multiple of Nkv")
    _require(1 <= q.shape[0] <= _MAX_ROWS and 1 <= k.shape[0] <= _MAX_ROWS, "T must be 1 to 1M")
    _require(call.keep_prob == 1.0, "dropout is not simulated")
    _require(call.softmax_layout in ("", "TND"), "only supported softmax_layout=TND")
    _require(len(call.actual_seq_qlen) <= 1024, "actual_seq_qlen must have at most 1K elements when varlen")
    _check_mask(call.atten_mask, call.sparse_mode)
    segments = _segments(call)
    hidden = _hidden(segments, call.sparse_mode, call.pre_tockens, call.next_tockens)
    _require(not any(bool(one.all(dim=1).any()) for one in hidden), "atten_mask must not mask a whole row")
    return segments, hidden


def _as_laid_out(stats: Tensor, segments: Segments, layout: str) -> Tensor:
    """softmax_max and softmax_sum are `[T, N, 8]`; by default they lie as `[N, S, 8]`, segment by segment."""
    lanes = stats.unsqueeze(-1).expand(-1, -1, _LANES)
    if layout == "TND":
        return lanes.contiguous()
    blocks = [lanes[rows].transpose(0, 1).reshape(-1, _LANES) for rows, _ in segments]
    covered = sum(len(one) for one in blocks)
    rest = lanes.reshape(-1, _LANES)[covered:]
    return torch.cat([*blocks, rest]).reshape(lanes.shape)


def _as_tnd(stats: Tensor, segments: Segments, layout: str) -> Tensor:
    _require(stats.dtype == torch.float32 and stats.shape[-1] == _LANES, "softmax_max must be float32 [T, N, 8]")
    _require(bool((stats == stats[..., :1]).all()), "the 8 lanes of softmax_max must be equal")
    if layout == "TND":
        return stats[..., 0]
    heads, flat, start, parts = stats.shape[1], stats.reshape(-1, _LANES)[:, 0], 0, []
    for rows, _ in segments:
        count = (rows.stop - rows.start) * heads
        parts.append(flat[start : start + count].reshape(heads, -1).T)
        start += count
    return torch.cat([*parts, flat[start:].reshape(-1, heads)])


def _attend(
    q: Tensor, k: Tensor, v: Tensor, segments: Segments, hidden: list[Tensor], scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    out = q.new_full((*q.shape[:2], v.shape[2]), torch.nan)
    largest = torch.full(q.shape[:2], torch.nan)
    total = torch.full(q.shape[:2], torch.nan)
    for (rows_q, rows_k), masked in zip(segments, hidden, strict=True):
        if rows_q.start == rows_q.stop:
            continue
        scores = _scores(q[rows_q], k[rows_k], scale).masked_fill(masked, -torch.inf)
        largest[rows_q] = scores.amax(-1).T
        exponentials = (scores - scores.amax(-1, keepdim=True)).exp()
        total[rows_q] = exponentials.sum(-1).T
        weights = exponentials / exponentials.sum(-1, keepdim=True)
        values = v[rows_k].float().repeat_interleave(q.shape[1] // k.shape[1], dim=1)
        out[rows_q] = torch.einsum("nqk,knd->qnd", weights, values).to(q.dtype)
    return out, largest, total


def _fusion_attention(call: SimpleNamespace) -> tuple[Any, ...]:
    segments, hidden = _check_training(call)
    out, *stats = _attend(call.query, call.key, call.value, segments, hidden, call.scale)
    stats = [_as_laid_out(one, segments, call.softmax_layout) for one in stats]
    return wrap(out), *map(wrap, stats), wrap(out.new_empty(0)), 0, 0, 0


def _fusion_attention_v3(call: SimpleNamespace) -> tuple[Any, ...]:
    # Philox seed and offset: CPU tensors, outside of aclgraph.
    return *_fusion_attention(call)[:4], torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)


def _fusion_attention_grad(call: SimpleNamespace) -> tuple[Tensor, ...]:
    q, k, v, dy, out = call.query, call.key, call.value, call.dy, call.attention_in
    segments, hidden = _check_training(call)
    stats = [_as_tnd(one, segments, call.softmax_layout) for one in (call.softmax_max, call.softmax_sum)]
    _require(dy.shape == out.shape == (*q.shape[:2], v.shape[2]), "dy and attention_in must be shaped like the output")
    _require(dy.dtype == out.dtype == q.dtype, "dy and attention_in must have the dtype of query")
    gradients = [torch.full(one.shape, torch.nan) for one in (q, k, v)]
    share = q.shape[1] // k.shape[1]
    for (rows_q, rows_k), masked in zip(segments, hidden, strict=True):
        scores = _scores(q[rows_q], k[rows_k], call.scale_value).masked_fill(masked, -torch.inf)
        largest, total = (one[rows_q].T.unsqueeze(-1) for one in stats)
        weights = (scores - largest).exp() / total
        keys, values = (one[rows_k].float().repeat_interleave(share, dim=1) for one in (k, v))
        upstream = dy[rows_q].float()
        inner = torch.einsum("qnd,knd->nqk", upstream, values)
        delta = (upstream * out[rows_q].float()).sum(-1).T.unsqueeze(-1)
        on_scores = weights * (inner - delta) * call.scale_value
        gradients[0][rows_q] = torch.einsum("nqk,knd->qnd", on_scores, keys)
        on_keys = torch.einsum("nqk,qnd->knd", on_scores, q[rows_q].float())
        on_values = torch.einsum("nqk,qnd->knd", weights, upstream)
        gradients[1][rows_k] = on_keys.unflatten(1, (-1, share)).sum(2)
        gradients[2][rows_k] = on_values.unflatten(1, (-1, share)).sum(2)
    return *(wrap(one.to(q.dtype)) for one in gradients), wrap(torch.empty(0)), wrap(torch.empty(0))


def _fused_infer_attention_score_v2(call: SimpleNamespace) -> tuple[Tensor, Tensor]:
    q, k, v = call.query, call.key, call.value
    _require(call.input_layout == "TND", f"input_layout {call.input_layout} is not simulated")
    _require(q.dtype == k.dtype == v.dtype == torch.bfloat16, "query, key and value must be bfloat16 when TND")
    _require(all(one.is_contiguous() for one in (q, k, v)), "query, key and value must be contiguous")
    dims = (q.shape[2], k.shape[2], v.shape[2])
    _require(
        dims in ((128, 128, 128), (192, 192, 192), (192, 192, 128)),
        f"head dims of query, key and value when TND must be 128, or 192, 192 and 128 or 192, got {dims}",
    )
    heads, key_heads = call.num_query_heads, call.num_key_value_heads
    _require((heads, key_heads) == (q.shape[1], k.shape[1]), "num_query_heads and num_key_value_heads must fit N")
    _require(heads % key_heads == 0 and heads // key_heads <= 64, "Q_N / K_N must be an integer of at most 64")
    _require(q.shape[0] <= _MAX_ROWS and k.shape[0] <= _MAX_ROWS, "T must be at most 1M")
    _require(len(call.actual_seq_qlen) <= 4096, "actual_seq_qlen must have at most 4096 elements")
    segments = _segments(call)
    _require(call.actual_seq_qlen[-1] == len(q), "queryT must be equal to the last element of actual_seq_qlen")
    _require(call.actual_seq_kvlen[-1] == len(k), "keyT must be equal to the last element of actual_seq_kvlen")
    _check_mask(call.atten_mask, call.sparse_mode)
    lengths = [(one.stop - one.start, other.stop - other.start) for one, other in segments]
    if call.sparse_mode == 3:
        _require(all(one <= other for one, other in lengths), "sparse_mode 3: no sequence with more queries than keys")
    if call.sparse_mode == 4:
        _require(call.pre_tokens + call.next_tokens >= 0, "pre_tokens + next_tokens must not be negative")
    # "sparse_mode, pre_tokens and next_tokens are ineffective when Q_S is 1"
    mode = 0 if all(one <= 1 for one, _ in lengths) else call.sparse_mode
    hidden = _hidden(segments, mode, call.pre_tokens, call.next_tokens)
    out, largest, total = _attend(q, k, v, segments, hidden, call.softmax_scale)
    lse = (largest + total.log()).unsqueeze(-1)
    return wrap(out), wrap(lse if call.return_softmax_lse else torch.zeros(1))


_library = torch.library.Library("npu", "DEF")


def _host_list(name: str, ends: Tensor | Sequence[int] | None) -> list[int]:
    """The ends of the segments, as a list or as `npu_fusion_attention_v3` wants them."""
    _require(ends is not None, f"{name} is required when input_layout is 'TND'.")
    if isinstance(ends, Tensor):
        _require(ends.device.type == "cpu", "tensor must be on CPU")
        _require(ends.dtype == torch.int64 and ends.dim() == 1, f"{name} must use int64 dtype.")
    return [int(one) for one in ends]


def _register(name: str, run: Callable[[SimpleNamespace], tuple[Any, ...]]) -> None:
    _library.define(name + _SCHEMAS[name])
    arguments = getattr(torch.ops.npu, name).default._schema.arguments
    defaults = {one.name: one.default_value for one in arguments if one.has_default_value()}

    def kernel(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        calls.append(name)
        named = defaults | dict(zip((one.name for one in arguments), args, strict=False)) | kwargs
        ends = {name: _host_list(name, named[name]) for name in ("actual_seq_qlen", "actual_seq_kvlen")}
        return run(SimpleNamespace(**{name: unwrap(value) for name, value in (named | ends).items()}))

    _library.impl(name, kernel, "PrivateUse1")


_register("npu_fusion_attention", _fusion_attention)
_register("npu_fusion_attention_v3", _fusion_attention_v3)
_register("npu_fusion_attention_grad", _fusion_attention_grad)
_register("npu_fusion_attention_grad_v3", _fusion_attention_grad)
_register("npu_fused_infer_attention_score_v2", _fused_infer_attention_score_v2)
