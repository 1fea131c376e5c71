import os

import pytest
import torch
from comparison import Comparison, compare_inference, own_cache
from packed_dit import SIZES, Config, build_model, prepare, random_request
from shapecheck.compile_backend.explanation import Explanation

from shapecheck import explain

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


def attend(q, mask):
    return torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)


def test_a_model_without_attention_does_not_pass():
    assert not Comparison(1.0, 1.0, 0.0, Explanation()).passed


def test_an_attention_that_was_left_alone_does_not_pass():
    found = explain(attend, torch.randn(1, 2, 6, 8), torch.ones(6, 6, dtype=torch.bool))
    assert not Comparison(1.0, 1.0, 0.0, found).passed


def test_a_difference_does_not_pass():
    model = build_model(Config(depth=1, attention="masked"))
    batch = prepare([random_request(SIZES["tiny"])])
    found = explain(model, **batch.arguments)
    assert Comparison(1.0, 1.0, 1e-7, found).passed
    assert not Comparison(1.0, 1.0, 1e-3, found).passed
    assert not Comparison(1.0, 1.0, float("nan"), found).passed


@pytest.mark.parametrize("before", [None, "/somewhere"])
def test_the_cache_is_a_folder_of_its_own(monkeypatch, before):
    monkeypatch.delenv(VARIABLE, raising=False)
    if before:
        monkeypatch.setenv(VARIABLE, before)
    with own_cache():
        folder = os.environ[VARIABLE]
        assert os.path.isdir(folder)
        assert folder != before
    assert os.environ.get(VARIABLE) == before
    assert not os.path.exists(folder)


@pytest.mark.slow
def test_both_ways():
    model = build_model(Config(depth=1, attention="masked"))
    batch = prepare([random_request(SIZES["small"]), random_request(SIZES["tiny"])])
    with own_cache():
        found = compare_inference(model, dict(batch.arguments))
    assert found.passed
    assert found.stock > 0
    assert found.ours > 0
