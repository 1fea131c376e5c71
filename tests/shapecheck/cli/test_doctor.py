import importlib.metadata
import sys
from types import ModuleType

import pytest
from click.testing import CliRunner

from shapecheck._cli import doctor, main


def run(**environment):
    return CliRunner().invoke(main, ["doctor"], env={"SHAPECHECK": None, **environment})


def test_plain():
    result = run()
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.split("\n")
    for title in ("versions", "devices", "varlen attention kernels", "checks"):
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
