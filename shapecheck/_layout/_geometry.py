"""`Geometry`: the whole description of a packed row, on the host and free of torch.

Everything that can be wrong with a layout is found here, before anything is allocated.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Literal, NamedTuple, TypeAlias

from shapecheck._errors import LayoutError
from shapecheck._layout._parts import PADDING, Part, Size, integer, size_text, tag_value

Padding: TypeAlias = Literal["segment", "none"]
Sample: TypeAlias = Mapping[str, Size] | Sequence[Part]

INT32_MAX = 2**31 - 1
_SHOWN = 8  # the most items that a message lists


class Span(NamedTuple):
    """Rows `[start, stop)` of one part, or of the padding (then `kind` is "padding", `sample` and `size` None)."""

    name: str
    start: int
    stop: int
    kind: str
    tag: int | None
    sample: int | None
    size: int | tuple[int, ...] | None


@dataclass(frozen=True, eq=False, repr=False)
class Geometry:
    """Samples of parts, one after the other, then padding. Immutable, hashable and comparable by content.

    Build it with `Geometry.pack` or `Geometry.from_lengths`; the constructor takes what these have resolved.

    Attributes:
        samples: the parts of each sample, in row order, with kinds and tags resolved.
        align: `seq_len` is a multiple of it.
        seq_len: rows in all, padding included.
        padding: "segment" when the padding is a segment of its own, "none" when the boundaries end before it.
        pad_tag: the tag of the padding.
        segments: rows of each attention segment, over the rows used; None where every sample is one.
        capacity: boundaries beyond 0 and the bound of the longest segment, both static; None where they follow the
            samples. The last boundary is repeated to fill up.
    """

    samples: tuple[tuple[Part, ...], ...]
    align: int
    seq_len: int
    padding: Padding
    pad_tag: int
    segments: tuple[int, ...] | None = None
    capacity: tuple[int, int] | None = None

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
    ) -> "Geometry":
        """See `PackedLayout.pack`, which takes the same arguments and raises the same errors."""
        return cls._checked(_tagged(_samples(samples), tags), align, seq_len, pad_tag, padding)

    @classmethod
    def from_lengths(
        cls,
        lengths: Iterable[Any],
        *,
        align: int = 1,
        seq_len: int | None = None,
        tags: Mapping[str, int] | None = None,
        pad_tag: int = -1,
        padding: Padding = "none",
    ) -> "Geometry":
        """One sample with one part, "tokens", for each length. See `PackedLayout.from_lengths`."""
        if isinstance(lengths, (str, bytes, Mapping)) or not isinstance(lengths, Iterable):
            raise LayoutError(f"lengths: got {type(lengths).__name__}, expected a sequence of integers")
        counts = [integer(length, f"lengths[{position}]") for position, length in enumerate(lengths)]
        if not counts:
            raise LayoutError("lengths is empty, expected at least one sequence")
        if min(counts) < 0:
            position = next(position for position, rows in enumerate(counts) if rows < 0)
            raise LayoutError(f"lengths[{position}] is {counts[position]}, expected 0 or more rows")
        # Documents repeat their lengths: samples of one length are shared, which keeps 100,000 of them cheap.
        distinct = list(dict.fromkeys(counts))
        shared = dict(zip(distinct, _tagged([(Part("tokens", rows),) for rows in distinct], tags), strict=True))
        return cls._checked(tuple([shared[rows] for rows in counts]), align, seq_len, pad_tag, padding)

    @classmethod
    def _checked(
        cls, samples: tuple[tuple[Part, ...], ...], align: int, seq_len: int | None, pad_tag: int, padding: Padding
    ) -> "Geometry":
        """The geometry of resolved samples, once the options are found sound."""
        align = integer(align, "align")
        if align < 1:
            raise LayoutError(f"align is {align}, expected 1 or more")
        if padding not in ("segment", "none"):
            raise LayoutError(f"padding is {padding!r}, expected 'segment' or 'none'")
        pad_tag = tag_value(pad_tag, "pad_tag")
        return cls(samples, align, _seq_len(samples, align, seq_len), padding, pad_tag)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Rows of each sample; the padding is none."""
        return tuple(sum(part.rows for part in sample) for sample in self.samples)

    @cached_property
    def cu_seqlens(self) -> tuple[int, ...]:
        """Segment boundaries, from 0: those of `segment_lengths`, then the padding's where it is one, even empty."""
        ends = tuple(accumulate(self.segment_lengths, initial=0))
        if self.padding == "segment":
            ends = (*ends, self.seq_len)
        if self.capacity is None:
            return ends
        return ends + ends[-1:] * (self.capacity[0] + 1 - len(ends))

    @cached_property
    def segment_lengths(self) -> tuple[int, ...]:
        """Rows of each attention segment; the padding is none."""
        return self.lengths if self.segments is None else self.segments

    @cached_property
    def used(self) -> int:
        """Rows of the parts, without padding."""
        return sum(self.lengths)

    @cached_property
    def max_seqlen(self) -> int:
        """Rows of the longest segment, the padding not counted, or the bound of the capacity."""
        return max(self.segment_lengths) if self.capacity is None else self.capacity[1]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Part names, in order of appearance."""
        return tuple(dict.fromkeys(part.name for sample in self.samples for part in sample))

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Kinds, in order of appearance."""
        return tuple(dict.fromkeys(part.kind for sample in self.samples for part in sample))

    @property
    def tagged(self) -> bool:
        """Whether the parts have tags: all have, or none has."""
        return self.samples[0][0].tag is not None

    def spans(self) -> list[Span]:
        """Every part in row order, empty ones too, then the padding if it has rows."""
        spans, start = [], 0
        for index, sample in enumerate(self.samples):
            for part in sample:
                spans.append(Span(part.name, start, start + part.rows, part.kind, part.tag, index, part.size))
                start += part.rows
        if start < self.seq_len:
            spans.append(Span(PADDING, start, self.seq_len, PADDING, self.pad_tag, None, None))
        return spans

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Geometry):
            return NotImplemented
        return self is other or (hash(self) == hash(other) and self._content == other._content)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self._content)

    @property
    def _content(self) -> tuple[Any, ...]:
        return self.samples, self.align, self.seq_len, self.padding, self.pad_tag, self.segments, self.capacity

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the cached values: the hash of a string differs between processes.
        return Geometry, self._content

    def __copy__(self) -> "Geometry":
        return self

    def __deepcopy__(self, memo: Any) -> "Geometry":
        return self

    def __repr__(self) -> str:
        count = f"{len(self.samples):,} samples: " if len(self.samples) > 1 else ""
        seq_len = f"seq_len {self.seq_len}, align {self.align}, padding {self.padding!r}"
        return f"Geometry({count}{sum_by_part(self.samples)}, {seq_len})"


def sum_by_part(samples: Iterable[Iterable[Part]]) -> str:
    """`text 77 + video 14080 + audio 126 = 14283`, the rows of each name added up."""
    totals: dict[str, int] = {}
    for sample in samples:
        for part in sample:
            totals[part.name] = totals.get(part.name, 0) + part.rows
    terms = [f"{name} {rows}" for name, rows in totals.items()]
    if len(terms) > _SHOWN:
        hidden = list(totals.values())[_SHOWN - 1 :]
        terms[_SHOWN - 1 :] = [f"{len(hidden)} more {sum(hidden)}"]
    return f"{' + '.join(terms)} = {sum(totals.values())}"


def size_by_part(samples: Iterable[Iterable[Part]]) -> dict[str, str]:
    """For each name its sizes in row order: `16x22x40`, or `100 + 8x8 + 3 more`."""
    sizes: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    for sample in samples:
        for part in sample:
            counts[part.name] = counts.get(part.name, 0) + 1
            if counts[part.name] <= _SHOWN:
                sizes.setdefault(part.name, []).append(size_text(part.size))
    return {
        name: " + ".join([*texts, f"{counts[name] - _SHOWN} more"] if counts[name] > _SHOWN else texts)
        for name, texts in sizes.items()
    }


def _samples(samples: Any) -> list[tuple[Part, ...]]:
    """One sample or a list of them, as tuples of parts."""
    if isinstance(samples, Mapping):
        return [_sample(samples, 0)]
    if isinstance(samples, Sequence) and not isinstance(samples, (str, bytes)):
        if not samples:
            raise LayoutError("there are no samples, expected at least one")
        if all(isinstance(part, Part) for part in samples):
            return [tuple(samples)]
        return [_sample(sample, index) for index, sample in enumerate(samples)]
    raise LayoutError(
        f"samples is a {type(samples).__name__}, expected a mapping of part name -> size, a sequence of Part, "
        "or a list of those"
    )


def _sample(sample: Any, index: int) -> tuple[Part, ...]:
    if isinstance(sample, Mapping):
        parts = tuple(Part(name, size) for name, size in sample.items())
    elif isinstance(sample, Sequence) and not isinstance(sample, (str, bytes)):
        parts = tuple(sample)
        for part in parts:
            if not isinstance(part, Part):
                raise LayoutError(f"sample {index} holds a {type(part).__name__}, expected Part(name, size)")
    else:
        raise LayoutError(
            f"sample {index} is a {type(sample).__name__}, expected a mapping of part name -> size or a sequence of "
            "Part\n  fix: for a list of lengths use PackedLayout.from_lengths"
        )
    if not parts:
        raise LayoutError(f"sample {index} has no parts, expected at least one (it may have 0 rows)")
    return parts


def _tagged(samples: list[tuple[Part, ...]], tags: Mapping[str, int] | None) -> tuple[tuple[Part, ...], ...]:
    """The samples with every tag resolved: the part's own, then `tags` by name, then `tags` by kind."""
    if tags is not None and not isinstance(tags, Mapping):
        raise LayoutError(f"tags: got {type(tags).__name__}, expected a mapping of part name or kind -> integer")
    given = {key: tag_value(tag, f"tags[{key!r}]") for key, tag in (tags or {}).items()}
    if not given and all(part.tag is None for sample in samples for part in sample):
        if len({part.kind for sample in samples for part in sample}) > 1:
            # No numbering by order of appearance: a request without audio would then number its kinds differently
            # from its neighbour, and the model would silently modulate them as something else.
            return tuple(samples)
        given = {samples[0][0].kind: 0}
    # Equal parts are shared, which keeps 100,000 documents cheap. The key is hashed without any Python.
    memo: dict[tuple[Any, ...], Part] = {}

    def resolve(part: Part) -> Part:
        key = (part.name, part.size, part.kind, part.tag)
        if (done := memo.get(key)) is None:
            tag = part.tag
            if tag is None:
                tag = given.get(part.name, given.get(part.kind))
            if tag is None:
                what = repr(part.name) if part.kind == part.name else f"{part.name!r} (kind {part.kind!r})"
                known = ", ".join(map(repr, list(given)[:_SHOWN])) or "nothing"
                raise LayoutError(
                    f"part {what} has no tag, and others have\n"
                    f"  tags names {known}\n"
                    "  fix: add the part's name or kind to tags, or give the Part a tag"
                )
            done = memo[key] = Part(part.name, part.size, part.kind, tag)
        return done

    return tuple(tuple(map(resolve, sample)) for sample in samples)


def _seq_len(samples: tuple[tuple[Part, ...], ...], align: int, seq_len: int | None) -> int:
    """The rows in all: `seq_len` if it is sound, else the rows used, rounded up to `align`."""
    used = sum(part.rows for sample in samples for part in sample)
    derived = -(-used // align) * align
    how = f"seq_len would be derived as {derived}, the rows used rounded up to a multiple of {align}"
    if seq_len is not None:
        seq_len = integer(seq_len, "seq_len")
        if seq_len < used:
            raise LayoutError(
                f"seq_len is {seq_len}, but the parts need {used} rows\n"
                f"  {sum_by_part(samples)}\n"
                f"  {how}\n"
                "  fix: leave seq_len out, or compute it again whenever the parts change"
            )
        if seq_len % align:
            raise LayoutError(
                f"seq_len is {seq_len}, expected a multiple of align={align}\n"
                f"  {how}\n"
                "  fix: leave seq_len out, or round it up"
            )
    total = derived if seq_len is None else seq_len
    if total > INT32_MAX:
        raise LayoutError(
            f"the layout has {total} rows, more than int32 boundaries can count ({INT32_MAX})\n"
            f"  {sum_by_part(samples)}\n"
            "  fix: pack fewer samples into one row"
        )
    return total
