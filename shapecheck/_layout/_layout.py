"""`PackedLayout`: one object from which every piece of packed metadata is derived."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import FrozenInstanceError
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import unset_fake_temporarily

from shapecheck._errors import LayoutError
from shapecheck._layout import _rows
from shapecheck._layout._fail import fail
from shapecheck._layout._geometry import Geometry, Padding, Sample, sum_by_part
from shapecheck._layout._origin import remember
from shapecheck._layout._parts import Part
from shapecheck._layout._tensors import Tensors, build


class PackedLayout:
    """What every row of a packed tensor means: samples of named parts, their boundaries, tags and positions.

    Immutable; equal and hashable by content (geometry and device). All tensors are built when the layout is, so a
    read costs an attribute, never synchronises, and gives the same object each time. Treat them as read-only.

    A layout passes through `torch.compile(fullgraph=True)` as an argument: Dynamo guards on what the region reads.
    Build it, and move it, outside. One built under a FakeTensorMode holds fake tensors; one built before keeps its
    real ones.

        layout = PackedLayout.pack({"text": 77, "video": (16, 22, 40)}, align=64, tags={"text": 1, "video": 0})
        x = layout.cat({"text": text, "video": video}, dim=1)             # [1, seq_len, C]
        out = attention(x, layout.cu_seqlens, layout.max_seqlen)
        video = layout.split(out, dim=1)["video"]
    """

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
            _atoms=tensors.atoms,
            _names=tensors.names,
            _kinds=tensors.kinds,
            _kind_names=", ".join(f"{kind!r}: ..." for kind in geometry.kinds),
            _plan=_rows.plan(geometry),
            _memo={},
        )

    @classmethod
    def pack(
        cls,
        samples: Sample | Sequence[Sample],
        *,
        align: int = 1,
        seq_len: int | None = None,
        tags: Mapping[str, int] | None = None,
        pad_tag: int = -1,
        padding: Padding = "segment",
    ) -> "PackedLayout":
        """The layout of `samples`, one after the other, on the CPU.

        Args:
            samples: one sample, or a list of them. A sample is a mapping of part name -> size, or a sequence of
                `Part`. A size is a count of rows, or a grid of any rank. Parts and samples of zero rows are fine.
            align: `seq_len` is a multiple of it.
            seq_len: rows in all. By default the rows used, rounded up to `align`.
            tags: part name or kind -> tag. A part's own tag goes first, then its name's, then its kind's; keys that
                match no part are fine. Without any tag, a layout of one kind is tagged 0, one of several kinds has
                no `token_tags`.
            pad_tag: tag of the padding rows.
            padding: "segment" makes the padding the last segment, even when it is empty, so that one sample always
                gives `cu_seqlens == [0, used, seq_len]`. "none" ends the boundaries at `used`.

        Raises:
            LayoutError: sizes that are negative or no integers; no samples, or a sample without parts; `seq_len`
                below the rows used or no multiple of `align`; more rows than int32 counts; a part without a tag.
        """
        return cls(Geometry.pack(samples, align=align, seq_len=seq_len, tags=tags, pad_tag=pad_tag, padding=padding))

    @classmethod
    def from_lengths(
        cls,
        lengths: Iterable[int] | Tensor,
        *,
        align: int = 1,
        seq_len: int | None = None,
        tags: Mapping[str, int] | None = None,
        pad_tag: int = -1,
        padding: Padding = "none",
    ) -> "PackedLayout":
        """The layout of packed documents: one sample, of one part "tokens", for each length.

        Args:
            lengths: rows of each document, as integers or a 1-D integer CPU tensor. `[3, 5]` gives
                `cu_seqlens == [0, 3, 8]`.
            align, seq_len, tags, pad_tag, padding: as for `pack`, but padding rows are no segment by default.

        Raises:
            LayoutError: as for `pack`; a tensor of lengths that is no 1-D integer CPU tensor.
        """
        if isinstance(lengths, Tensor):
            if lengths.dim() != 1 or lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
                raise LayoutError(
                    f"lengths is a tensor of {lengths.dtype} with shape {list(lengths.shape)}, expected a 1-D integer "
                    "tensor"
                )
            if lengths.device.type != "cpu":
                raise LayoutError(
                    f"lengths is on {lengths.device}, expected a CPU tensor\n"
                    "  fix: pass the lengths that the host has; reading them from the device would stall it"
                )
            lengths = lengths.tolist()
        return cls(
            Geometry.from_lengths(lengths, align=align, seq_len=seq_len, tags=tags, pad_tag=pad_tag, padding=padding)
        )

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
        """Rows of the longest sample; the padding does not count."""
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

    def to(self, device: torch.device | str | int) -> "PackedLayout":
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
        moved = PackedLayout.__new__(PackedLayout)
        moved._fill(self._geometry, self._tensors.move(target))
        return moved

    def cat(
        self,
        parts: Mapping[str, Tensor | Sequence[Tensor | Sequence[Tensor | None] | None] | None],
        dim: int,
        *,
        fill: float = 0,
    ) -> Tensor:
        """Packs one tensor per part into rows in the layout's order, and pads. `split` is the inverse.

        Args:
            parts: part name -> all its rows in row order; or a list with one entry per sample (None or zero rows
                where the sample lacks the part; a nested list holds one per occurrence); or a list with one entry
                per occurrence. Parts without rows may be left out. The mapping's order does not matter.
            dim: the axis of the rows.
            fill: value of the padding rows.

        Returns:
            A new tensor with `seq_len` rows on `dim` and the other axes, dtype and device of the parts.
            Differentiable.

        Raises:
            LayoutError: a part is missing, unknown, no tensor, or has the wrong rows; parts differ in dtype, device
                or another axis.
        """
        packed = _rows.cat(self._plan, parts, dim, fill)
        remember(packed, self._geometry)
        return packed

    def split(self, x: Tensor, dim: int) -> dict[str, Tensor] | dict[str, list[Tensor]]:
        """Takes packed rows apart: `{name: rows}` for one sample, `{name: [rows per sample]}` for several.

        A name that repeats within a sample comes back as one tensor, a sample that lacks it gives zero rows. The
        padding is dropped. Views where the rows are contiguous. Differentiable.

        Raises:
            LayoutError: `x` has not `seq_len` rows on axis `dim`.
        """
        return _rows.split(self._plan, x, dim)

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"a PackedLayout is immutable, {name!r} cannot be assigned")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"a PackedLayout is immutable, {name!r} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PackedLayout):
            return NotImplemented
        return self._device == other._device and self._geometry == other._geometry

    def __hash__(self) -> int:
        return hash((self._geometry, self._device))

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedLayout, (self._geometry, self._device)

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
