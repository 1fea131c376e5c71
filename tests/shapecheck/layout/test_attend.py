"""`attend`: two layouts paired, and the arguments of the consumers."""

import copy
import inspect
from dataclasses import FrozenInstanceError

import pytest
import torch
from torch.nn.attention.varlen import varlen_attn

from shapecheck import LayoutError, PackedLayout, varlen_attention

q = PackedLayout.from_lengths([2, 3])
k = PackedLayout.from_lengths([4, 1])


def test_layouts_own_tensors_at_every_read():
    pair = q.attend(k)
    first, second = pair.flash_attn(), pair.flash_attn()
    assert first is not second
    assert first["cu_seqlens_q"] is second["cu_seqlens_q"] is q.cu_seqlens
    assert first["cu_seqlens_k"] is k.cu_seqlens
    assert (first["max_seqlen_q"], first["max_seqlen_k"]) == (3, 4)
    assert pair.vllm()["seq_lens"] is pair.vllm()["seq_lens"]


def test_self_attention():
    pair = q.attend()
    assert pair.q is pair.k is q
    assert pair.fla()["cu_seqlens"].tolist() == [0, 2, 5]
    assert {x.dtype for x in pair.fla().values()} == {torch.int64}


def test_prefix_cache():
    values = q.attend(k_lengths=[10, 7]).vllm()
    assert values["query_start_loc"].tolist() == values["query_start_loc_cpu"].tolist() == [0, 2, 5]
    assert values["seq_lens"].tolist() == [10, 7]
    assert values["seq_lens"].dtype == torch.int32
    assert [values[n] for n in ("num_reqs", "num_actual_tokens", "max_query_len", "max_seq_len")] == [2, 5, 3, 10]


def test_names_fit_the_consumers():
    assert q.attend(k).varlen_attn().keys() <= inspect.signature(varlen_attn).parameters.keys()
    x, y = torch.randn(5, 2, 8), torch.randn(5, 2, 8)
    assert varlen_attention(x, y, y, **q.attend(k).flash_attn()).shape == x.shape
    assert q.attend(k).transformers().keys() == {"cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k"}
    thd = q.attend(k).thd()
    assert thd["cu_seqlens_kv"] is k.cu_seqlens
    assert (thd["qkv_format"], thd["pad_between_seqs"]) == ("thd", False)


def test_host_values():
    assert q.attend(k).npu_fusion_attention() == {"actual_seq_qlen": (2, 5), "actual_seq_kvlen": (4, 5)}
    assert q.attend(k).xformers() == {"q_seqlen": (2, 3), "kv_seqlen": (4, 1)}


def test_padding_segment_is_paired():
    padded = PackedLayout.pack({"text": 5}, align=8)
    assert padded.attend(k_lengths=[3]).xformers() == {"q_seqlen": (5, 3), "kv_seqlen": (3, 0)}
    with pytest.raises(LayoutError, match="segment 1 has 3 query rows and 0 key rows"):
        padded.attend(k_lengths=[3]).npu_fusion_attention()


def test_refused():
    with pytest.raises(LayoutError, match="queries have 2 segments, the keys 1"):
        q.attend(k_lengths=[4])
    with pytest.raises(LayoutError, match="both given"):
        q.attend(k, k_lengths=[4, 1])
    with pytest.raises(LayoutError, match="queries are on cpu and the keys on meta"):
        q.attend(k.to("meta"))
    with pytest.raises(LayoutError, match="fla takes one cu_seqlens"):
        q.attend(k).fla()


def test_immutable_and_copied():
    pair = q.attend(k)
    with pytest.raises(FrozenInstanceError):
        pair.max_seqlen_q = 1
    assert copy.deepcopy(pair).xformers() == pair.xformers()


def test_compiled_as_an_argument():
    def step(x, pair):
        values = pair.flash_attn()
        return x + values["cu_seqlens_q"] + values["max_seqlen_k"]

    x = torch.zeros(3)
    compiled = torch.compile(step, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x, q.attend(k)), step(x, q.attend(k)))
