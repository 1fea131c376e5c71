"""Every preset with its generators."""

from functools import partial

from shapecheck.presets import ascend, fla, flash_attn, h3, thd, torch_varlen, transformers
from shapecheck.testing import _attention, _consumers, _h3, _h3_mutants, _h3_parts, _paged
from shapecheck.testing._oracle import Oracle

_TRAIN, _INFER = ("actual_seq_qlen", "actual_seq_kvlen"), ("actual_seq_lengths", "actual_seq_lengths_kv")

_ALL = (
    Oracle("h3", h3.forward, _h3.layout, _h3.call, _h3_mutants.mutants),
    Oracle("h3_served", h3.forward, _h3.layout, _h3.served_call, _h3_mutants.mutants),
    Oracle("h3_vllm_omni", h3.vllm_omni_forward, _h3.layout, _h3.vllm_omni_call, _h3_mutants.vllm_omni_mutants),
    Oracle("h3_refiner", h3.refine_prompt_embeds, _h3.layout, _h3_parts.refiner_call, _h3_parts.refiner_mutants),
    Oracle("h3_rope_cache", h3.build_rope_cache, _h3.layout, _h3_parts.rope_call, _h3_parts.rope_mutants),
    Oracle("flash_attn_paged", flash_attn.flash_attn_varlen_func_paged, _attention.layout, _paged.call, _paged.mutants),
    Oracle(
        "megatron",
        thd.packed_seq_params(cp_size=_consumers.CP_SIZE),
        _consumers.thd_layout,
        _consumers.megatron_call,
        _consumers.megatron_mutants,
    ),
    Oracle(
        "flash_attn",
        flash_attn.flash_attn_varlen_func,
        _attention.layout,
        partial(_attention.call, names=_consumers.FLASH_ATTN),
        partial(_attention.mutants, names=_consumers.FLASH_ATTN),
    ),
    Oracle(
        "torch_varlen",
        torch_varlen.varlen_attn,
        _attention.layout,
        partial(_attention.call, names=_consumers.TORCH),
        partial(_attention.mutants, names=_consumers.TORCH),
    ),
    Oracle(
        "thd",
        thd.dot_product_attention(cp_size=_consumers.CP_SIZE),
        _consumers.thd_layout,
        _consumers.thd_call,
        _consumers.thd_mutants,
    ),
    Oracle(
        "transformers",
        transformers.forward,
        _attention.layout,
        _consumers.transformers_call,
        _consumers.transformers_mutants,
    ),
    Oracle("fla", fla.packed, _attention.layout, _consumers.fla_call, _consumers.fla_mutants),
    Oracle(
        "npu_fusion_attention",
        ascend.npu_fusion_attention,
        _attention.layout,
        partial(_consumers.ascend_call, names=_TRAIN),
        partial(_consumers.ascend_mutants, names=_TRAIN),
    ),
    Oracle(
        "npu_fused_infer_attention_score",
        ascend.npu_fused_infer_attention_score,
        _consumers.infer_layout,
        partial(_consumers.ascend_call, names=_INFER),
        _consumers.infer_mutants,
    ),
)

ORACLES = {oracle.name: oracle for oracle in _ALL}
"""By name: `h3`, `h3_served`, `h3_vllm_omni`, `h3_refiner`, `h3_rope_cache`, `flash_attn`, `flash_attn_paged`,
`torch_varlen`, `thd` and `megatron` (context parallelism over 2 ranks), `transformers`, `fla`, `npu_fusion_attention`,
`npu_fused_infer_attention_score`."""
