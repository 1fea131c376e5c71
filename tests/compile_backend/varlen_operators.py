"""Operators with the names and arguments of libraries that are not installed here; they return their queries."""

import torch

QKV = "Tensor q, Tensor k, Tensor v"
FLASH = f"({QKV}, Tensor cu_seqlens_q, Tensor cu_seqlens_k, SymInt max_seqlen_q, SymInt max_seqlen_k"
FLASH_FORWARD = f"_flash_attn_varlen_forward{FLASH}, Tensor? seqused_k=None, Tensor? block_table=None) -> Tensor"
NPU = "(Tensor query, Tensor key, Tensor value"
ENDS = "actual_seq_qlen=None, {0}? actual_seq_kvlen=None) -> Tensor"
LIBRARIES = {
    "flash_attn": (FLASH_FORWARD, f"_flash_attn_varlen_backward{FLASH}) -> Tensor"),
    "npu": (
        f"npu_fusion_attention{NPU}, int head_num, str input_layout, *, SymInt[]? {ENDS.format('SymInt[]')}",
        f"npu_fusion_attention_v3{NPU}, int head_num, str input_layout, *, Tensor? {ENDS.format('Tensor')}",
        f"npu_fused_infer_attention_score{NPU}, *, Tensor? actual_seq_lengths=None, str input_layout='BSH') -> Tensor",
    ),
    "shapecheck_test": (
        FLASH_FORWARD,
        f"home_made({QKV}, Tensor cu_seqlens_q, Tensor cu_seqlens_kv) -> Tensor",
        "rows_of(Tensor x, Tensor cu_seqlens) -> Tensor",
    ),
}
KEPT = []
for namespace, schemas in LIBRARIES.items():
    library = torch.library.Library(namespace, "FRAGMENT")
    KEPT.append(library)
    for schema in schemas:
        name = schema.partition("(")[0]
        library.define(schema)
        library.impl(name, lambda q, *rest, **named: q * 2, "CompositeExplicitAutograd")
        fake = lambda q, *rest, **named: torch.empty_like(q)  # noqa: E731
        torch.library.register_fake(f"{namespace}::{name}", fake, lib=library)

flash = torch.ops.flash_attn._flash_attn_varlen_forward
fusion = torch.ops.npu.npu_fusion_attention
fusion_v3 = torch.ops.npu.npu_fusion_attention_v3
infer = torch.ops.npu.npu_fused_infer_attention_score
others = torch.ops.shapecheck_test
