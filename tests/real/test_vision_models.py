"""Diffusion transformers and vision towers: text padding is lowered, and nothing changes by it."""

import importlib.util

import pytest
import torch

from .running import Recorder, check_equal, compiled
from .vision_models import (
    hunyuan_video,
    hunyuan_video_inputs,
    ideogram,
    ideogram_inputs,
    pixart,
    pixart_inputs,
    qwen_image,
    qwen_image_inputs,
    qwen_vision_attention,
    qwen_vision_attention_inputs,
    siglip2,
    siglip2_inputs,
)

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("diffusers") is None or importlib.util.find_spec("transformers") is None,
    reason="diffusers and transformers are not installed (extra `real`)",
)


def test_qwen_image_text_padding():
    record = compiled(qwen_image(layers=1), qwen_image_inputs(), train=False)
    assert record.lowered == 1


def test_qwen_image_block_by_block():
    # Each block builds the mask from the padding of the text, so that it is seen without the rest of the model.
    model = qwen_image(layers=2).eval()
    inputs = qwen_image_inputs()
    torch._dynamo.reset()
    record = Recorder()
    with torch.no_grad():
        expected = model(**inputs)[0]
        model.compile_repeated_blocks(backend=record, fullgraph=True)
        torch.testing.assert_close(model(**inputs)[0], expected, rtol=1e-4, atol=1e-5)
    assert len(record.reports) == 1
    assert record.lowered == 1


def test_ideogram_segments():
    record = compiled(ideogram(), ideogram_inputs(), train=True)
    assert record.lowered == 1
    assert "equal tags" in record.sites[0].mask


def test_hunyuan_video_text_padding():
    record = compiled(hunyuan_video(), hunyuan_video_inputs(), train=False)
    # The refiner of the text writes into its mask: padding may see the first token.
    refiner, double_stream, single_stream = record.sites
    assert not refiner.lowered
    assert "in place" in refiner.reason
    assert double_stream.lowered
    assert single_stream.lowered


def test_pixart_cross_attention_to_padded_text_is_left_alone():
    # (1 - mask) * -10000 of an integer mask: nothing says that its values are 0 and 1.
    record = compiled(pixart(), pixart_inputs(), train=False)
    assert record.lowered == 0
    assert len(record.sites) == 2
    assert all(record.reasons)


def test_siglip2_padded_patches():
    assert compiled(siglip2(), siglip2_inputs(), train=False).lowered == 1


def test_qwen_vision_tower_has_no_mask_to_lower():
    # Its SDPA path splits the rows by `cu_seqlens.tolist()`, which breaks the graph and leaves one call for each image.
    model = qwen_vision_attention()
    torch._dynamo.reset()
    record = Recorder()
    check_equal(model, torch.compile(model, backend=record), qwen_vision_attention_inputs(4, 12, 8), train=False)
    assert len(record.sites) == 3
    assert record.lowered == 0
    assert {site.mask for site in record.sites} == {"none"}
