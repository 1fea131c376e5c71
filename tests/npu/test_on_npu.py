"""Runs the tests of `on_npu/` in a process of their own, which has a simulated "npu" device."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_on_npu():
    environment = os.environ | {
        "SHAPECHECK_SIMULATED_NPU": "1",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    folder = Path(__file__).parent / "on_npu"
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
