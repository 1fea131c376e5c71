"""The hooks in `.pre-commit-hooks.yaml`, run on staged files as pre-commit runs them."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}

UNSAFE = """\
from flash_attn import flash_attn_varlen_func


def attend(q, k, v, lens):
    n = lens.max()
    return flash_attn_varlen_func(q, k, v, lens, lens, n, n)
"""
SAFE = """\
import numpy as np
import torch
from flash_attn import flash_attn_varlen_func


def attend(q, k, v, lens, n):
    cu = torch.from_numpy(np.concatenate(([0], np.cumsum(lens)))).to(q.device)
    return flash_attn_varlen_func(q, k, v, cu, cu, n, n)
"""


@pytest.fixture
def repository(tmp_path):
    """A git repository with staged files."""
    (tmp_path / "pyproject.toml").write_text('[tool.shapecheck]\nextend-exclude = ["vendored/"]\n')
    (tmp_path / "vendored").mkdir()
    for name, text in {"safe.py": SAFE, "unsafe.py": UNSAFE, "plain.py": "x = 1\n", "vendored/a.py": UNSAFE}.items():
        (tmp_path / name).write_text(text)
    for command in (["init", "--quiet"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def run(hook, repository, *files):
    program, *arguments = HOOKS[hook]["entry"].split()
    assert program == "shapecheck"
    command = [sys.executable, "-P", "-m", "shapecheck", *arguments, *files]
    return subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)


def changed(repository):
    command = ["git", "diff", "--name-only"]
    return subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("hook", HOOKS)
def test_commits_without_packed_metadata_pass(hook, repository):
    done = run(hook, repository, "plain.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "No findings.\n", "")


def test_a_faulty_file_fails_and_stays(repository):
    done = run("shapecheck", repository, "safe.py", "unsafe.py", "plain.py")
    assert done.returncode == 1
    assert "safe.py:8:44: VL404" in done.stdout
    assert "unsafe.py:6:44: VL101" in done.stdout
    assert changed(repository) == []


def test_excluded_files_are_left_out_though_they_are_named(repository):
    done = run("shapecheck", repository, "vendored/a.py")
    assert (done.returncode, "VL" in done.stdout) == (0, False)


def test_safe_fixes_alone_are_applied_and_fail_the_commit(repository):
    done = run("shapecheck-fix", repository, "safe.py", "unsafe.py")
    assert done.returncode == 1
    assert changed(repository) == ["safe.py"]
    assert "VL101" in done.stdout
    assert run("shapecheck-fix", repository, "safe.py").returncode == 0, "the second attempt passes"
