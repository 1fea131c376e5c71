"""`shapecheck doctor`: what is installed, what it runs on, and which checks are in force."""

import importlib.util
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, entry_points, version
from typing import Any, NamedTuple

import click

from shapecheck._cli import installed_version
from shapecheck._levels import VARIABLE, resolve_level

_ABSENT = "not installed"
_BACKEND = "shapecheck"


class _Kernel(NamedTuple):
    name: str
    module: str
    distributions: tuple[str, ...]
    runs_on: str


_KERNELS = (
    _Kernel("torch varlen_attn", "torch.nn.attention.varlen", ("torch",), "CUDA"),
    _Kernel("flash-attention 2", "flash_attn.flash_attn_interface", ("flash-attn",), "CUDA, ROCm"),
    _Kernel("flash-attention 3", "flash_attn_interface", ("flash-attn-3", "flash_attn_interface"), "CUDA (Hopper)"),
    _Kernel("flash-attention 4", "flash_attn.cute", ("flash-attn-4", "flash-attn"), "CUDA (Hopper, Blackwell)"),
    _Kernel("xformers", "xformers.ops", ("xformers",), "CUDA, ROCm"),
    _Kernel("Transformer Engine", "transformer_engine", ("transformer-engine", "transformer_engine"), "CUDA"),
    _Kernel("FlashInfer", "flashinfer", ("flashinfer-python",), "CUDA"),
    _Kernel("flash-linear-attention", "fla", ("flash-linear-attention", "fla-core"), "CUDA, ROCm, XPU"),
    _Kernel("SageAttention", "sageattention", ("sageattention",), "CUDA"),
    _Kernel("torch_npu", "torch_npu", ("torch-npu", "torch_npu"), "Ascend NPU"),
)


@click.command()
def command() -> None:
    """Show versions, devices, attention kernels and checks.

    Exits with 2 when SHAPECHECK is set to something that is no level.
    """
    source = f"environment variable {VARIABLE}" if os.environ.get(VARIABLE, "").strip() else "default"
    wrong = None
    try:
        level = resolve_level(None).name.lower()
    except ValueError as error:
        level, wrong = f"{os.environ[VARIABLE]!r}, no level", str(error)
    _show("versions", ("package", "version"), _versions())
    devices = _devices()
    _show("devices", ("device", "what"), devices)
    _show("varlen attention kernels", ("kernel", "import", "version", "runs on"), _kernels())
    kinds = dict.fromkeys(device.partition(":")[0] for device, _ in devices)
    _show("shapecheck.varlen_attention", ("device", "kernel", "inner backend"), _own_kernels(kinds))
    _show("compile backend", ("torch_dynamo_backends", "entry point"), [(_BACKEND, _entry_point())])
    _show("checks", ("level", "from"), [(level, source)])
    if wrong:
        click.echo(f"Error: {wrong}", err=True)
        raise click.exceptions.Exit(2)


def _versions() -> list[tuple[str, str]]:
    rows = [("python", f"{platform.python_version()} ({sys.platform}, {platform.machine()})")]
    rows.append(("shapecheck", installed_version() or "not installed (source tree)"))
    rows += [(name, _version(name) or _ABSENT) for name in ("torch", "jaxtyping", "beartype", "click", "rich")]
    return rows


def _devices() -> list[tuple[str, str]]:
    try:
        import torch
    except ImportError:
        return [("cpu", f"{os.cpu_count()} cores; torch is not installed")]
    except Exception as error:  # a broken installation: what a doctor is called for
        return [("cpu", f"{os.cpu_count()} cores; torch does not import: {error}")]
    rows = [("cpu", f"{torch.get_num_threads()} threads")]
    for kind in ("cuda", "xpu", "npu"):
        # torch loads out-of-tree backends such as torch_npu by itself when it is imported.
        module: Any = getattr(torch, kind, None)
        try:
            if module is not None and module.is_available():
                rows += [(f"{kind}:{i}", module.get_device_name(i)) for i in range(module.device_count())]
        except Exception as error:  # a driver in trouble is a finding, not a reason to stop
            rows.append((kind, f"error: {error}"))
    if torch.backends.mps.is_available():
        rows.append(("mps", "Apple GPU"))
    return rows


def _kernels() -> list[tuple[str, str, str, str]]:
    rows = []
    for kernel in _KERNELS:
        found = _exists(kernel.module)
        installed = next(filter(None, map(_version, kernel.distributions)), None)
        rows.append((kernel.name, kernel.module, (installed or "found") if found else _ABSENT, kernel.runs_on))
    return rows


def _own_kernels(kinds: Iterable[str]) -> list[tuple[str, str, str]]:
    """What `shapecheck.varlen_attention` would run on each kind of device, and what compiles the rest of a graph."""
    rows = []
    for kind in kinds:
        try:
            from shapecheck._attention.kernels import kernel_for

            kernel = kernel_for(kind).name + (_flash_implementation() if kind == "cuda" else "")
        except Exception as error:  # torch is missing or broken, no kernel for this device, its vendor's library fails
            kernel = f"none: {error}"
        rows.append((kind, kernel, _inner(kind)))
    return rows


def _inner(kind: str) -> str:
    """The backend that gets the rewritten graphs of a device."""
    try:
        import torch  # noqa: F401

        from shapecheck.compile_backend.settings import default_inner
    except Exception:  # torch is missing or broken
        return _ABSENT
    return default_inner(kind)


def _flash_implementation() -> str:
    """What the user activated instead of FlashAttention 2."""
    from torch.nn import attention

    active = attention.current_flash_attention_impl()
    return f" ({active} is active)" if active else ""


def _entry_point() -> str:
    """How `torch.compile(model, backend="shapecheck")` finds the backend."""
    found = entry_points(group="torch_dynamo_backends", name=_BACKEND)
    return next(
        (one.value for one in found), "not found: install shapecheck-varlen anew, or import the backend yourself"
    )


def _exists(module: str) -> bool:
    """Whether a module could be imported, without importing it or its parents: some of them take seconds."""
    path: Sequence[str] | None = None
    parts = module.split(".")
    for depth in range(len(parts)):
        name = ".".join(parts[: depth + 1])
        try:
            # `find_spec` would import the parents of a dotted name, so those are looked up in the parent's folders.
            spec = importlib.util.find_spec(name) if path is None else PathFinder.find_spec(name, path)
        except (ImportError, ValueError):
            return False
        if spec is None:
            return False
        path = list(spec.submodule_search_locations or [])
    return True


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _show(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """A rich table on a terminal, aligned plain text, never cut, anywhere else."""
    if sys.stdout.isatty():
        try:
            from rich.console import Console
            from rich.table import Table
            from rich.text import Text
        except ImportError:
            pass
        else:
            table = Table(*header, title=title, title_justify="left")
            for row in rows:
                table.add_row(*(Text(cell, style="dim" if _ABSENT in row else "") for cell in row))
            Console().print(table)
            return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    click.echo(title)
    for row in rows:
        click.echo("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
