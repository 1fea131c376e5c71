"""Presets on functions with the signatures of the real ones, whose argument orders differ."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
import torch

from shapecheck import ContractError, PackedLayout, contract
from shapecheck.presets import ascend, fla, flash_attn, thd, torch_varlen, transformers
from shapecheck.testing import ORACLES, Oracle

OTHERS = [oracle for name, oracle in ORACLES.items() if name not in ("h3", "h3_served", "h3_vllm_omni")]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Thousands of small tensors: waking other threads for them takes longer than the work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def takes_all(**kwargs: Any) -> Any:
    """Stands for any of the functions."""
    if "img_position_ids" in kwargs:
        return torch.zeros(1, 96), torch.zeros(1, dtype=torch.int64)
    return torch.zeros(1, 5376) if "prompt_embeds" in kwargs else None


def reported(function: Callable[..., Any], call: dict[str, Any]) -> bool:
    try:
        function(**call)
    except ContractError:
        return True
    return False


@pytest.mark.parametrize("oracle", OTHERS, ids=lambda oracle: oracle.name)
def test_mutants_are_reported_and_valid_calls_are_not(oracle: Oracle) -> None:
    checked = {level: contract(oracle.preset, level=level)(takes_all) for level in ("shape", "host", "sync")}
    random = Random(oracle.name)
    for _ in range(4):
        call = oracle.call(oracle.sample(random))
        assert not any(reported(function, call) for function in checked.values())
        for mutant in oracle.mutants(call):
            seen = [level for level, function in checked.items() if reported(function, mutant.call)]
            assert seen == (["shape", "host", "sync"] if mutant.level == "shape" else ["host", "sync"]), mutant.name


@pytest.mark.parametrize("oracle", OTHERS, ids=lambda oracle: oracle.name)
def test_no_valid_call_is_reported(oracle: Oracle) -> None:
    checked = contract(oracle.preset, level="sync")(takes_all)
    random = Random(f"{oracle.name} again")
    for _ in range(100):
        checked(**oracle.call(oracle.sample(random)))


def fa2(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, causal=False, block_table=None):
    return q


def fa4(q, k, v, qv=None, cu_seqlens_q=None, cu_seqlens_k=None, max_seqlen_q=None, max_seqlen_k=None, seqused_k=None):
    return q


def vllm(q, k, v, max_seqlen_q, cu_seqlens_q, max_seqlen_k, cu_seqlens_k=None, seqused_k=None, block_table=None):
    return q


@pytest.mark.parametrize("function", [fa2, fa4, vllm])
def test_flash_attn_argument_orders(function: Callable[..., Any]) -> None:
    call = ORACLES["flash_attn"].call(PackedLayout.from_lengths([3, 5]))
    checked = contract(flash_attn.flash_attn_varlen_func)(function)
    ordered = [call[name] for name in function.__code__.co_varnames[:3]]
    rest = {name: value for name, value in call.items() if name not in "qkv"}
    assert checked(*ordered, **rest) is call["q"]
    rest["cu_seqlens_q"] = torch.tensor([0, 4, 3], dtype=torch.int32)
    with pytest.raises(ContractError, match="cu_seqlens_q"):
        checked(*ordered, **rest)


def test_flash_attn_leaves_trailing_rows_and_longer_keys_alone() -> None:
    q, k = PackedLayout.from_lengths([3, 0, 2], seq_len=16, align=16), PackedLayout.from_lengths([9, 4, 0])
    call = {"q": torch.zeros(16, 4, 8), "k": torch.zeros(13, 2, 8), "v": torch.zeros(13, 2, 16)}
    checked = contract(flash_attn.flash_attn_varlen_func, level="sync")(takes_all)
    checked(**call, **q.attend(k).flash_attn())


def test_flash_attn_keys_in_pages() -> None:
    pages = torch.zeros(7, 16, 2, 8)
    call = {
        "q": torch.zeros(5, 4, 8),
        "k": pages,
        "v": pages,
        "cu_seqlens_q": torch.tensor([0, 3, 5], dtype=torch.int32),
        "seqused_k": torch.tensor([20, 33], dtype=torch.int32),
        "max_seqlen_q": 3,
        "max_seqlen_k": 33,
        "block_table": torch.zeros(2, 3, dtype=torch.int32),
    }
    checked = contract(flash_attn.flash_attn_varlen_func_paged, level="sync")(takes_all)
    checked(**call)
    assert reported(checked, {**call, "seqused_k": call["seqused_k"][:1]})
    assert reported(checked, {**call, "block_table": call["block_table"][:1]})
    assert reported(checked, {**call, "cu_seqlens_q": torch.tensor([0, 3, 6], dtype=torch.int32)})


def test_torch_varlen_attn_itself() -> None:
    varlen = pytest.importorskip("torch.nn.attention.varlen")
    checked = contract(torch_varlen.varlen_attn)(varlen.varlen_attn)
    with pytest.raises(ContractError, match="cu_seq_k"):
        checked(**{**ORACLES["torch_varlen"].call(PackedLayout.from_lengths([3, 5])), "cu_seq_k": torch.zeros(5, 5)})


@pytest.mark.parametrize("cp_size", [1, 2, 4])
def test_thd_cuts_every_padded_segment_into_two_chunks_a_rank(cp_size: int) -> None:
    padded = PackedLayout.from_lengths([4, 12])
    rows = torch.zeros(16 // cp_size, 2, 8)
    call = {
        **dict.fromkeys(("query_layer", "key_layer", "value_layer"), rows),
        **dict.fromkeys(("cu_seqlens_q", "cu_seqlens_kv"), PackedLayout.from_lengths([3, 11]).cu_seqlens),
        **dict.fromkeys(("cu_seqlens_q_padded", "cu_seqlens_kv_padded"), padded.cu_seqlens),
    }
    checked = contract(thd.dot_product_attention(cp_size=cp_size))(takes_all)
    assert reported(checked, call) == (cp_size == 4)  # 4 rows are no 8 chunks


def test_thd_without_padded_boundaries() -> None:
    call = ORACLES["thd"].call(PackedLayout.from_lengths([4, 8]))
    for name in ("cu_seqlens_q_padded", "cu_seqlens_kv_padded", "max_seqlen_q", "max_seqlen_kv", "qkv_format"):
        del call[name]
    assert not reported(contract(thd.dot_product_attention(cp_size=2))(takes_all), call)


def test_thd_refuses_a_cp_size_that_is_none() -> None:
    for make in (thd.dot_product_attention, thd.packed_seq_params):
        with pytest.raises(ValueError, match="cp_size=0: expected 1 or more ranks"):
            make(cp_size=0)


@dataclass
class PackedSeqParams:
    """Megatron's, with a field more than the preset knows."""

    qkv_format: str | None = None
    cu_seqlens_q: torch.Tensor | None = None
    cu_seqlens_kv: torch.Tensor | None = None
    cu_seqlens_q_padded: torch.Tensor | None = None
    cu_seqlens_kv_padded: torch.Tensor | None = None
    max_seqlen_q: int | None = None
    max_seqlen_kv: int | None = None
    cp_group: object = None


def test_megatron_packed_seq_params() -> None:
    def forward(hidden_states: torch.Tensor, attention_mask: Any = None, packed_seq_params: Any = None) -> torch.Tensor:
        return hidden_states

    checked = contract(thd.packed_seq_params(cp_size=2))(forward)
    x = torch.zeros(1)
    valid, padded = PackedLayout.from_lengths([3, 6]), PackedLayout.from_lengths([4, 8])
    params = PackedSeqParams("thd", valid.cu_seqlens, valid.cu_seqlens, padded.cu_seqlens, padded.cu_seqlens, 8, 8)
    checked(x)
    checked(x, packed_seq_params=params)
    for name, value in (
        ("cu_seqlens_q", None),
        ("cu_seqlens_q", padded.cu_seqlens + 4),
        ("cu_seqlens_kv_padded", valid.cu_seqlens),
        ("max_seqlen_q", 5),
        ("qkv_format", "bshd"),
    ):
        with pytest.raises(ContractError, match=f"packed_seq_params.{name}|packed_seq_params.cu_seqlens"):
            checked(x, packed_seq_params=PackedSeqParams(**{**vars(params), name: value}))


def test_transformers_takes_a_batch_that_is_not_packed() -> None:
    checked = contract(transformers.forward)(takes_all)
    checked(input_ids=torch.zeros(2, 5, dtype=torch.int64), labels=torch.zeros(2, 5, dtype=torch.int64))
    checked(inputs_embeds=torch.zeros(2, 5, 8), position_ids=torch.zeros(3, 2, 5, dtype=torch.int64))


def test_fla_without_a_copy_on_the_cpu() -> None:
    call = ORACLES["fla"].call(PackedLayout.from_lengths([2, 3]))
    del call["cu_seqlens_cpu"], call["initial_state"], call["g"]
    contract(fla.packed)(takes_all)(**call)


def test_ascend_trains_on_segments_that_are_empty_on_one_side_and_does_not_infer_on_them() -> None:
    rows = {name: torch.zeros(5, 2, 8) for name in ("query", "key", "value")}
    train, infer = (
        contract(one)(takes_all) for one in (ascend.npu_fusion_attention, ascend.npu_fused_infer_attention_score)
    )
    train(**rows, input_layout="TND", actual_seq_qlen=[2, 5], actual_seq_kvlen=(5, 5))
    train(**rows, input_layout="TND", actual_seq_qlen=[5], actual_seq_kvlen=[5])
    infer(**rows, input_layout="TND", actual_seq_lengths=[2, 5], actual_seq_lengths_kv=[3, 5])
    with pytest.raises(ContractError, match="sequence 0"):
        infer(**rows, input_layout="TND", actual_seq_lengths=[2, 5], actual_seq_lengths_kv=[5, 5])


def test_a_preset_in_a_compiled_region() -> None:
    @torch.compile(fullgraph=True, backend="eager")
    def region(call: dict[str, Any]) -> torch.Tensor:
        return checked(**call)

    checked = contract(flash_attn.flash_attn_varlen_func)(fa2)
    call = ORACLES["flash_attn"].call(PackedLayout.from_lengths([3, 5]))
    assert region(call).shape == (8, 2, 8)


def test_importing_the_presets_imports_nothing_heavy() -> None:
    program = "import sys, shapecheck.presets; print(*{'torch', 'jaxtyping', 'beartype'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
