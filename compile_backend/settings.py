"""The options of the backend: its own, and those that are Inductor's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Any, Literal

Inner = str | Callable[..., Any]

_GENERATES_CODE = ("cpu", "cuda", "xpu")
"""Devices for which PyTorch itself brings an Inductor backend."""

_DIVERGENCE = ("raise", "warn", "skip")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user asked for.

    Attributes:
        inner: the backend that compiles the rewritten graph; None for the default of the device.
        on_divergence: what to do about metadata that contradicts itself.
        patches: settings of Inductor.
    """

    inner: Inner | None
    on_divergence: Literal["raise", "warn", "skip"]
    patches: dict[str, Any]


def parse(mode: str | None, options: Mapping[str, Any] | None) -> Settings:
    """The settings that `torch.compile(mode=..., options=...)` ask for.

    Args:
        mode: a mode of Inductor.
        options: own keys are `inner`, the name of a registered backend or a callable, `on_divergence`, one of "raise",
            "warn" and "skip", and `mode`, for who wants both a mode and options; all other keys are Inductor's.

    Raises:
        ValueError: for a mode, a key or a value that is none; the message names the valid ones.
    """
    rest = dict(options or {})
    inner = rest.pop("inner", None)
    if inner is not None and not isinstance(inner, str) and not callable(inner):
        raise ValueError(f"options['inner'] is {inner!r}: expected the name of a backend, or a callable")
    if inner == "shapecheck":
        raise ValueError("options['inner'] is 'shapecheck' itself: expected another backend, such as 'inductor'")
    divergence = rest.pop("on_divergence", "raise")
    if divergence not in _DIVERGENCE:
        raise ValueError(f"options['on_divergence'] is {divergence!r}: expected one of {', '.join(_DIVERGENCE)}")
    mode = rest.pop("mode", mode)
    patches = {**_of_mode(mode), **_of_inductor(rest)}
    if patches and inner not in (None, "inductor"):
        raise ValueError(f"{', '.join(sorted(patches))}: settings of Inductor, but the inner backend is {inner!r}")
    return Settings(inner, divergence, patches)


def _of_mode(mode: str | None) -> dict[str, Any]:
    if mode is None or mode == "default":
        return {}
    from torch._inductor import list_mode_options

    known: dict[str, dict[str, Any]] = list_mode_options()
    if mode not in known:
        raise ValueError(f"mode={mode!r}: expected one of {', '.join(known)}")
    return dict(known[mode])


def _of_inductor(given: dict[str, Any]) -> dict[str, Any]:
    if not given:
        return {}
    from torch._inductor import list_options

    known = list_options()
    for key in given:
        if key.replace("-", "_") not in known:
            near = get_close_matches(key, ["inner", "on_divergence", "mode", *known], n=3)
            hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
            own = "inner, on_divergence, mode"
            raise ValueError(f"options[{key!r}] is unknown: expected one of {own}, or a setting of Inductor{hint}")
    return {key.replace("-", "_"): held for key, held in given.items()}


def default_inner(device_type: str) -> str:
    """The backend that compiles graphs for a device, if none is asked for.

    Inductor where PyTorch brings code generation for it; else the backend registered under the device's own name, as
    torch_npu does; else "aot_eager".
    """
    if device_type in _GENERATES_CODE:
        return "inductor"
    own = entry_points(group="torch_dynamo_backends", name=device_type)
    return device_type if own else "aot_eager"
