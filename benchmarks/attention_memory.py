"""Peak memory of the lowered module at S=32,768, where the dense mask alone takes 1 GiB."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import torch

from benchmarks.attention_cases import Batch, Case
from benchmarks.attention_measure import Finding, Unit
from benchmarks.attention_peers import lowered

ROWS = 32768
_SHARE = 0.25  # of the bytes of an S x S tensor of bool, the smallest there is
_SMALL = 256
_TIMEOUT = 300  # seconds


def memory(quick: bool, before: Sequence[Finding]) -> Iterator[Unit]:
    """Bytes that one call adds to the peak of a process of its own, over those of an S x S tensor of bool."""
    for train in (False,) if quick else (False, True):
        for causal in (False, True):
            case = _case(ROWS, causal, train)
            yield Unit(str(case), partial(_share, case))


def _share(case: Case) -> list[Finding]:
    command = [sys.executable, "-P", "-c", _COMMAND, str(Path.cwd()), json.dumps([case.causal, case.train])]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=_TIMEOUT)
    added = int(done.stdout.splitlines()[-1])
    tensors = 4 * case.rows * case.heads * case.width * 4 >> 20
    note = f"{added / 2**20:.0f} MiB; q, k, v and the result: {tensors} MiB"
    share = added / case.rows**2
    return [Finding("memory", str(case), "added peak / S x S bool", share, _SHARE, least=False, note=note)]


_COMMAND = """
import json, sys
sys.path.append(sys.argv[1])
from benchmarks.attention_memory import added_peak
print(added_peak(*json.loads(sys.argv[2])))
"""


def _case(rows: int, causal: bool, train: bool) -> Case:
    return Case(rows, 256, causal=causal, train=train, heads=4, width=32)


def added_peak(causal: bool, train: bool) -> int:
    """Bytes that a call at S=32,768 adds to this process' peak.

    The module is compiled and run on few rows before, so that compiling is not counted. Reads and resets the peak in
    /proc/self (Linux).
    """
    with torch.set_grad_enabled(train):
        for rows in (_SMALL, 2 * _SMALL, ROWS):
            attend = lowered(Batch.of(_case(rows, causal, train)), dynamic=True)
            Path("/proc/self/clear_refs").write_text("5")  # the peak starts at what is used now: proc(5)
            before = _peak()
            _ = attend.backward() if train else attend.forward()
    return _peak() - before


def _peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
