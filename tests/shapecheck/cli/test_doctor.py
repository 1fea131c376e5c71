import importlib.metadata
import itertools
import subprocess
import sys
from types import ModuleType

import pytest
import torch
from click.testing import CliRunner

from shapecheck._attention.kernels import kernel_for
from shapecheck._cli import doctor, main


def run(**environment):
    return CliRunner().invoke(main, ["doctor"], env={"SHAPECHECK": None, **environment})


def test_plain():
    result = run()
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.split("\n")
    for title in ("versions", "devices", "varlen attention kernels", "shapecheck.varlen_attention", "checks"):
        assert title in lines
    assert f"  torch       {importlib.metadata.version('torch')}" in lines
    assert "  host  default" in lines
    assert any(line.split()[:2] == ["torch", "varlen_attn"] for line in lines)
    assert "…" not in result.stdout


@pytest.mark.parametrize("level", ["off", "shape", "host", "device", "sync"])
def test_levels(level):
    result = run(SHAPECHECK=level)
    assert result.exit_code == 0
    assert f"  {level}  environment variable SHAPECHECK\n" in result.stdout


@pytest.mark.parametrize("level", ["on", "1"])
def test_a_level_that_is_none(level):
    result = run(SHAPECHECK=level)
    assert result.exit_code == 2
    assert result.stderr == f"Error: SHAPECHECK={level!r}: expected one of off, shape, host, device, sync\n"
    assert f"  {level!r}, no level  environment variable SHAPECHECK\n" in result.stdout


@pytest.mark.parametrize(
    ("level", "row"), [("", "host  default"), ("  ", "host  default"), ("HOST", "host  environment")]
)
def test_a_level_is_read_as_contracts_read_it(level, row):
    result = run(SHAPECHECK=level)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"  {row}" in result.stdout


def test_kernels_are_found_without_importing_them(tmp_path, monkeypatch):
    (tmp_path / "flash_attn" / "cute").mkdir(parents=True)
    (tmp_path / "flash_attn" / "__init__.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "flash_attn" / "cute" / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    found = {row[1]: row[2] for row in doctor._kernels()}
    assert found["flash_attn.cute"] == "found"
    assert found["flash_attn.flash_attn_interface"] == "not installed"
    assert "flash_attn" not in sys.modules


def test_exists():
    assert doctor._exists("torch.nn.attention")
    assert not doctor._exists("torch.nn.attention.no_such_module")
    assert not doctor._exists("no_such_package.inner")
    assert not doctor._exists("sys.inner")


def test_a_module_without_a_spec(monkeypatch):
    monkeypatch.setitem(sys.modules, "fla", ModuleType("fla"))
    sys.modules["fla"].__spec__ = None
    assert not doctor._exists("fla")


def test_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(doctor, "_version", lambda distribution: None)
    result = run()
    assert result.exit_code == 0
    assert "torch is not installed" in result.stdout
    assert "  torch       not installed" in result.stdout


def section(result, title):
    """The rows below a title."""
    lines = result.stdout.split("\n")
    rows = itertools.takewhile(lambda line: line.startswith("  "), lines[lines.index(title) + 1 :])
    return [row.strip() for row in rows]


def test_no_kernel_without_torch():
    code = "import sys; sys.modules['torch'] = None; from shapecheck._cli import main; main(['doctor'])"
    result = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert result.stderr == ""
    (row,) = section(result, "shapecheck.varlen_attention")
    assert row == "cpu  none: import of torch halted; None in sys.modules  not installed"


def test_the_kernels_of_varlen_attention():
    kernels = section(run(), "shapecheck.varlen_attention")
    assert kernels[0] == f"cpu  {kernel_for('cpu').name}  inductor"


@pytest.mark.parametrize(("active", "shown"), [(None, ""), ("FA3", " (FA3 is active)")])
def test_the_flash_implementation_that_cuda_would_use(monkeypatch, active, shown):
    monkeypatch.setattr(torch.nn.attention, "current_flash_attention_impl", lambda: active)
    assert doctor._own_kernels(["cuda"]) == [("cuda", kernel_for("cuda").name + shown, "inductor")]


def test_devices_without_a_kernel():
    ((device, kernel, inner),) = doctor._own_kernels(["mps"])
    assert device == "mps"
    assert kernel.startswith("none: shapecheck::varlen_attention has no kernel for device type 'mps'")
    assert inner == "aot_eager"


def test_a_kernel_whose_library_does_not_import(monkeypatch):
    monkeypatch.setattr(doctor, "_devices", lambda: [("cpu", "2 threads"), ("npu:0", "Ascend"), ("npu:1", "Ascend")])
    kernel_for.cache_clear()
    monkeypatch.setitem(sys.modules, "shapecheck._attention.kernels.npu", None)
    result = run()
    assert result.exit_code == 0
    rows = section(result, "shapecheck.varlen_attention")
    assert [row.split()[0] for row in rows] == ["cpu", "npu"]
    assert "none: import of shapecheck._attention.kernels.npu halted" in rows[1]


def test_the_entry_point_of_the_backend(monkeypatch):
    assert section(run(), "compile backend") == ["shapecheck  shapecheck.compile_backend:backend"]
    monkeypatch.setattr(doctor, "entry_points", lambda **selection: ())
    assert "not found: install shapecheck-varlen anew" in section(run(), "compile backend")[0]
