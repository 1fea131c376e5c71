"""`on_npu/` needs the simulated device, which a process cannot put away again: only `test_on_npu.py` runs it."""

import os

collect_ignore = [] if "SHAPECHECK_SIMULATED_NPU" in os.environ else ["on_npu"]
