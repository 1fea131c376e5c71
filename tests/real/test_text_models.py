"""Language models of transformers: which attentions are lowered, and that nothing changes by it."""

import importlib.util
from typing import Any

import pytest
import torch
from torch import Tensor

from shapecheck._attention._call import Call, Kernel
from shapecheck._attention.kernels import kernel_for

from .running import Recorder, check_equal, compiled
from .text_models import build, decoder, packed, padded

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="transformers is not installed (extra `real`)"
)

BERT = {"num_hidden_layers": 1, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def test_packed_llama():
    record = compiled(decoder("Llama", layers=2), packed((5, 7, 20)), train=True)
    assert record.lowered == 2
    assert all(site.causal for site in record.sites)
    assert len({site.boundaries for site in record.sites}) == 1


def test_packed_llama_with_explicit_softmax():
    record = compiled(decoder("Llama", "eager"), packed((5, 7, 20)), train=True)
    assert [site.form for site in record.sites] == ["softmax"]
    assert record.lowered == 1


def test_packed_llama_by_name():
    model = decoder("Llama")
    torch._dynamo.reset()
    by_name = torch.compile(model, backend="shapecheck", options={"inner": "aot_eager"}, fullgraph=True)
    check_equal(model, by_name, packed((5, 7, 20)), train=False)


@pytest.mark.slow
def test_packed_llama_under_inductor():
    model = decoder("Llama")
    torch._dynamo.reset()
    check_equal(model, torch.compile(model, backend="shapecheck", fullgraph=True), packed((5, 7, 20)), train=True)


def test_keys_are_not_repeated_for_grouped_queries(monkeypatch: pytest.MonkeyPatch):
    kernel = kernel_for("cpu")
    forward, heads = type(kernel).forward, set()

    def watched(self: Kernel, q: Tensor, k: Tensor, v: Tensor, call: Call) -> tuple[Tensor, Tensor]:
        heads.add((q.shape[1], k.shape[1], v.shape[1]))
        return forward(self, q, k, v, call)

    monkeypatch.setattr(type(kernel), "forward", watched)
    assert compiled(decoder("Qwen3", head_dim=16), packed((5, 7, 20)), train=True).lowered == 1
    assert heads == {(4, 2, 2)}


def test_rows_with_different_packings():
    record = compiled(decoder("Llama"), packed((5, 7, 20), (12, 20)), train=False)
    assert record.lowered == 1


def test_without_position_ids_the_row_is_one_sequence():
    inputs = {"input_ids": packed((32,))["input_ids"]}
    assert compiled(decoder("Llama"), inputs, train=False).lowered == 1


def test_checkpointed_layers():
    model = decoder("Llama", layers=2)
    model.activation_checkpointing_enable()
    record = compiled(model, packed((5, 7, 20)), train=True)
    assert record.lowered == 2


def check_one_graph(model: torch.nn.Module, batches: list[dict[str, Any]]) -> None:
    """Assert that one lowered graph computes batches of any size."""
    torch._dynamo.reset()
    record = Recorder()
    run = torch.compile(model, backend=record, fullgraph=True, dynamic=True)
    check_equal(model, run, batches[0], train=False)
    compiles = len(record.reports)  # more than one where Dynamo starts again, which it does to specialize a float
    for batch in batches[1:]:
        check_equal(model, run, batch, train=False)
    assert len(record.reports) == compiles
    assert [site.lowered for site in record.reports[-1].sites] == [True]


def test_any_packing_in_one_graph():
    model = decoder("Llama")
    lengths = [(5, 7, 20), (1, 30, 2, 8), (1,) * 12]
    check_one_graph(model, [packed(row) for row in lengths])


def test_bfloat16_is_as_near_to_float32_as_eager():
    inputs = packed((5, 7, 20))
    model = decoder("Llama")
    with torch.no_grad():
        exact = model(**inputs).last_hidden_state
        model.to(torch.bfloat16)
        eager = model(**inputs).last_hidden_state
        torch._dynamo.reset()
        record = Recorder()
        ours = torch.compile(model, backend=record, fullgraph=True)(**inputs).last_hidden_state
    assert record.lowered == 1
    assert ours.dtype == torch.bfloat16
    assert (ours - exact).square().mean() <= 1.2**2 * (eager - exact).square().mean()


def test_sliding_window():
    record = compiled(decoder("Mistral", head_dim=16, sliding_window=6), packed((5, 7, 20)), train=True)
    assert record.lowered == 1
    assert [(site.causal, site.window[0]) for site in record.sites] == [(True, 5)]


def test_layers_with_and_without_a_window():
    types = ["sliding_attention", "full_attention"]
    model = decoder("Gemma3Text", layers=2, head_dim=16, sliding_window=6, layer_types=types)
    record = compiled(model, packed((5, 7, 20)), train=False)
    assert record.lowered == 2
    assert [(site.causal, site.window[0]) for site in record.sites] == [(True, 5), (True, -1)]


def gemma2(**settings: Any) -> torch.nn.Module:
    return decoder("Gemma2", "eager", head_dim=16, sliding_window=6, **settings)


def test_soft_capped_scores_are_left_alone():
    record = compiled(gemma2(), packed((5, 7, 20)), train=False)
    assert record.lowered == 0
    assert len(record.reasons) == 1
    assert "tanh" in record.reasons[0]


def test_gemma2_without_soft_capping():
    record = compiled(gemma2(attn_logit_softcapping=None), packed((5, 7, 20)), train=False)
    assert record.lowered == 1


def test_padded_llama():
    model = decoder("Llama")
    torch._dynamo.reset()
    record = Recorder()
    run = torch.compile(model, backend=record, fullgraph=True)
    for side in ("left", "right"):  # left padding has rows that see no key
        check_equal(model, run, padded(9, 16, 4, side=side), train=True)
    assert len(record.reports) == 1
    assert [(site.lowered, site.causal) for site in record.sites] == [(True, True)]


def test_padded_mistral():
    record = compiled(decoder("Mistral", head_dim=16, sliding_window=6), padded(9, 16, 4, side="left"), train=False)
    assert record.lowered == 1


def test_padded_llama_with_explicit_softmax():
    # With finfo.min as bias, a row that sees no key is the mean of all values, and left padding has such rows.
    model = decoder("Llama", "eager")
    torch._dynamo.reset()
    record = Recorder()
    run = torch.compile(model, backend=record, fullgraph=True)
    for side in ("left", "right"):
        check_equal(model, run, padded(9, 16, 4, side=side), train=True)
    assert len(record.reports) == 1
    assert [(site.form, site.lowered) for site in record.sites] == [("softmax", True)]
    assert any("mean of all values" in obligation.detail for obligation in record.sites[0].obligations)


def test_modern_bert_alternates_full_and_local_attention():
    model = build("ModernBert", num_hidden_layers=2, local_attention=8)
    record = compiled(model, padded(9, 16, 4), train=True)
    assert record.lowered == 2
    assert [site.window for site in record.sites] == [(-1, -1), (4, 4)]
    assert not any(site.causal for site in record.sites)


def test_any_padding_in_one_graph():
    model = build("ModernBert", num_hidden_layers=1)
    check_one_graph(model, [padded(9, 16, 4), padded(12, 12, 12, 5)])


def test_bert():
    assert compiled(build("Bert", **BERT), padded(9, 16, 4), train=False).lowered == 1


def test_encoder_and_decoder_with_paddings_of_their_own():
    sides = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
    settings = {"d_model": 64, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96, "dropout": 0.0, "use_cache": False}
    target = {f"decoder_{name}": value for name, value in padded(5, 7, 12).items()}
    record = compiled(build("Bart", **sides, **settings), {**padded(9, 16, 4), **target}, train=False)
    assert record.lowered == 3  # of the encoder, of the decoder, and from the decoder to the encoder
    assert [site.causal for site in record.sites] == [False, True, False]


def test_dropout_in_training_is_left_alone():
    # Dropout's random numbers differ between eager and compiled: only what was decided is of interest.
    model = build("Bert", **{**BERT, "attention_probs_dropout_prob": 0.1}).train()
    torch._dynamo.reset()
    record = Recorder()
    torch.compile(model, backend=record, fullgraph=True)(**padded(9, 16, 4))
    assert record.lowered == 0
    assert len(record.reasons) == 1
    assert "dropout" in record.reasons[0]


def test_position_bias_is_left_alone():
    model = build(
        "T5", "eager", "EncoderModel", d_model=32, d_kv=16, d_ff=48, num_layers=1, num_heads=2, dropout_rate=0.0
    )
    record = compiled(model, padded(9, 16, 4), train=False)
    assert record.lowered == 0
    assert len(record.reasons) == 1
    assert "no mask" in record.reasons[0]


@torch.no_grad()
def test_layer_that_is_compiled_alone_gets_its_mask_as_an_input():
    model = decoder("Llama")
    inputs = packed((5, 7, 20))
    torch._dynamo.reset()
    record = Recorder()
    expected = model(**inputs).last_hidden_state
    for layer in model.layers:
        layer.compile(backend=record, fullgraph=True)
    torch.testing.assert_close(model(**inputs).last_hidden_state, expected)
    assert record.lowered == 0
    assert len(record.reasons) == 1
    assert "input" in record.reasons[0]
