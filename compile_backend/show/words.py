"""Numbers and places in words, the same in the terminal and on the page."""

import os
from collections.abc import Sequence
from html import escape

from shapecheck.compile_backend.boundaries import Boundaries
from shapecheck.compile_backend.explanation import ExplainedSite, Explanation, Work

_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def count(number: int, noun: str) -> str:
    """Such as `"1 graph"` or `"1,024 graphs"`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def scaled(number: float, unit: str) -> str:
    """Such as `"2.81 GFLOP"`: three digits and a decimal prefix."""
    power = 0
    while number >= 999.5 and power < len(_PREFIXES) - 1:
        number /= 1000
        power += 1
    digits = 0 if number >= 99.95 or number == int(number) else 1 if number >= 9.995 else 2
    return f"{number:,.{digits}f} {_PREFIXES[power]}{unit}"


def headline(explanation: Explanation) -> str:
    """What came out, in one line."""
    sites = count(len(explanation.sites), "attention")
    outcome = f"{len(explanation.lowered):,} of {sites} lowered" if explanation.sites else "no attention found"
    facts = [outcome, count(len(explanation.reports), "graph"), count(len(explanation.breaks), "graph break")]
    if explanation.skipped:
        facts.append(f"{count(explanation.skipped, 'function')} not captured")
    return ", ".join([*facts, f"analysed in {sum(one.seconds for one in explanation.reports) * 1000:,.0f} ms"])


def total(explanation: Explanation) -> str:
    """What all lowered sites save in one forward pass; `""` if nothing is known."""
    dense, flops = explanation.saved_flops()
    facts = [f"{flops_change(dense, flops)} forward"] if dense else []
    if saved := explanation.saved_bytes():
        facts.append(f"{scaled(saved, 'B')} of masks and scores not allocated")
    return ", ".join(facts)


def flops_change(dense: int, flops: int) -> str:
    """Such as `"34.4 GFLOP -> 2.81 GFLOP (12.2 times less)"`."""
    ratio = f" ({times(dense / flops)} times less)" if flops else ""
    return f"{scaled(dense, 'FLOP')} -> {scaled(flops, 'FLOP')}{ratio}"


def times(ratio: float) -> str:
    """A ratio with three digits."""
    return f"{ratio:,.0f}" if ratio >= 99.95 else f"{ratio:.3g}"


def flops(work: Work) -> str:
    """The operations of one site, as written and as lowered, as far as they are known."""
    if work.flops is None:
        return scaled(work.flops_dense, "FLOP") if work.flops_dense is not None else ""
    return flops_change(work.flops_dense, work.flops) if work.flops_dense else scaled(work.flops, "FLOP")


def memory(work: Work) -> str:
    """The dense tensors that one site does without."""
    facts = [f"mask {scaled(work.mask_bytes, 'B')}"] if work.mask_bytes else []
    if work.scores_bytes:
        facts.append(f"scores {scaled(work.scores_bytes, 'B')}")
    return ", ".join(facts)


def segments(seen: Boundaries) -> str:
    """Such as `"16 segments, longest 900 rows, 96 rows of padding"`."""
    queries, keys = seen.longest
    longest = f"{queries:,} rows" if queries == keys else f"{queries:,} queries and {keys:,} keys"
    facts = [count(len(seen.segments), "segment"), f"longest {longest}"]
    tails = (seen.rows_q - seen.cu_seqlens_q[-1], seen.rows_k - seen.cu_seqlens_k[-1])
    if any(tails):
        rows = count(tails[0], "row") if tails[0] == tails[1] else f"{tails[0]:,} query and {tails[1]:,} key rows"
        facts.append(f"{rows} outside them")
    return ", ".join(facts)


def causality(one: ExplainedSite) -> str:
    """Such as `"causal, window of 128 rows to the left"`; `""` if neither."""
    facts = ["causal"] if one.site.causal else []
    sides = [
        f"{count(rows, 'row')} to the {side}"
        for rows, side in zip(one.site.window, ("left", "right"), strict=True)
        if rows >= 0
    ]
    if sides:
        facts.append("window of " + " and ".join(sides))
    return ", ".join(facts)


def graphs(sites: Sequence[ExplainedSite]) -> str:
    """The numbers of their graphs."""
    return ", ".join(dict.fromkeys(str(one.graph) for one in sites))


def ran(one: ExplainedSite) -> str:
    """How often a site ran and with how many different boundaries; `""` for once."""
    calls = len(one.observed)
    if calls <= 1:
        return ""
    different = len(one.boundaries)
    return f"{calls:,} times" + (f", with {different:,} different boundaries, these first" * (different > 1))


def markup(text: str) -> str:
    """The text for a page: nothing in it is read as HTML, and control characters, which HTML forbids, are shown."""
    return escape("".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text))


def place(location: str) -> str:
    """A location with its file relative to the working directory, where it is below it."""
    try:
        relative = os.path.relpath(location)
    except ValueError:  # on another drive
        return location
    return location if not location or relative.startswith(os.pardir) else relative
