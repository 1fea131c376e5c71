"""Every tensor of a layout, built at once in one host buffer that moves to a device in one transfer."""

from typing import NamedTuple

import torch
from torch import Tensor

from shapecheck._layout._geometry import Geometry

_ALIGNMENT = 64  # bytes: a cache line, and more than the 16 that vectorised kernels and Inductor ask for


class _Slot(NamedTuple):
    offset: int
    nbytes: int
    dtype: torch.dtype


class Tensors:
    """The tensors of one layout on one device, all of them slices of `buffer`.

    Attributes:
        buffer: uint8, one allocation.
        cu_seqlens: int32 [segments + 1].
        token_tags: int64 [S], or None where the parts have no tags.
        segment_ids: int32 [S].
        position_ids: int64 [S].
        atoms: int64 rows of every (name, kind) that occurs, in row order.
        names: int64 rows of every name, in row order.
        kinds: int64 rows of every kind, in row order.
    """

    def __init__(self, buffer: Tensor, slots: dict[str, _Slot], index: dict[str, dict[tuple[str, ...], str]]) -> None:
        # Slicing under inference mode would make tensors that autograd refuses to save, and indices get saved.
        with torch.inference_mode(False):
            views = {key: buffer[s.offset : s.offset + s.nbytes].view(s.dtype) for key, s in slots.items()}
        self._slots, self._index = slots, index
        self.buffer = buffer
        self.views = views
        self.cu_seqlens = views["cu_seqlens"]
        self.token_tags = views.get("token_tags")
        self.segment_ids = views["segment_ids"]
        self.position_ids = views["position_ids"]
        self.atoms = {(key[0], key[1]): views[slot] for key, slot in index["atoms"].items()}
        self.names = {key[0]: views[slot] for key, slot in index["names"].items()}
        self.kinds = {key[0]: views[slot] for key, slot in index["kinds"].items()}

    def move(self, device: torch.device) -> "Tensors":
        """The same tensors on `device`, copied as one buffer."""
        with torch.inference_mode(False):
            return Tensors(self.buffer.to(device), self._slots, self._index)


def build(geometry: Geometry) -> Tensors:
    """All tensors of `geometry`, on the CPU. Vectorised: no Python per row, and little per part."""
    # The device is always named: a `torch.device("cuda")` context would turn every factory into a transfer.
    with torch.inference_mode(False):
        content = _metadata(geometry)
        index = _indices(geometry, content)
        slots: dict[str, _Slot] = {}
        end = 0
        for key, tensor in content.items():
            slots[key] = _Slot(end, tensor.numel() * tensor.element_size(), tensor.dtype)
            end = -(-(end + slots[key].nbytes) // _ALIGNMENT) * _ALIGNMENT
        tensors = Tensors(torch.zeros(end, dtype=torch.uint8, device="cpu"), slots, index)
        for key, tensor in content.items():
            tensors.views[key].copy_(tensor)
    return tensors


def _metadata(geometry: Geometry) -> dict[str, Tensor]:
    boundaries = geometry.cu_seqlens
    cu = _host(boundaries)
    segments = len(boundaries) - 1
    # Rows beyond the last boundary form one more run: they get the number of segments, and positions of their own.
    edges = torch.cat([cu, _host([geometry.seq_len])])
    segment_ids = _repeat(torch.arange(segments + 1, device="cpu"), edges.diff(), geometry.seq_len)
    content = {
        "cu_seqlens": cu.int(),
        "segment_ids": segment_ids.int(),
        "position_ids": torch.arange(geometry.seq_len, device="cpu") - cu[segment_ids],
    }
    if geometry.tagged:
        parts = [(part.tag or 0, part.rows) for sample in geometry.samples for part in sample]
        tags, rows = _host([*parts, (geometry.pad_tag, geometry.seq_len - geometry.used)]).unbind(1)
        content["token_tags"] = _repeat(tags, rows, geometry.seq_len)
    return content


def _indices(geometry: Geometry, content: dict[str, Tensor]) -> dict[str, dict[tuple[str, ...], str]]:
    """Adds the row indices to `content`; returns which of them serves each atom, name and kind."""
    atoms: dict[tuple[str, str], list[tuple[int, int]]] = {}
    start = 0
    for sample in geometry.samples:
        for part in sample:
            atoms.setdefault((part.name, part.kind), []).append((start, part.rows))
            start += part.rows
    made: dict[tuple[tuple[str, str], ...], str] = {}

    def slot(members: tuple[tuple[str, str], ...]) -> str:
        # A name with one kind, and a kind with one name, share the tensor of their atom.
        if members not in made:
            made[members] = key = f"rows_{len(made)}"
            content[key] = _rows(sorted(run for member in members for run in atoms[member]))
        return made[members]

    return {
        "atoms": {atom: slot((atom,)) for atom in atoms},
        "names": {(name,): slot(tuple(a for a in atoms if a[0] == name)) for name in geometry.names},
        "kinds": {(kind,): slot(tuple(a for a in atoms if a[1] == kind)) for kind in geometry.kinds},
    }


def _rows(runs: list[tuple[int, int]]) -> Tensor:
    """The row numbers of `(start, rows)` runs, one after the other."""
    starts, rows = _host(runs).unbind(1)
    total = sum(run[1] for run in runs)
    shift = starts - (rows.cumsum(0) - rows)
    return torch.arange(total, device="cpu") + _repeat(shift, rows, total)


def _host(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.int64, device="cpu")


def _repeat(values: Tensor, repeats: Tensor, total: int) -> Tensor:
    # With the total given nothing has to read the repeats: works on fake tensors.
    return torch.repeat_interleave(values, repeats, output_size=total)
