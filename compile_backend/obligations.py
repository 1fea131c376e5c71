"""What must hold for varlen attention to equal the attention that was written, and how it is discharged.

The lowered attention takes its groups of rows from the tags that the mask compares, not from the boundaries that these
were once made from. So it does not matter whether boundaries start at 0, end at the last row, or are sorted: they are
lowered to what the mask really says.
"""

from dataclasses import dataclass

import sympy  # type: ignore[import-untyped]
from shapecheck.compile_backend import facts
from shapecheck.compile_backend.facts import Sorted
from shapecheck.compile_backend.reading import Memory
from shapecheck.compile_backend.report import Obligation, Status
from shapecheck.compile_backend.sites import Attention, Mask
from shapecheck.compile_backend.structure import Structure, may_be_empty


class Refused(Exception):
    """An obligation that is not discharged; it is the only argument."""

    def __init__(self, obligation: Obligation) -> None:
        super().__init__(obligation.detail)
        self.obligation = obligation


@dataclass(frozen=True, slots=True)
class Discharged:
    """The obligations of one attention, all of them discharged.

    Attributes:
        obligations: for the report.
        facts: for each pair of tags, what is known of the queries' and of the keys' order.
        fills_mean: whether rows without keys get the mean of all values.
        scores_trained: whether the scores of these rows get gradients.
    """

    obligations: tuple[Obligation, ...]
    facts: tuple[tuple[Sorted | None, Sorted | None], ...]
    fills_mean: bool
    scores_trained: bool


def no_dropout(attention: Attention) -> Obligation:
    """No weight is dropped: fused kernels would drop others."""
    if attention.dropout:
        raise Refused(Obligation("no dropout", "refused", f"dropout with p={attention.dropout:g} in training"))
    return Obligation("no dropout", "proved", "p is 0, or not in training")


def discharge(
    attention: Attention, mask: Mask, found: Structure, memory: Memory, *, square: bool, trained: bool
) -> Discharged:
    """Every obligation of an attention whose mask has a structure.

    Args:
        attention, mask, found, memory: the attention and what is known of it.
        square: whether there are as many queries as keys.
        trained: whether its result needs gradients.

    Raises:
        Refused: with the first that does not hold or is not known to.
    """
    done = [no_dropout(attention)]
    done.append(_fills(mask))
    if attention.flex is not None:
        done.append(_blocks(mask))
    known = tuple((facts.sortedness(q.node, memory), facts.sortedness(k.node, memory)) for q, k in found.tags)
    done += _groups(found, known, square)
    if (found.left >= 0 or found.right >= 0) and not found.one_stream:
        detail = "rows are compared by number, and queries and keys have different tags"
        raise Refused(Obligation("causal and window", "refused", detail))
    if found.left >= 0 or found.right >= 0:
        how = "by row numbers" if found.positions is None else "by positions, which count up by one inside segments"
        done.append(Obligation("causal and window", "proved", f"{_window(found)}, {how}"))
    fills_mean, empty = _empty(attention, mask, found, trained)
    done.append(empty)
    return Discharged(tuple(done), known, fills_mean, fills_mean and trained and mask.empty == "mean of added")


def _window(found: Structure) -> str:
    parts = ["causal"] if found.causal else []
    if found.left >= 0:
        parts.append(f"{found.left} rows back")
    if found.right > 0:
        parts.append(f"{found.right} rows ahead")
    return ", ".join(parts)


def _fills(mask: Mask) -> Obligation:
    if not mask.fills:
        return Obligation("masked places get no weight", "proved", "a mask of truth values")
    fills = ", ".join(f"{fill:g}" for fill in mask.fills)
    return Obligation("masked places get no weight", "proved", f"they hold {fills}")


def _blocks(mask: Mask) -> Obligation:
    name = "blocks are those of mask_mod"
    if mask.foreign:
        raise Refused(Obligation(name, "refused", mask.foreign))
    return Obligation(name, "proved", "create_block_mask made them from it in this graph")


def _groups(found: Structure, known: tuple[tuple[Sorted | None, Sorted | None], ...], square: bool) -> list[Obligation]:
    if not found.tags:
        return [Obligation("rows of a segment lie together", "proved", "each sample is one segment")]
    done = []
    for (q, k), (of_q, of_k) in zip(found.tags, known, strict=True):
        name = "rows of a segment lie together"
        if q == k and square:
            if of_q is not None:
                done.append(Obligation(name, "proved", f"{of_q.why}: tags never decrease"))
            else:
                detail = "tags are grouped in every call, and gathered where a group is not one range"
                done.append(Obligation(name, "checked", detail))
            continue
        if len(found.tags) > 1:
            detail = "queries and keys have different rows, and several tags that must be equal"
            raise Refused(Obligation("queries and keys of one batch", "refused", detail))
        done.append(_paired(of_q, of_k))
    return done


def _paired(of_q: Sorted | None, of_k: Sorted | None) -> Obligation:
    """Queries and keys of different tensors: their boundaries must be of one batch."""
    name = "queries and keys of one batch"
    if of_q is None or of_k is None or of_q.limit is None or of_k.limit is None:
        detail = "queries and keys have different tags, and nothing says that these count the same sequences"
        raise Refused(Obligation(name, "refused", detail))
    if sympy.expand(of_q.limit - of_k.limit) != 0:
        detail = (
            f"queries are counted by {of_q.origin or 'one tensor'} into at most {of_q.limit} segments, "
            f"keys by {of_k.origin or 'another'} into {of_k.limit}"
        )
        raise Refused(Obligation(name, "refused", detail))
    status: Status = "proved" if of_q.limit.is_Integer else "guarded"
    return Obligation(name, status, f"{of_q.origin} and {of_k.origin} have one size")


def _empty(attention: Attention, mask: Mask, found: Structure, trained: bool) -> tuple[bool, Obligation]:
    name = "queries without keys"
    if not may_be_empty(found):
        return False, Obligation(name, "proved", "there are none: every query sees at least its own row")
    if mask.empty == "zeros":
        return False, Obligation(name, "proved", "give zeros, as SDPA gives under a mask of truth values or -inf")
    if mask.empty == "mean of mixed" and trained:
        detail = f"a row may be fully masked, and {mask.fills[0]:g} is added to some of its scores and replaces others"
        raise Refused(Obligation(name, "refused", detail))
    if mask.empty == "mean of added" and trained and attention.form == "sdpa":
        # On the CPU of torch 2.13 the fused kernel's are larger than those of the mathematics by the number of keys.
        detail = (
            f"a row may be fully masked by an added {mask.fills[0]:g}, of which SDPA's kernels give other gradients"
        )
        raise Refused(Obligation(name, "refused", detail))
    if mask.empty in ("mean", "mean of added", "mean of mixed"):
        return True, Obligation(name, "proved", f"give the mean of all values, as a fill of {mask.fills[0]:g} does")
    why = "-inf in a whole row gives NaN" if mask.empty == "nan" else "what a fully masked row gives is not known"
    raise Refused(Obligation(name, "refused", f"a row may be fully masked, and {why}"))
