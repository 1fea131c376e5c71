"""Other layouts made from a layout, each with the old rows that its used rows come from. Free of torch."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, chain, compress, pairwise, starmap
from typing import Any

from shapecheck._errors import LayoutError
from shapecheck._layout._geometry import Geometry
from shapecheck._layout._parts import Part, integer, size_text

Change = tuple[Geometry, Sequence[int]]
"""The new geometry, and for each of its used rows the old row."""

Run = tuple[int, int]
"""Neighbouring rows, `(start, stop)`."""


def derived(
    old: Geometry, samples: Iterable[tuple[Part, ...]], segments: tuple[int, ...] | None, align: int | None = None
) -> Geometry:
    """`old` with other samples and segments: the same padding, `seq_len` derived again, no capacity."""
    fresh = Geometry._checked(tuple(samples), old.align if align is None else align, None, old.pad_tag, old.padding)
    return fresh if segments is None else replace(fresh, segments=segments)


def filter_rows(old: Geometry, mask: Sequence[bool]) -> Change:
    """Keeps the rows whose entry of `mask`, over all rows, is true. Samples, parts and segments stay, if empty."""
    if len(mask) != old.seq_len:
        raise LayoutError(f"filter: the mask has {len(mask)} entries, expected one per row, seq_len {old.seq_len}")
    flags = bytes(map(bool, mask[: old.used]))
    runs, stop = [], 0
    while (start := flags.find(1, stop)) >= 0:
        stop = flags.find(0, start) % (len(flags) + 1)  # -1, no more gaps, is the end
        runs.append((start, stop))
    return _keep(old, runs)


def _keep(old: Geometry, runs: Sequence[Run]) -> Change:
    """Keeps the rows of ascending runs. Samples, parts and segments stay, if empty."""
    counts = iter(_rows_below(runs, accumulate(part.rows for sample in old.samples for part in sample)))
    resized = _Resized()
    samples = [tuple([resized(part, next(counts)) for part in sample]) for sample in old.samples]
    segments = None if old.segments is None else tuple(_rows_below(runs, accumulate(old.segments)))
    return derived(old, samples, segments), _rows(runs)


def _rows(runs: Iterable[Run]) -> list[int]:
    return list(chain.from_iterable(starmap(range, runs)))


def _rows_below(runs: Sequence[Run], ends: Iterable[int]) -> list[int]:
    """How many rows of the ascending runs lie between each of the ascending `ends` and the one before."""
    counts, at, start = [], 0, 0
    for end in ends:
        count = 0
        while at < len(runs) and runs[at][0] < end:
            first, stop = runs[at]
            count += min(stop, end) - max(first, start)
            if stop > end:
                break
            at += 1
        counts.append(count)
        start = end
    return counts


class _Resized:
    """Parts with other rows. Equal ones are shared, which keeps 100,000 samples cheap."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, int], Part] = {}  # by identity, which the old geometry keeps alive

    def __call__(self, part: Part, rows: int) -> Part:
        if rows == part.rows:  # keeps its grid
            return part
        made = self._made.get((id(part), rows))
        if made is None:
            made = self._made[id(part), rows] = Part(part.name, rows, part.kind, part.tag)
        return made


def truncate(old: Geometry, rows: Any) -> Change:
    """Keeps the first `rows` rows in all, or the first `rows[i]` of sample i."""
    if isinstance(rows, Sequence) and not isinstance(rows, (str, bytes)):
        limits = [integer(limit, f"truncate: rows[{index}]") for index, limit in enumerate(rows)]
        if len(limits) != len(old.samples):
            raise LayoutError(
                f"truncate: got {len(limits)} limits, expected one for each of {len(old.samples)} samples"
            )
        if min(limits) < 0:
            raise LayoutError(f"truncate: a limit is {min(limits)}, expected 0 or more rows")
        starts = accumulate(old.lengths, initial=0)
        kept = zip(starts, limits, old.lengths, strict=False)  # one start too many
        return _keep(old, [(start, start + min(limit, length)) for start, limit, length in kept])
    total = integer(rows, "truncate: rows")
    if total < 0:
        raise LayoutError(f"truncate: rows is {total}, expected 0 or more")
    return _keep(old, [(0, min(total, old.used))])


def drop(old: Geometry, names: Iterable[str], kinds: Iterable[str]) -> Change:
    """Leaves out the parts with one of these names or kinds. A sample that loses all keeps a part of zero rows."""
    names, kinds = tuple(names), tuple(kinds)
    for what, asked, known in (("part", names, old.names), ("kind", kinds, old.kinds)):
        for name in asked:
            if name not in known:
                raise LayoutError(f"drop: the layout has no {what} {name!r}\n  it has {', '.join(known)}")
    stays = [[part.name not in names and part.kind not in kinds for part in sample] for sample in old.samples]
    parts = [part for sample in old.samples for part in sample]
    flags = list(chain.from_iterable(stays))
    survivor = next(compress(parts, flags), None)
    if survivor is None:
        raise LayoutError("drop: no part is left\n  fix: keep at least one name")
    bounds = pairwise(accumulate((part.rows for part in parts), initial=0))
    new, rows = _keep(old, list(compress(bounds, flags)))
    empty = Part(survivor.name, 0, survivor.kind, survivor.tag)
    samples = [tuple(compress(sample, own)) or (empty,) for sample, own in zip(old.samples, stays, strict=True)]
    return replace(new, samples=tuple(samples)), rows


def stream(old: Geometry, kind: str) -> Change:
    """The parts of one kind alone, as many samples as before."""
    if kind not in old.kinds:
        raise LayoutError(f"stream: the layout has no kind {kind!r}\n  it has {', '.join(old.kinds)}")
    return drop(old, (), [other for other in old.kinds if other != kind])


def select(old: Geometry, samples: Iterable[Any]) -> Change:
    """Samples by number, in the order given."""
    chosen = [integer(index, f"select: samples[{at}]") for at, index in enumerate(samples)]
    if not chosen:
        raise LayoutError("select: no sample is given, expected at least one")
    for index in chosen:
        if not 0 <= index < len(old.samples):
            raise LayoutError(f"select: there is no sample {index}, the layout has {len(old.samples)}")
    starts = tuple(accumulate(old.lengths, initial=0))
    segments = None
    if old.segments is not None:
        own = _segments_by_sample(old, "select")
        segments = tuple(rows for index in chosen for rows in own[index])
    rows = _rows((starts[index], starts[index + 1]) for index in chosen)
    return derived(old, [old.samples[index] for index in chosen], segments), rows


def _segments_by_sample(old: Geometry, what: str) -> list[list[int]]:
    """The explicit segments of each sample; an empty segment between two samples goes to the first of them."""
    own: list[list[int]] = [[] for _ in old.samples]
    ends = tuple(accumulate(old.lengths))
    sample, end = 0, 0
    for rows in old.segments or ():
        while rows and sample < len(ends) - 1 and end == ends[sample]:
            sample += 1
        end += rows
        if end > ends[sample]:
            raise LayoutError(
                f"{what}: a segment ends at row {end}, beyond the end of sample {sample} at row {ends[sample]}\n"
                f"  fix: {what} first, then segment_by"
            )
        own[sample].append(rows)
    return own


def concat(layouts: Sequence[Geometry]) -> Change:
    """The samples of all layouts. The rows index the old tensors, laid end to end with their padding."""
    if not layouts:
        raise LayoutError("concat: no layout is given, expected at least one")
    first = layouts[0]
    for index, other in enumerate(layouts):
        for name in ("align", "padding", "pad_tag", "tagged"):
            if getattr(other, name) != getattr(first, name):
                raise LayoutError(
                    f"concat: layout {index} has {name} {getattr(other, name)!r}, "
                    f"expected {getattr(first, name)!r} like layout 0"
                )
    segments = None
    if any(g.segments is not None for g in layouts):
        segments = tuple(rows for g in layouts for rows in g.segment_lengths)
    starts = accumulate((g.seq_len for g in layouts[:-1]), initial=0)
    rows = _rows((start, start + g.used) for g, start in zip(layouts, starts, strict=True))
    return derived(first, [sample for g in layouts for sample in g.samples], segments), rows


def segment_by(old: Geometry, lengths: Iterable[Any]) -> Change:
    """The same rows with other attention boundaries."""
    rows = tuple(integer(length, f"segment_by: lengths[{at}]") for at, length in enumerate(lengths))
    if not rows or min(rows) < 0:
        raise LayoutError("segment_by: expected at least one length, each 0 or more rows")
    if sum(rows) != old.used:
        raise LayoutError(
            f"segment_by: the lengths add up to {sum(rows)}, expected the rows used, {old.used}\n"
            "  fix: leave the padding out, it has boundaries of its own"
        )
    return replace(old, segments=rows, capacity=None), range(old.used)


def permute(old: Geometry, index: Iterable[Any], unit: int) -> Change:
    """Moves blocks of `unit` rows: new block i is old block `index[i]`. Rows stay in their sample."""
    blocks = [integer(block, f"permute: index[{at}]") for at, block in enumerate(index)]
    unit = integer(unit, "permute: unit")
    if unit < 1 or old.used % unit:
        raise LayoutError(f"permute: unit is {unit}, expected a divisor of the rows used, {old.used}")
    if sorted(blocks) != list(range(old.used // unit)):
        raise LayoutError(
            f"permute: the index is no permutation of the {old.used // unit} blocks of {unit} rows\n"
            f"  got {len(blocks)} entries; every block occurs exactly once"
        )
    runs: list[list[int]] = []  # neighbours that stay neighbours move as one
    for block in blocks:
        if runs and runs[-1][1] == block * unit:
            runs[-1][1] += unit
        else:
            runs.append([block * unit, (block + 1) * unit])
    moved = [(start, stop) for start, stop in runs]
    return replace(old, samples=_torn(old, moved)), _rows(moved)


def _torn(old: Geometry, runs: Sequence[Run]) -> tuple[tuple[Part, ...], ...]:
    """The parts of each sample once the rows of `runs` follow each other."""
    places = [(sample, at) for sample, parts in enumerate(old.samples) for at, part in enumerate(parts) if part.rows]
    ends = list(accumulate(old.samples[sample][at].rows for sample, at in places))
    sample_ends = list(accumulate(old.lengths))
    pieces: list[list[list[int]]] = [[] for _ in old.samples]  # [part, rows] of each sample
    row, sample = 0, 0
    for first, stop in runs:
        source = first
        while source < stop:
            while row == sample_ends[sample]:
                sample += 1
            place = bisect_right(ends, source)
            origin, at = places[place]
            if origin != sample:
                raise LayoutError(
                    f"permute: row {source} of sample {origin} would move to sample {sample}\n"
                    "  fix: permute within samples; use select to reorder them"
                )
            rows = min(stop, ends[place], source + sample_ends[sample] - row) - source
            if pieces[sample] and pieces[sample][-1][0] == at:
                pieces[sample][-1][1] += rows
            else:
                pieces[sample].append([at, rows])
            source += rows
            row += rows
    resized = _Resized()
    samples = []
    for parts, own in zip(old.samples, pieces, strict=True):
        for at, part in enumerate(parts):
            if not part.rows:  # moves nowhere, but stays known
                own.insert(next((i for i, (other, _) in enumerate(own) if other > at), len(own)), [at, 0])
        samples.append(tuple([resized(parts[at], rows) for at, rows in own]))
    return tuple(samples)


def coarsen(old: Geometry, n: int) -> Change:
    """One row for every `n`; the rows are the first of each group."""
    n = integer(n, "coarsen: n")
    if n < 1:
        raise LayoutError(f"coarsen: n is {n}, expected 1 or more")
    for index, sample in enumerate(old.samples):
        for part in sample:
            if part.rows % n:
                raise LayoutError(
                    f"coarsen: part {part.name!r} of sample {index} has {size_text(part.size)} = {part.rows} rows, "
                    f"expected a multiple of {n}"
                )
    for at, rows in enumerate(old.segments or ()):
        if rows % n:
            raise LayoutError(f"coarsen: segment {at} has {rows} rows, expected a multiple of {n}")
    samples = [tuple(Part(p.name, p.rows // n, p.kind, p.tag) for p in sample) for sample in old.samples]
    segments = None if old.segments is None else tuple(rows // n for rows in old.segments)
    align = old.align // n if old.align % n == 0 else 1
    return derived(old, samples, segments, align), range(0, old.used, n)


def pad_to(old: Geometry, rows: Any, segments: Any, max_seqlen: Any) -> Geometry:
    """`old` in a static capacity."""
    rows, segments = integer(rows, "pad_to: rows"), integer(segments, "pad_to: segments")
    bound = rows if max_seqlen is None else integer(max_seqlen, "pad_to: max_seqlen")
    plain = replace(old, seq_len=rows, capacity=None)
    if rows < old.used:
        raise LayoutError(f"pad_to: rows is {rows}, but the parts need {old.used}")
    if rows % old.align:
        raise LayoutError(f"pad_to: rows is {rows}, expected a multiple of align={old.align}")
    if segments < len(plain.cu_seqlens) - 1:
        raise LayoutError(
            f"pad_to: segments is {segments}, but the layout has {len(plain.cu_seqlens) - 1}"
            + (", the padding counted" if old.padding == "segment" else "")
        )
    if bound < plain.max_seqlen:
        raise LayoutError(f"pad_to: max_seqlen is {bound}, but the longest segment has {plain.max_seqlen} rows")
    return replace(plain, capacity=(segments, bound))
