"""Small random-weight diffusion transformers and vision towers, and their inputs."""

from typing import Any

import torch
from torch import Tensor, nn


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(1)


def text_mask(lengths: tuple[int, ...], columns: int) -> Tensor:
    """True for the valid tokens of texts padded to `columns`, `[B, columns]`."""
    return torch.arange(columns) < torch.tensor(lengths)[:, None]


def qwen_image(layers: int) -> nn.Module:
    import diffusers

    torch.manual_seed(0)
    return diffusers.QwenImageTransformer2DModel(
        patch_size=2,
        in_channels=16,
        out_channels=4,
        num_layers=layers,
        attention_head_dim=16,
        num_attention_heads=3,
        joint_attention_dim=16,
        axes_dims_rope=(8, 4, 4),
    )


def qwen_image_inputs(lengths: tuple[int, ...] = (3, 7), columns: int = 7, side: int = 4) -> dict[str, Any]:
    """Texts of `lengths` tokens padded to `columns`, and an image of `side` x `side` patches each."""
    batch = len(lengths)
    generator = _generator()
    return {
        "hidden_states": torch.randn(batch, side * side, 16, generator=generator),
        "encoder_hidden_states": torch.randn(batch, columns, 16, generator=generator),
        "encoder_hidden_states_mask": text_mask(lengths, columns),
        "timestep": torch.full((batch,), 0.5),
        "img_shapes": [[(1, side, side)]] * batch,
        "return_dict": False,
    }


def hunyuan_video() -> nn.Module:
    """One refiner block over the text, one double-stream and one single-stream block over video and text."""
    import diffusers

    torch.manual_seed(0)
    return diffusers.HunyuanVideoTransformer3DModel(
        in_channels=4,
        out_channels=4,
        num_attention_heads=2,
        attention_head_dim=16,
        num_layers=1,
        num_single_layers=1,
        num_refiner_layers=1,
        patch_size=1,
        patch_size_t=1,
        text_embed_dim=16,
        pooled_projection_dim=8,
        rope_axes_dim=(4, 6, 6),
    )


def hunyuan_video_inputs(lengths: tuple[int, ...] = (3, 7), columns: int = 7) -> dict[str, Any]:
    batch = len(lengths)
    generator = _generator()
    return {
        "hidden_states": torch.randn(batch, 4, 2, 4, 4, generator=generator),
        "timestep": torch.full((batch,), 500),
        "encoder_hidden_states": torch.randn(batch, columns, 16, generator=generator),
        "encoder_attention_mask": text_mask(lengths, columns).long(),
        "pooled_projections": torch.randn(batch, 8, generator=generator),
        "guidance": torch.full((batch,), 6.0),
        "return_dict": False,
    }


def ideogram() -> nn.Module:
    import diffusers

    torch.manual_seed(0)
    return diffusers.Ideogram4Transformer2DModel(
        in_channels=8,
        num_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        intermediate_size=48,
        adaln_dim=16,
        llm_features_dim=24,
        mrope_section=(4, 2, 2),
    )


def ideogram_inputs(lengths: tuple[int, ...] = (3, 7), columns: int = 7, side: int = 4) -> dict[str, Any]:
    """Texts of `lengths` tokens padded on their left to `columns`, and an image each; padding is a segment of its own."""
    from diffusers.models.transformers.transformer_ideogram4 import LLM_TOKEN_INDICATOR, OUTPUT_IMAGE_INDICATOR

    text, image = text_mask(lengths, columns).flip(1), torch.ones(len(lengths), side * side, dtype=torch.bool)
    rows = columns + side * side
    kinds = [LLM_TOKEN_INDICATOR * text, OUTPUT_IMAGE_INDICATOR * image]
    generator = _generator()
    return {
        "hidden_states": torch.randn(len(lengths), rows, 8, generator=generator),
        "timestep": torch.full((len(lengths),), 0.5),
        "encoder_hidden_states": torch.randn(len(lengths), rows, 24, generator=generator),
        "position_ids": torch.arange(rows)[None, :, None].expand(len(lengths), -1, 3).contiguous(),
        "segment_ids": torch.cat([text, image], 1).long() - 1,
        "indicator": torch.cat(kinds, 1),
        "return_dict": False,
    }


def pixart() -> nn.Module:
    """One block: self-attention over the patches without a mask, cross-attention to the padded text."""
    import diffusers

    torch.manual_seed(0)
    return diffusers.PixArtTransformer2DModel(
        sample_size=8,
        num_layers=1,
        patch_size=2,
        attention_head_dim=16,
        num_attention_heads=2,
        caption_channels=32,
        in_channels=4,
        cross_attention_dim=32,
        out_channels=8,
        num_embeds_ada_norm=8,
        use_additional_conditions=False,
    )


def pixart_inputs(lengths: tuple[int, ...] = (3, 7), columns: int = 7) -> dict[str, Any]:
    batch = len(lengths)
    generator = _generator()
    return {
        "hidden_states": torch.randn(batch, 4, 8, 8, generator=generator),
        "encoder_hidden_states": torch.randn(batch, columns, 32, generator=generator),
        "encoder_attention_mask": text_mask(lengths, columns).long(),
        "timestep": torch.full((batch,), 7),
        "added_cond_kwargs": {"resolution": None, "aspect_ratio": None},
        "return_dict": False,
    }


def siglip2() -> nn.Module:
    import transformers

    torch.manual_seed(0)
    config = transformers.Siglip2VisionConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_patches=16,
        patch_size=4,
        vision_use_head=False,
    )
    return transformers.Siglip2VisionModel(config)


def siglip2_inputs() -> dict[str, Tensor]:
    """Images of 3 x 4 and 4 x 4 patches, padded to 16 patches."""
    shapes = torch.tensor([[3, 4], [4, 4]])
    return {
        "pixel_values": torch.randn(2, 16, 48, generator=_generator()),
        "pixel_attention_mask": text_mask((12, 16), 16).int(),
        "spatial_shapes": shapes,
    }


def qwen_vision_attention() -> nn.Module:
    """Attention of the Qwen2.5-VL vision tower: packed images, boundaries in `cu_seqlens`."""
    from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLVisionConfig
    from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLVisionAttention

    torch.manual_seed(0)
    config = Qwen2_5_VLVisionConfig(hidden_size=32, num_heads=2, attn_implementation="sdpa")
    return Qwen2_5_VLVisionAttention(config)


def qwen_vision_attention_inputs(*lengths: int) -> dict[str, Any]:
    boundaries = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    angles = torch.randn(sum(lengths), 16, generator=_generator())
    return {
        "hidden_states": torch.randn(sum(lengths), 32, generator=_generator()),
        "cu_seqlens": boundaries,
        "position_embeddings": (angles.cos(), angles.sin()),
    }
