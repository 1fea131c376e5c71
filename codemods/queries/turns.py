"""Two parts of every sample: joined in blocks (all first, then all second parts) or in turns (both parts of each)."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.queries.companions import companies
from shapecheck.codemods.view import PACKED, Argument, View

_WRAPPERS = {
    "view": 1,
    "elementwise": 1,
    "cast": 0,
    "host": 0,
    "moved": 0,
    "copy": 0,
    "typed_like": 0,
    "tensor": 0,
    "pad": 0,
}


_DESCRIBE = PACKED | {"positions", "lens"}


@dataclass(frozen=True, eq=False)
class Turns:
    """A value that holds several parts of every sample: `in_blocks`, or the parts of each sample in turn.

    `described` says that it is metadata made of lengths: boundaries, or a value for each row.
    """

    name: str
    node: ast.AST
    term: Term
    in_blocks: bool
    samples: Term
    count: int
    described: bool


def mixed_turns(view: View) -> Iterator[tuple[Turns, Turns]]:
    """Values that travel together, one in blocks and the other in turns: the odd one, and one of the others."""
    if not view.module.pool.by_op.get("each"):
        return
    seen: set[Term] = set()
    for company in companies(view):
        found = [turns for member in company.members if (turns := _turns(member)) is not None]
        for turns in found:
            agreeing = [other for other in found if _same_samples(turns, other) and other.in_blocks == turns.in_blocks]
            others = [other for other in found if _same_samples(turns, other) and other.in_blocks != turns.in_blocks]
            is_odd = others and (
                len(agreeing) < len(others) or (len(agreeing) == len(others) and turns is not found[0])
            )
            if not is_odd or turns.term in seen:
                continue
            if not turns.described and all(other.described for other in others):
                # All metadata was made of one list of lengths: the rows are not the odd ones.
                if not seen & {other.term for other in others}:
                    yield others[0], turns
                seen |= {turns.term, *(other.term for other in others)}
            elif not turns.described or not any(one.described and one.term in seen for one in agreeing):
                seen.add(turns.term)
                yield turns, others[0]


def _same_samples(one: Turns, other: Turns) -> bool:
    return one.samples is other.samples and one.count == other.count


def _turns(member: Argument) -> Turns | None:
    bounds = bounds_of(member.term)
    inner = member.term if bounds is None else bounds.source
    while inner.op in _WRAPPERS or (inner.op == "item" and inner.args[1].is_const(None)):
        inner = inner.args[_WRAPPERS.get(inner.op, 0)]
    found = _of_list(inner.args[1] if inner.op == "cat" else inner)
    return (
        None
        if found is None
        else Turns(member.name, member.node, inner, *found, bounds is not None or member.role in _DESCRIBE)
    )


def _of_list(term: Term) -> tuple[bool, Term, int] | None:
    """Whether a list is in blocks, over which samples, and how many parts each has."""
    match term.op:
        case "copy":
            return _of_list(term.args[0])
        case "Add":
            blocks = list(_summands(term))
            sources = {block.args[1] for block in blocks if _is_block(block)}
            if len(sources) == 1 and all(_is_block(block) for block in blocks):
                return True, sources.pop(), len(blocks)
        case "each" if len(term.args) == 2:
            element, source = _from_samples(term)
            inner = _of_list(source)
            if inner is not None and _uses(element, source):
                return inner
            if element.op == "several" and _uses(element, source):
                return False, source, len(element.args)
            if element.op == "star":
                parts = element.args[0]
                sized = parts.args[1] if parts.op == "each" and len(parts.args) == 2 else parts
                if sized.op in {"list", "tuple"} and len(sized.args) > 1 and _uses(parts, source):
                    return False, source, len(sized.args)
                if sized.op == "elem":
                    return None
    return None


def _from_samples(term: Term) -> tuple[Term, Term]:
    """What a comprehension makes of which samples; `zip` of lists made of the samples stands for these."""
    element: Term = term.args[0]
    source: Term = term.args[1]
    if source.op == "zip":
        samples = {block.args[1] if _is_block(block) else block for block in source.args}
        if len(samples) == 1 and all(_is_block(block) for block in source.args):
            pool = term.pool
            known = {pool.make("elem", block): block.args[0] for block in source.args}
            return pool.substitute(element, known), samples.pop()
    return element, source


def _summands(term: Term) -> Iterator[Term]:
    for side in term.children():
        if side.op == "Add":
            yield from _summands(side)
        elif side.op == "copy":
            yield side.args[0]
        elif side.op == "list" and not side.args:
            continue
        else:
            yield side


def _is_block(term: Term) -> bool:
    return (
        term.op == "each"
        and len(term.args) == 2
        and term.args[0].op not in {"star", "several"}
        and _uses(term.args[0], term.args[1])
    )


def _uses(element: Term, source: Term) -> bool:
    return element.pool.make("elem", source) in set(element.walk())
