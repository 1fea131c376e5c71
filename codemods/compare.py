"""Do two values describe the same rows? Says how they part ways, or nothing where that is not certain."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shapecheck.codemods.engine.describe.rows import Change, Part
from shapecheck.codemods.engine.events import Context
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.queries.repeated import effective

# More conditions than this make worlds that no run of the program enters.
_MAX_CONDITIONS = 2


def worlds(*terms: Term, context: Context = ()) -> Iterator[tuple[Term, ...]]:
    """The terms without branches, once for each way the conditions in them may turn out; a condition is the same for
    all.

    `context` has the conditions that are known to hold (or not) where the terms meet. Terms with too many conditions
    yield
    nothing: unknown.
    """
    known = {cond: holds for cond, holds in context if cond.op != "loop"}
    conditions: list[Term] = []
    for term in terms:
        conditions += [cond for cond in term.conditions if cond not in known and cond not in conditions]
    if len(conditions) > _MAX_CONDITIONS:
        return
    for number in range(2 ** len(conditions)):
        holds = known | {cond: not number >> at & 1 for at, cond in enumerate(conditions)}
        memo: dict[Term, Term] = {}
        yield tuple(_resolve(term, holds, memo) for term in terms)


def _resolve(term: Term, holds: dict[Term, bool], memo: dict[Term, Term]) -> Term:
    if not term.conditions:
        return term
    if term in memo:
        return memo[term]
    if term.op == "phi":
        result = _resolve(term.args[1] if holds[term.args[0]] else term.args[2], holds, memo)
    else:
        args = tuple(_resolve(arg, holds, memo) if isinstance(arg, Term) else arg for arg in term.args)
        if args == term.args:
            result = term
        elif term.op == "item":
            result = term.pool.item(args[0], args[1], term.node)
        else:
            result = term.pool.make(term.op, *args, node=term.node)
    memo[term] = result
    return result


@dataclass(frozen=True)
class Difference:
    """How metadata parts ways with the rows.

    Attributes:
        kind: `missing` (a part of the rows is not described), `extra` (a part is described that is not there), `order`,
            or `changed` (same parts, but one was changed and its description was not).
        part: the part in question (`rows` side for missing, order and changed; metadata side for extra).
        change: for `changed`, the operation that only one side has.
        rows_changed: for `changed`, whether the rows have it (else the metadata).
    """

    kind: str
    part: Part
    change: Change | None = None
    rows_changed: bool = True


def difference(rows: Sequence[Part], meta: Sequence[Part]) -> Difference | None:
    """How two lists of parts differ, if they are certainly about the same values; None otherwise.

    One shared part is not enough to call another one missing: two must be shared, or one of two.
    """
    if [part.key for part in rows] == [part.key for part in meta]:
        return None
    # Fields of one object are different values, unless no value is shared at all: then they are fields of one sample.
    exact = {part.root for part in rows} & {part.root for part in meta}
    identity = _root if exact else _sample
    rows_roots = [identity(part) for part in rows]
    meta_roots = [identity(part) for part in meta]
    if len(set(rows_roots)) != len(rows_roots) or len(set(meta_roots)) != len(meta_roots):
        return None
    if rows_roots == meta_roots:
        for row, described in zip(rows, meta, strict=True):
            found = _changed(row, described)
            if found is not None:
                return found
        return None
    shared = set(rows_roots) & set(meta_roots)
    if set(rows_roots) == set(meta_roots):
        at = next(at for at in range(len(rows)) if rows_roots[at] != meta_roots[at])
        return Difference("order", rows[at])
    if not shared:
        return None
    if set(meta_roots) < set(rows_roots) and _in_order(meta_roots, rows_roots):
        return Difference("missing", next(part for part in rows if identity(part) not in shared))
    if set(rows_roots) < set(meta_roots) and _in_order(rows_roots, meta_roots):
        return Difference("extra", next(part for part in meta if identity(part) not in shared))
    return None


def _root(part: Part) -> tuple[Term, bool]:
    return (part.root, part.each)


def _sample(part: Part) -> tuple[Term, bool]:
    return (sample_of(part.root), part.each)


def sample_of(root: Term) -> Term:
    """The object that a field belongs to: fields of one sample (`s["ids"]`, `s["tags"]`) have the same rows."""
    while root.op in {"item", "attr"}:
        key = root.args[1]
        if root.op == "item" and not (isinstance(key, Term) and key.op == "const" and isinstance(key.value, str)):
            break
        root = root.args[0]
    return root


def _in_order(short: Sequence[object], long: Sequence[object]) -> bool:
    rest = iter(long)
    return all(item in rest for item in short)


def _changed(row: Part, described: Part) -> Difference | None:
    a, b = effective(row.changes), effective(described.changes)
    common = 0
    while common < len(a) and common < len(b) and a[common].same_as == b[common].same_as:
        common += 1
    if common == len(a) and common == len(b):
        return None
    if common == len(b):
        return Difference("changed", row, a[common], rows_changed=True)
    if common == len(a):
        return Difference("changed", row, b[common], rows_changed=False)
    return None
