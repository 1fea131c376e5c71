"""`Built`: the state of a `PackedLayout` and everything that is read from it."""

from collections.abc import Mapping
from dataclasses import FrozenInstanceError
from typing import Any, NoReturn, Self

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import unset_fake_temporarily

from shapecheck._layout import _invert, _rows
from shapecheck._layout._fail import fail
from shapecheck._layout._geometry import Geometry, sum_by_part
from shapecheck._layout._origin import remember
from shapecheck._layout._parts import Part
from shapecheck._layout._tensors import Tensors, build


class Built:
    """A geometry with its tensors on one device. Immutable."""

    _geometry: Geometry
    _tensors: Tensors
    _device: torch.device
    _seq_len: int
    _used: int
    _lengths: tuple[int, ...]
    _cu_seqlens_host: tuple[int, ...]
    _max_seqlen: int
    _cu_seqlens: Tensor
    _token_tags: Tensor | None
    _segment_ids: Tensor
    _position_ids: Tensor
    _seq_idx: Tensor
    _atoms: dict[tuple[str, str], Tensor]
    _names: dict[str, Tensor]
    _kinds: dict[str, Tensor]
    _kind_names: str
    _plan: _rows.Plan
    _memo: dict[tuple[frozenset[str], str | None], Tensor]

    def __init__(self, geometry: Geometry, device: torch.device | str = "cpu") -> None:
        """A layout of an already checked geometry. Use `pack` or `from_lengths`."""
        if torch.compiler.is_compiling():
            fail(
                "a PackedLayout is built inside a compiled region\n"
                "  fix: build it before the call and pass it as an argument"
            )
        tensors = build(geometry)
        target = _resolve(device)
        self._fill(geometry, tensors if tensors.buffer.device == target else tensors.move(target))

    def _fill(self, geometry: Geometry, tensors: Tensors) -> None:
        for tensor in tensors.views.values():
            remember(tensor, geometry)
        with torch.inference_mode(False):
            seq_idx = tensors.segment_ids.unsqueeze(0)
        # Plain attributes, not properties of the geometry: Dynamo turns them into graph inputs and cheap guards.
        self.__dict__.update(
            _geometry=geometry,
            _tensors=tensors,
            _device=tensors.buffer.device,
            _seq_len=geometry.seq_len,
            _used=geometry.used,
            _lengths=geometry.lengths,
            _cu_seqlens_host=geometry.cu_seqlens,
            _max_seqlen=geometry.max_seqlen,
            _cu_seqlens=tensors.cu_seqlens,
            _token_tags=tensors.token_tags,
            _segment_ids=tensors.segment_ids,
            _position_ids=tensors.position_ids,
            _seq_idx=seq_idx,
            _atoms=tensors.atoms,
            _names=tensors.names,
            _kinds=tensors.kinds,
            _kind_names=", ".join(f"{kind!r}: ..." for kind in geometry.kinds),
            _plan=_rows.plan(geometry),
            _memo={},
        )

    def to_dict(self) -> dict[str, Any]:
        """The description as dicts, lists, strings, ints and None, fit for JSON; the device is no part of it."""
        return _invert.to_dict(self._geometry)

    @property
    def seq_len(self) -> int:
        """S, rows in all, padding included."""
        return self._seq_len

    @property
    def used(self) -> int:
        """Rows of the parts, without the padding."""
        return self._used

    @property
    def lengths(self) -> tuple[int, ...]:
        """Rows of each sample; the padding is none."""
        return self._lengths

    @property
    def samples(self) -> tuple[tuple[Part, ...], ...]:
        """The parts of each sample, with kinds and tags resolved. `pack` takes them back."""
        return self._geometry.samples

    @property
    def geometry(self) -> Geometry:
        """The description without tensors."""
        return self._geometry

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self._device

    @property
    def cu_seqlens(self) -> Tensor:
        """Segment boundaries, int32 [segments + 1], from 0."""
        return self._cu_seqlens

    @property
    def cu_seqlens_host(self) -> tuple[int, ...]:
        """`cu_seqlens` as ints on the host."""
        return self._cu_seqlens_host

    @property
    def max_seqlen(self) -> int:
        """Rows of the longest segment, the padding not counted; after `pad_to` the static bound."""
        return self._max_seqlen

    @property
    def token_tags(self) -> Tensor:
        """The tag of every row, int64 [S].

        Raises:
            LayoutError: the parts are of several kinds and no tags were given.
        """
        tags = self._token_tags
        if tags is None:
            fail(
                "token_tags: the layout has several kinds of parts and no tags\n"
                f"  fix: pass tags={{{self._kind_names}}} when packing, with the numbers that the model expects"
            )
        return tags

    @property
    def segment_ids(self) -> Tensor:
        """The segment of every row, int32 [S], sorted; rows beyond the last boundary get the number of segments."""
        return self._segment_ids

    @property
    def position_ids(self) -> Tensor:
        """The position of every row in its segment, int64 [S]; rows beyond the last boundary count from 0 too."""
        return self._position_ids

    @property
    def seq_idx(self) -> Tensor:
        """The segment of every row with a batch axis, int32 [1, S], as Mamba's `seq_idx`."""
        return self._seq_idx

    @property
    def npu_ends(self) -> tuple[int, ...]:
        """`cu_seqlens_host` without its leading 0: the ends that Ascend's TND operators take as a list."""
        return self._cu_seqlens_host[1:]

    def part_index(self, *names: str, kind: str | None = None) -> Tensor:
        """The rows of some parts, int64, ascending, whatever the order of the names.

        Args:
            names: parts with one of these names, wherever they occur; any name if there are none.
            kind: only parts of this kind.

        A single name or kind is built with the layout. A combination is built on first use and kept; under
        torch.compile it is traced instead.

        Raises:
            LayoutError: nothing is asked for, or no such part exists.
        """
        if not names and kind is None:
            fail("part_index: expected at least one part name, or kind=")
        for name in names:
            if name not in self._names:
                self._unknown("part", name, self._names)
        if kind is not None and kind not in self._kinds:
            self._unknown("kind", kind, self._kinds)
        if kind is None and len(names) == 1:
            return self._names[names[0]]
        if kind is not None and not names:
            return self._kinds[kind]
        atoms = [rows for (name, its), rows in self._atoms.items() if name in names and (kind is None or its == kind)]
        if not atoms:
            fail(f"part_index: no part named {', '.join(map(repr, names))} is of kind {kind!r}")
        if len(atoms) == 1:
            return atoms[0]
        if torch.compiler.is_compiling():
            return torch.cat(atoms).sort().values
        return self._combined(frozenset(names), kind, atoms)

    def _combined(self, names: frozenset[str], kind: str | None, atoms: list[Tensor]) -> Tensor:
        found = self._memo.get((names, kind))
        if found is None:
            # Without these the memo would hold a fake, or a tensor that autograd refuses to save.
            with unset_fake_temporarily(), torch.inference_mode(False):
                found = torch.cat(atoms).sort().values
            if not _capturing(self._device):  # memory from a CUDA graph's pool is overwritten at the next replay
                found = self._memo.setdefault((names, kind), found)
                remember(found, self._geometry)
        return found

    def _unknown(self, what: str, name: str, known: Mapping[str, Tensor]) -> NoReturn:
        fail(
            f"part_index: the layout has no {what} {name!r}\n"
            f"  it has {', '.join(known)}\n"
            "  fix: pack a part that may be absent with 0 rows"
        )

    def to(self, device: torch.device | str | int) -> Self:
        """This layout on `device`: itself when it is there already, else a new one, moved in one transfer.

        Raises:
            LayoutError: a move inside a compiled region.
        """
        if torch.compiler.is_compiling():
            # Without asking for the current device: not every backend lets Dynamo trace that.
            wanted = torch.device(device)
            if wanted.type == self._device.type and wanted.index in (None, self._device.index):
                return self
            fail(
                f"to: the layout is moved from {self._device} to {wanted} inside a compiled region\n"
                "  fix: move it before the call"
            )
        target = _resolve(device)
        if target == self._device:
            return self
        moved = type(self).__new__(type(self))
        moved._fill(self._geometry, self._tensors.move(target))
        return moved

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"a PackedLayout is immutable, {name!r} cannot be assigned")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"a PackedLayout is immutable, {name!r} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Built):
            return NotImplemented
        return self._device == other._device and self._geometry == other._geometry

    def __hash__(self) -> int:
        return hash((self._geometry, self._device))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._geometry, self._device)

    def __repr__(self) -> str:
        g = self._geometry
        count = f"{len(g.samples)} samples, " if len(g.samples) > 1 else ""
        return (
            f"PackedLayout({count}{sum_by_part(g.samples)}, seq_len={g.seq_len}, segments={len(g.cu_seqlens) - 1}, "
            f"max_seqlen={g.max_seqlen}, device={str(self._device)!r})"
        )

    def __str__(self) -> str:
        """The picture of the layout: in colour when stdout is a terminal, plain ASCII else."""
        from shapecheck._draw import picture

        return picture(self._geometry)

    def __format__(self, spec: str) -> str:
        """The picture in plain ASCII, whatever stdout is."""
        from shapecheck._draw import plain

        return format(plain(self._geometry), spec)

    def to_svg(self) -> str:
        """The picture as an `<svg>` element of bounded size. Each part has a tooltip with its rows and tag."""
        from shapecheck._draw_svg import svg

        return svg(self._geometry)

    def _repr_html_(self) -> str:
        return self.to_svg()


def _resolve(device: torch.device | str | int) -> torch.device:
    """`device` with the index that torch would choose for it."""
    target = torch.device(device)
    if target.index is None:
        current = torch.accelerator.current_accelerator()
        if current is not None and current.type == target.type:
            return torch.device(target.type, torch.accelerator.current_device_index())
    return target


def _capturing(device: torch.device) -> bool:
    """Whether a CUDA graph is being captured."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()
