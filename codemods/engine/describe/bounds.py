"""Cumulative boundaries: what they cumulate, and whether they start with zero."""

from dataclasses import dataclass, replace

from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term


@dataclass(frozen=True)
class Bounds:
    """Boundaries of segments.

    Attributes:
        term: the value.
        kind: `lens` (cumulated lengths), `mask` (rows that a mask keeps), `dense` (multiples of one length), `opaque`.
        source: the lengths, the mask, the common length, or the value itself.
        zero: whether the first boundary is 0; None if unknown.
        zeros: how many zeros were put in front.
        dtype: `int32`, `int64`, another name, or None if unknown.
        divisor: what all boundaries were divided by.
        appended: further boundaries put behind.
        on_host: a copy on the CPU or a Python list.
    """

    term: Term
    kind: str
    source: Term
    zero: bool | None = None
    zeros: int = 0
    dtype: str | None = None
    divisor: Term | None = None
    appended: tuple[Term, ...] = ()
    on_host: bool = False


def bounds_of(term: Term) -> Bounds | None:
    """The boundaries that a value is; None where it is no cumulative sum for sure."""
    match term.op:
        case "cast":
            inner = bounds_of(term.args[0])
            return (
                None
                if inner is None
                else replace(inner, term=term, dtype=None if term.args[1] == "?" else term.args[1])
            )
        case "typed_like":
            inner = bounds_of(term.args[0])
            return None if inner is None else replace(inner, term=term, dtype=None)
        case "host":
            inner = bounds_of(term.args[0])
            return None if inner is None else replace(inner, term=term, on_host=True)
        case "moved" | "copy":
            inner = bounds_of(term.args[0])
            return None if inner is None else replace(inner, term=term)
        case "unique":
            # Empty segments go, doubled zeros among them.
            inner = bounds_of(term.args[0])
            return None if inner is None else replace(inner, term=term, zeros=min(inner.zeros, 1))
        case "tensor":
            inner = bounds_of(term.args[0])
            if inner is None:
                return None
            return replace(inner, term=term, dtype=inner.dtype or "int64", on_host=False)
        case "view" if term.args[0] in {"view", "reshape", "flatten", "squeeze"}:
            inner = bounds_of(term.args[1])
            return None if inner is None else replace(inner, term=term)
        case "cumsum":
            return _cumulated(term)
        case "running":
            start, each = term.args
            if start.op == "list":
                first = len(start.args) == 1 and start.args[0].is_const(0)
                return Bounds(term, "lens", each, zero=first or (None if start.args else False), zeros=int(first))
            return None
        case "pad":
            return _padded(term)
        case "cat":
            return _concatenated(term, term.args[1])
        case "Add" if "list" in {term.args[0].op, term.args[1].op}:
            return _concatenated(term, term)
        case "list" if any(part.op == "star" for part in term.children()):
            return _concatenated(term, term)
        case "store":
            return _stored(term)
        case "rounds":
            filled = filled_by_rounds(term)
            return None if filled is None else bounds_of(filled)
        case "filled":
            inner = bounds_of(term.args[1])
            return None if inner is None else replace(inner, term=term, dtype=None)
        case "arange":
            return _dense(term)
        case "Mult":
            return _multiples(term, *term.args) or _multiples(term, *reversed(term.args))
        case "FloorDiv":
            inner = bounds_of(term.args[0])
            return None if inner is None else replace(inner, term=term, divisor=term.args[1])
        case "each" if term.args[0].op in {"FloorDiv", "Mult"} and len(term.args) == 2:
            return _itemwise(term)
        case "mask_bounds":
            return Bounds(term, "mask", term.args[0], zero=True, zeros=1, dtype="int32")
    return None


def _multiples(term: Term, count: Term, step: Term) -> Bounds | None:
    """`count * step`, if `count` counts: `arange(batch + 1) * length`."""
    numbers = plain(count)
    if numbers.op != "arange" or not numbers.args[2].is_const(1):
        return None
    start = numbers.args[0]
    zero = bool(start.is_const(0)) if start.op == "const" else None
    dtype = count.args[1] if count.op == "cast" else "int64"
    return Bounds(term, "dense", step, zero=zero, zeros=int(zero is True), dtype=None if dtype == "?" else dtype)


def _itemwise(term: Term) -> Bounds | None:
    """`[b // n for b in boundaries]`, `[i * length for i in range(batch + 1)]`."""
    element, source = term.args
    variable = term.pool.make("elem", source)
    if element.op == "Mult":
        sides = element.args if element.args[0] is variable else tuple(reversed(element.args))
        return _multiples(term, source, sides[1]) if sides[0] is variable else None
    inner = bounds_of(source) if element.args[0] is variable else None
    return None if inner is None else replace(inner, term=term, divisor=element.args[1])


def _cumulated(term: Term) -> Bounds:
    source = plain(term.args[0])
    dtype = "int64"  # torch and numpy widen sums of integers
    if source.op in {"list", "tuple", "Add", "cat", "pad", "store"}:
        zeros, rest = leading_zeros(source)
        if zeros:
            return Bounds(term, "lens", rest, zero=True, zeros=zeros, dtype=dtype)
        return Bounds(term, "lens", source, zero=False if source.op in {"list", "tuple", "pad"} else None, dtype=dtype)
    if source.op in {"list", "each", "full", "sum", "shape", "diff", "repeat_interleave", "Mult", "prod", "full_like"}:
        return Bounds(term, "lens", source, zero=False, dtype=dtype)
    # What a call returns may hold a zero of its own.
    return Bounds(term, "lens", source, zero=False if source.op in {"parameter", "attr", "item"} else None, dtype=dtype)


def leading_zeros(term: Term) -> tuple[int, Term]:
    """How many zeros were put in front of a value, and the value."""
    if term.op == "pad":
        source, amounts, value = term.args
        ends = [part.value for part in amounts.args] if amounts.op in {"tuple", "list"} else []
        if len(ends) == 2 and isinstance(ends[0], int) and ends[0] > 0 and ends[1] == 0 and value.is_const(0):
            return ends[0], source
        return 0, term
    if term.op == "cat":
        parts = list(term.args[1].args) if term.args[1].op in {"list", "tuple"} else []
        zeros = 0
        while parts and (count := zero_rows(parts[0])):
            zeros += count
            parts.pop(0)
        if zeros and len(parts) == 1:
            return zeros, parts[0]
        if zeros and parts:
            return zeros, term.pool.make("cat", term.args[0], term.pool.make("list", *parts))
    if term.op in {"list", "tuple"} and len(term.args) > 1 and term.args[0].is_const(0):
        rest = term.args[1:]
        if len(rest) == 1 and rest[0].op == "star":
            return 1, rest[0].args[0]
        return 1, term.pool.make(term.op, *rest)
    if term.op in {"Add", "extend"} and (count := zero_rows(term.args[0])):
        return count, term.args[1]
    if term.op == "rounds" and (filled := filled_by_rounds(term)) is not None:
        return leading_zeros(filled)
    if term.op == "store":
        set_later = term.args[1].is_const(0) and term.args[2].is_const(0)
        stored = term.args[0] if set_later else term
        behind = stored.op == "store" and stored.args[1].op == "slice" and stored.args[1].args[0].is_const(1)
        if behind and (set_later or first_is_zero(stored.args[0])):
            return 1, stored.args[2]
    return 0, term


def zero_rows(term: Term) -> int:
    """How many zeros a value is; 0 if it is something else."""
    if term.op in {"cast", "typed_like", "moved", "host", "tensor"}:
        return zero_rows(term.args[0])
    if term.op == "view" and _is_zero(term.args[1]):
        return 1  # torch.tensor(0).view(1)
    if term.op == "full_like" and term.args[1].is_const(0):
        return int(_starts_with_first(term.args[0]) is not None)
    if term.op in {"list", "tuple"} and term.args and all(part.is_const(0) for part in term.args):
        return len(term.args)
    if term.op == "full" and term.args[0].is_const(0) and len(term.args) == 2 and isinstance(term.args[1].value, int):
        count: int = term.args[1].value
        return count
    return 0


def _is_zero(term: Term) -> bool:
    """Whether a value is the number 0, also as a tensor without axes."""
    return _is_zero(term.args[0]) if term.op in {"cast", "moved", "tensor"} else term.is_const(0)


def _starts_with_first(term: Term) -> Term | None:
    """`b` if the term is `b[:1]` or `b[0:1]`."""
    if term.op == "item" and term.args[1].op == "slice":
        low, high, _ = term.args[1].args
        if (low.is_const(None) or low.is_const(0)) and high.is_const(1):
            base: Term = term.args[0]
            return base
    return None


def _padded(term: Term) -> Bounds | None:
    source, amounts, value = term.args
    inner = bounds_of(source)
    if inner is None or amounts.op not in {"tuple", "list"} or len(amounts.args) != 2:
        return None
    before, after = (part.value for part in amounts.args)
    if not isinstance(before, int) or not isinstance(after, int):
        return None
    result = replace(inner, term=term)
    if before:
        if not value.is_const(0):
            return None
        result = replace(result, zero=True, zeros=inner.zeros + before)
    if after:
        result = replace(result, appended=(*result.appended, value))
    return result


def _concatenated(term: Term, parts_term: Term) -> Bounds | None:
    if parts_term.op == "Add":
        parts = [parts_term.args[0], parts_term.args[1]]
    elif parts_term.op in {"list", "tuple"}:
        parts = [part.args[0] if part.op == "star" else part for part in parts_term.children()]
        if term.op == "list":
            # [0, *ends]: plain numbers are items, starred values are lists.
            parts = [
                part if at.op == "star" else at.pool.make("list", at)
                for at, part in zip(parts_term.children(), parts, strict=True)
            ]
    else:
        return None
    zeros = 0
    while parts and (count := zero_rows(parts[0])):
        zeros += count
        parts.pop(0)
    if not parts:
        return None
    first_of = _starts_with_first(parts[0])
    if first_of is not None and len(parts) > 1:
        return None
    inner = bounds_of(parts[0])
    if inner is None:
        return None
    result = replace(inner, term=term, appended=(*inner.appended, *parts[1:]))
    if zeros:
        result = replace(result, zero=True, zeros=inner.zeros + zeros)
    return result


def _stored(term: Term) -> Bounds | None:
    base, index, value = term.args
    if index.op == "slice":
        low, _, _ = index.args
        inner = bounds_of(value)
        if inner is None:
            return None
        dtype = stored_dtype(base)
        start = low.value if low.op == "const" else "?"
        if start == 1:
            zero = True if first_is_zero(base) else None
            return replace(inner, term=term, zero=zero, zeros=1 + inner.zeros if zero else 0, dtype=dtype)
        if start in {None, 0}:
            return replace(inner, term=term, dtype=dtype)
        return None
    if index.is_const(0) and value.is_const(0):
        inner = bounds_of(base)
        return None if inner is None else replace(inner, term=term, zero=True, zeros=max(1, inner.zeros))
    if index.is_const(-1):
        inner = bounds_of(base)
        return None if inner is None else replace(inner, term=term)
    return None


def filled_by_rounds(term: Term) -> Term | None:
    """A buffer that a loop fills from entry 1, as a list: `cu[i + 1] = cu[i] + n` is a running sum of n, `cu[i + 1]
    = n` is `[0, *n]`."""
    before, after, source = term.args
    if after.op != "store" or after.args[0].op != "round" or not first_is_zero(before):
        return None
    entry, index, value = after.args
    if index.op != "Add" or not index.args[1].is_const(1):
        return None
    zero = term.pool.make("list", term.pool.const(0))
    if value.op == "Add" and value.args[0] is term.pool.item(entry, index.args[0]):
        return term.pool.make("running", zero, term.pool.make("each", value.args[1], source), node=value.node)
    if entry in set(value.walk()):
        return None
    return term.pool.make("Add", zero, term.pool.make("each", value, source, node=value.node), node=value.node)


def first_is_zero(term: Term) -> bool:
    """Whether element 0 of a buffer is zero."""
    if term.op in {"cast", "typed_like", "moved"}:
        return first_is_zero(term.args[0])
    if term.op in {"full", "full_like"}:
        at = 0 if term.op == "full" else 1
        return bool(term.args[at].is_const(0))
    if term.op == "filled":
        return first_is_zero(term.args[1])
    if term.op == "store":
        if term.args[1].is_const(0):
            return bool(term.args[2].is_const(0))
        return first_is_zero(term.args[0])
    return False


def stored_dtype(term: Term) -> str | None:
    """The type of a buffer that values are stored into: the store casts."""
    if term.op == "cast":
        return None if term.args[1] == "?" else str(term.args[1])
    if term.op in {"store", "filled", "moved"}:
        return stored_dtype(term.args[0])
    return None


def _dense(term: Term) -> Bounds | None:
    start, end, step = term.args
    if not start.is_const(0) or step.op == "const":
        return None
    # arange(0, (batch + 1) * length, length)
    if step in set(end.walk()):
        return Bounds(term, "dense", step, zero=True, zeros=1, dtype="int64")
    return None
