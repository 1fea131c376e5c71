import json
import sys

import pytest
from click.testing import CliRunner

from shapecheck._cli import main

MODULE = """
import torch
from torch import nn

class Attention(nn.Module):
    def forward(self, q, boundaries, *, factor=1.0):
        ids = torch.searchsorted(boundaries, torch.arange(q.shape[2]), right=True)
        mask = ids[:, None] == ids[None, :]
        return nn.functional.scaled_dot_product_attention(q * factor, q, q, attn_mask=mask)

    def broken(self):
        raise KeyError("batch")

def call():
    return Attention(), (torch.randn(1, 2, 12, 8), torch.tensor([0, 5, 12]))

def with_kwargs():
    return (*call(), {"factor": 2.0})

def without_attention():
    return torch.sin, [torch.ones(3)]

def failing():
    raise ValueError("no checkpoint\\nat all")

def wrong():
    return Attention(), torch.ones(3)

def nothing():
    return None

def failing_call():
    return Attention().broken, ()

number = 3
"""


@pytest.fixture
def run(tmp_path, monkeypatch, request):
    name = f"explained_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    (tmp_path / f"{name}_broken.py").write_text("import no_such_module\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(target, *options):
        return CliRunner().invoke(
            main, ["explain", target.replace("m:", f"{name}:").replace("m_broken:", f"{name}_broken:"), *options]
        )

    return run


@pytest.mark.parametrize("factory", ["call", "with_kwargs"])
def test_the_table(run, factory):
    result = run(f"m:{factory}")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("shapecheck: 1 of 1 attention lowered, 1 graph, 0 graph breaks, ")
    assert "  packing      2 segments, longest 7 rows\n" in result.stdout


def test_json(run):
    result = run("m:call", "--json")
    assert result.exit_code == 0
    read = json.loads(result.stdout)
    boundaries = read["sites"][0]["observed"][0]["cu_seqlens_q"]
    assert sorted(set(boundaries)) == [0, 5, 12]


def test_the_page(run, tmp_path):
    result = run("m:call", "--html", "page.html")
    assert result.exit_code == 0
    assert "<svg" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_nothing_to_lower_is_no_error(run):
    result = run("m:without_attention")
    assert result.exit_code == 0
    assert result.stdout.startswith("shapecheck: no attention found, 1 graph")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("m", "is not MODULE:FACTORY, such as mymodel.debug:small_batch."),
        (":call", "':call' is not MODULE:FACTORY"),
        ("no.such:call", "Error: importing no.such failed:\nModuleNotFoundError: No module named 'no'\n"),
        ("m_broken:call", "_broken.py:1:\nModuleNotFoundError: No module named 'no_such_module'\n"),
        ("m:other", " has no other.\n"),
        ("m:number", ".number is no function.\n"),
        ("m:failing", ".py:24:\nValueError: no checkpoint\nat all\n"),
        ("m:failing_call", ".py:12:\nKeyError: 'batch'\n"),
        ("m:wrong", ":wrong() returned (Attention, Tensor), expected (fn, args) or (fn, args, kwargs).\n"),
        ("m:nothing", ":nothing() returned a value of type NoneType, expected (fn, args) or (fn, args, kwargs).\n"),
    ],
)
def test_errors_are_for_users(run, target, message):
    result = run(target)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_a_page_that_cannot_be_written(run):
    result = run("m:without_attention", "--html", "no/such/folder/page.html")
    assert result.exit_code == 2
    assert result.stderr.endswith("No such file or directory.\n")


def test_without_torch(run, monkeypatch, tmp_path):
    (tmp_path / "plain_module.py").write_text("def call():\n    return print, ()\n")
    for name in [name for name in sys.modules if name.startswith("shapecheck.compile_backend")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    result = run("plain_module:call")
    assert result.exit_code == 2
    assert result.stderr == "Error: torch is not installed: pip install 'shapecheck-varlen[torch]'.\n"
