"""`PackedLayout`: one object from which every piece of packed metadata is derived."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from shapecheck._errors import LayoutError
from shapecheck._layout import _change, _invert, _rows, _take
from shapecheck._layout._attend import Attention, attend
from shapecheck._layout._built import Built
from shapecheck._layout._fail import fail
from shapecheck._layout._geometry import Geometry, Padding, Sample
from shapecheck._layout._origin import remember


class PackedLayout(Built):
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

    @classmethod
    def from_cu_seqlens(
        cls,
        cu_seqlens: Tensor | Sequence[int],
        *,
        align: int = 1,
        seq_len: int | None = None,
        tags: Mapping[str, int] | None = None,
        pad_tag: int = -1,
        padding: Padding = "none",
    ) -> "PackedLayout":
        """The layout whose samples have these boundaries. The other arguments are those of `from_lengths`.

        Args:
            cu_seqlens: integers [segments + 1] on the host, from 0, never decreasing. Every interval is a sample.

        Raises:
            LayoutError: a device tensor; fewer than 2 entries; boundaries that do not start at 0 or decrease.
        """
        lengths = _invert.lengths_of_cu_seqlens(cu_seqlens)
        return cls.from_lengths(lengths, align=align, seq_len=seq_len, tags=tags, pad_tag=pad_tag, padding=padding)

    @classmethod
    def from_position_ids(cls, position_ids: Tensor | Sequence[int], *, align: int = 1) -> "PackedLayout":
        """The layout whose samples start where positions restart at 0.

        Args:
            position_ids: integers [S] on the host, each 0 or one more than the entry before.
            align: as for `from_lengths`.

        Raises:
            LayoutError: a device tensor, an empty one, or positions that do not restart at 0.
        """
        return cls.from_lengths(_invert.lengths_of_position_ids(position_ids), align=align)

    @classmethod
    def from_mask(cls, mask: Tensor | Sequence[Sequence[int]], *, align: int = 1) -> "PackedLayout":
        """The layout of the valid entries of a padding mask, one sample per row.

        Args:
            mask: bool or 0/1 integers [B, L] on the host, padded on the left or on the right of each row.
            align: as for `from_lengths`.

        Raises:
            LayoutError: a device tensor, another rank or other values, a row with a gap or padded on both sides.
        """
        return cls.from_lengths(_invert.lengths_of_mask(mask), align=align)

    @classmethod
    def from_nested(cls, nested: Tensor, *, align: int = 1) -> "PackedLayout":
        """The layout of a jagged nested tensor's values, one sample per component.

        Raises:
            LayoutError: another kind of tensor, offsets on a device, or holes between the components.
        """
        return cls.from_lengths(_invert.lengths_of_nested(nested), align=align)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "PackedLayout":
        """The layout that `to_dict` described, checked again, on the CPU.

        Raises:
            LayoutError: the data is malformed.
        """
        return cls(_invert.from_dict(data))

    def attend(self, k: "PackedLayout | None" = None, *, k_lengths: Sequence[int] | None = None) -> Attention:
        """This layout's rows as queries: of `k`, of keys with `k_lengths` rows per sample, or of themselves.

        Raises:
            LayoutError: both are given; other numbers of segments; other devices; a call inside a compiled region.
        """
        return attend(self, k, k_lengths)

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

    def take(self, x: Tensor, rows: Tensor, dim: int, *, fill: float = 0) -> Tensor:
        """Brings a per-token tensor of an old layout into this one: `rows` of `x`, then padding.

        Args:
            x: a tensor with the old layout's rows on `dim`.
            rows: the index that came with this layout.
            dim: the axis of the rows.
            fill: value of the padding rows.

        Returns:
            A tensor with `seq_len` rows on `dim`. Differentiable.

        Raises:
            LayoutError: the index has not one entry per row used.
        """
        return _take.take(x, rows, dim, fill, self._used, self._seq_len)

    def select(self, samples: Sequence[int]) -> "tuple[PackedLayout, Tensor]":
        """Samples by number, in the order given; a number may repeat.

        Returns (as every method that changes a layout does):
            The new layout on the same device, with `seq_len` derived from the old `align`; and for each of its used
            rows the old row, int64 [used]. Padding has no source, so the index leaves it out:
            `new.take(x, rows, dim)` brings a tensor along and pads it. A capacity of `pad_to` is given up.

        Raises:
            LayoutError: no sample or an unknown one; a segment of `segment_by` crosses samples.
        """
        return self._changed("select", *_change.select(self._geometry, samples))

    def drop(self, *names: str, kinds: Sequence[str] = ()) -> "tuple[PackedLayout, Tensor]":
        """Without the parts of these names or kinds. A sample left without parts stays, with one of zero rows.

        Raises:
            LayoutError: an unknown name or kind, or no part is left.
        """
        return self._changed("drop", *_change.drop(self._geometry, names, kinds))

    def stream(self, *, kind: str) -> "tuple[PackedLayout, Tensor]":
        """The parts of one kind alone, as many samples as before: one stream of a joint text-image model.

        Raises:
            LayoutError: an unknown kind.
        """
        return self._changed("stream", *_change.stream(self._geometry, kind))

    def truncate(self, rows: int | Sequence[int]) -> "tuple[PackedLayout, Tensor]":
        """The first `rows` rows in all, or the first `rows[i]` of sample i. No sample or part vanishes.

        Raises:
            LayoutError: a negative limit, or not one per sample.
        """
        return self._changed("truncate", *_change.truncate(self._geometry, rows))

    def filter(self, mask: Tensor | Sequence[bool]) -> "tuple[PackedLayout, Tensor]":
        """The rows where `mask`, bool [seq_len] on the host, is true; its padding entries are ignored.

        Raises:
            LayoutError: another length or dtype, or a mask on a device.
        """
        if isinstance(mask, Tensor):
            if mask.device.type != "cpu" or mask.dtype != torch.bool or mask.dim() != 1:
                raise LayoutError(
                    f"filter: the mask is {mask.dtype} {list(mask.shape)} on {mask.device}, expected bool [seq_len] on "
                    "the CPU"
                )
            mask = mask.tolist()
        return self._changed("filter", *_change.filter_rows(self._geometry, mask))

    def segment_by(self, lengths: Sequence[int]) -> "tuple[PackedLayout, Tensor]":
        """The same rows with other attention boundaries, such as windows. Samples and parts stay.

        Raises:
            LayoutError: lengths that are negative or do not add up to the rows used.
        """
        return self._changed("segment_by", *_change.segment_by(self._geometry, lengths))

    def permute(self, index: Tensor | Sequence[int], *, unit: int = 1) -> "tuple[PackedLayout, Tensor]":
        """Moves blocks of `unit` rows within their samples: new block i is old block `index[i]`.

        Segments keep their places: follow with `segment_by` where they move too. A part that is torn apart becomes
        several of the same name.

        Raises:
            LayoutError: no permutation of the blocks; a row leaves its sample; `unit` does not divide the rows used;
                an index on a device.
        """
        if isinstance(index, Tensor):
            if index.device.type != "cpu" or index.dim() != 1:
                raise LayoutError(
                    f"permute: the index has shape {list(index.shape)} on {index.device}, expected a 1-D integer CPU "
                    "tensor\n  fix: pass a host copy; reading it from the device would stall it"
                )
            index = index.tolist()
        return self._changed("permute", *_change.permute(self._geometry, index, unit))

    def coarsen(self, n: int) -> "tuple[PackedLayout, Tensor]":
        """One row for every `n` neighbours, as after a patch merger. The index holds the first of each group.

        `align` is divided by `n` where it can be, else 1.

        Raises:
            LayoutError: a part or a segment whose rows are no multiple of `n`.
        """
        return self._changed("coarsen", *_change.coarsen(self._geometry, n))

    @staticmethod
    def concat(layouts: "Sequence[PackedLayout]") -> "tuple[PackedLayout, Tensor]":
        """The samples of several layouts of one device. The index counts through the old tensors laid end to end.

        Raises:
            LayoutError: no layouts; other devices, `align`, `padding`, `pad_tag`; some with tags and some without.
        """
        geometry, rows = _change.concat([layout._geometry for layout in layouts])
        for index, layout in enumerate(layouts):
            if layout._device != layouts[0]._device:
                fail(f"concat: layout {index} is on {layout._device}, expected {layouts[0]._device} like layout 0")
        return layouts[0]._changed("concat", geometry, rows)

    def shift(self, x: Tensor, offset: int, fill: float, *, dim: int = 0) -> Tensor:
        """Moves rows by `offset` within their segments; rows without a source get `fill`.

        `shift(labels, -1, -100)` gives each row the label of its successor in the same segment. Traceable.

        Raises:
            LayoutError: `x` has not `seq_len` rows on `dim`.
        """
        return _take.shift(x, offset, fill, dim, self._segment_ids)

    def pad_to(self, *, rows: int, segments: int, max_seqlen: int | None = None) -> "PackedLayout":
        """This layout in a static capacity: every layout brought to the same one has metadata of the same shapes.

        Args:
            rows: the new `seq_len`.
            segments: the new number of segments, that of the padding counted; the last boundary is repeated.
            max_seqlen: the bound that `max_seqlen` reports; `rows` by default.

        Raises:
            LayoutError: a capacity below the layout, or rows that are no multiple of `align`.
        """
        return PackedLayout(_change.pad_to(self._geometry, rows, segments, max_seqlen), self._device)

    def buffers(self) -> dict[str, Tensor]:
        """Copies of `cu_seqlens`, `segment_ids`, `position_ids` and `token_tags` (if any), for `copy_into`."""
        return _take.buffers(self._tensors)

    def copy_into(self, buffers: Mapping[str, Tensor]) -> None:
        """Writes the metadata into the `buffers()` of a layout of the same capacity, as a CUDA graph's replay needs.

        Raises:
            LayoutError: other buffers, shapes or dtypes.
        """
        _take.copy_into(self._tensors, buffers)

    def _changed(self, what: str, geometry: Geometry, rows: Sequence[int]) -> "tuple[PackedLayout, Tensor]":
        if torch.compiler.is_compiling():
            fail(f"{what}: a layout is changed inside a compiled region\n  fix: change it before the call")
        with torch.inference_mode(False):
            if isinstance(rows, range):
                index = torch.arange(rows.start, rows.stop, rows.step, dtype=torch.int64, device="cpu")
            else:
                index = torch.tensor(rows, dtype=torch.int64, device="cpu")
            index = index.to(self._device)
        return PackedLayout(geometry, self._device), index
