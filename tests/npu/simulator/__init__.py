"""An "npu" device that computes on the CPU, for tests. It stands in for torch_npu, which needs Ascend's driver to import.

Importing it registers the device and the operators in this process, for good: import it in a process of its own.
"""

from . import attention as attention
from .device import host_copies as host_copies
