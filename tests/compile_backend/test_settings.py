"""What `mode=` and `options=` may say, and what they may not."""

import pytest
import torch
from shapecheck.compile_backend import settings
from torch._dynamo.exc import BackendCompilerFailed


def test_nothing_asked_for_is_nothing_set():
    assert settings.parse(None, None) == settings.Settings(None, "raise", {})


def test_own_keys_are_taken_out_and_the_rest_is_inductors():
    asked = settings.parse(None, {"on_divergence": "warn", "max_autotune": True, "trace.enabled": False})
    assert asked == settings.Settings(None, "warn", {"max_autotune": True, "trace.enabled": False})


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_a_mode_is_what_it_is_in_inductor(mode):
    patches = torch._inductor.list_mode_options(mode)
    assert settings.parse(mode, None).patches == patches
    # torch.compile refuses a mode beside options, so options take one too.
    assert settings.parse(None, {"mode": mode, "cpp.threads": 1}).patches == {**patches, "cpp.threads": 1}


def test_the_default_mode_sets_nothing():
    assert settings.parse("default", None).patches == {}


@pytest.mark.parametrize(
    ("mode", "options", "named"),
    [
        ("fastest", None, "default, lite, reduce-overhead"),
        (None, {"mode": "fastest"}, "default, lite, reduce-overhead"),
        (None, {"iner": "eager"}, "did you mean 'inner'"),
        (None, {"max_autotun": True}, "'max_autotune'"),
        (None, {"on_divergence": "ignore"}, "raise, warn, skip"),
        (None, {"inner": 3}, "name of a backend, or a callable"),
        (None, {"inner": "shapecheck"}, "another backend"),
        (None, {"inner": "eager", "max_autotune": True}, "settings of Inductor"),
    ],
)
def test_what_is_none_is_refused_and_the_valid_ones_named(mode, options, named):
    with pytest.raises(ValueError, match=named):
        settings.parse(mode, options)
    with pytest.raises(BackendCompilerFailed, match=named):
        torch.compile(torch.sin, backend="shapecheck", mode=mode, options=options)(torch.ones(2))


@pytest.mark.parametrize("device", ["cpu", "cuda", "xpu"])
def test_inductor_where_it_generates_code(device):
    assert settings.default_inner(device) == "inductor"


def test_a_device_that_brings_a_backend_gets_its_own(monkeypatch):
    assert settings.default_inner("npu") == "aot_eager"
    monkeypatch.setattr(settings, "entry_points", lambda group, name: [name] if name == "npu" else [])
    assert settings.default_inner("npu") == "npu"
    assert settings.default_inner("mps") == "aot_eager"
