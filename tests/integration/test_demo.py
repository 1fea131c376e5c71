import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from packed_dit import SIZES, build_model, faults, prepare, random_request

import shapecheck

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


@pytest.fixture
def demo():
    return importlib.import_module("demo")


def test_faults_at_the_real_size(demo, capsys):
    model = build_model(demo.NARROW)
    batch = prepare([random_request(SIZES["720p"], model.config)])
    assert demo.show_faults(model, batch) == [True] * 4
    lines = capsys.readouterr().out.split("\n")
    for line in (
        "def tags_of_one_modality(forward: Forward, batch: Batch) -> tuple[Tensor, Tensor]:",
        "ContractError: PackedDiT.forward: token_tags axis 0 (S) is 57600, expected 58816",
        "  S = 58816 was bound by x axis 1 (x is float32[1, 58816, 96])",
        "  57600 rows are video only; text (128), image (880), audio (150) and padding (58) are missing",
        "  x           [tia|vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv.] 58816",
        "  token_tags  [   |vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv ] 57600",
        "               ^^^                                                        ^  missing",
        "ContractError: PackedDiT.forward: token_tags axis 0 (S) is 58758, expected 58816",
        "  58758 rows are text, image, audio and video only; padding (58) is missing",
        "LayoutError: seq_len is 57920, but the parts need 58758 rows",
        "IndexError: index out of range in self",
        "  the padding trimmed 838 rows of video without a word",
        "ContractError: PackedDiT.forward: cu_seqlens_k axis 0 (B+1) is 3, expected 4",
        "no error",
        "  silently wrong: the first request attends to the second, and the second to padding;",
    ):
        assert line in lines
    assert "NO ERROR" not in "".join(lines)
    assert "\x1b" not in "".join(lines)


@pytest.mark.parametrize("error", [shapecheck.LayoutError, ZeroDivisionError])
def test_a_fault_that_raises_something_else_is_not_caught(demo, capsys, error):
    model = build_model()
    batch = prepare([random_request(SIZES["small"])])
    assert not demo.show_fault("title", faults.tags_before_padding, error, "", model, batch)
    assert "UNEXPECTED ContractError: PackedDiT.forward: token_tags axis 0" in capsys.readouterr().out


def test_a_fault_with_another_text_is_not_caught(demo):
    model = build_model()
    batch = prepare([random_request(SIZES["small"])])
    assert not demo.show_fault("title", faults.tags_before_padding, shapecheck.ContractError, "other", model, batch)


def test_a_fault_without_an_error_is_not_caught(demo, capsys):
    model = build_model()
    batch = prepare([random_request(SIZES["small"]), random_request(SIZES["tiny"])])
    bare = faults.without_contract(model)
    assert not demo.show_fault("title", faults.keys_of_another_batch, shapecheck.ContractError, "", bare, batch)
    assert "NO ERROR, expected ContractError" in capsys.readouterr().out


def test_finding_the_benchmarks_leaves_the_path_alone(demo):
    before = list(sys.path)
    assert hasattr(demo.benchmark(), "quick_table")
    assert sys.path == before


@pytest.mark.slow
def test_the_script(tmp_path):
    # From another folder: nothing but the script's own folder may be on its path.
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    run = subprocess.run(
        [sys.executable, str(DEMO)],
        check=False,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stderr == ""
    lines = run.stdout.split("\n")
    assert "58,816 rows = 58,758 used + 58 padding (align 64), 1 sample, 2 segments, longest 58,758" in lines
    assert any(line.startswith("video velocity [58480, 96], audio velocity [150, 32]: ") for line in lines)
    assert any(line.startswith("4 of 4 faults caught, the pipeline mended, 2 of 2 models lowered, ") for line in lines)
    assert run.stdout.count("equal but for rounding") == 2
    assert run.stdout.count("shapecheck: 1 of 1 attention lowered") == 2
    assert "jaxtyping + beartype" in run.stdout
