"""Values that must have the same rows because they travel together: one call's arguments, one batch, one tuple."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from shapecheck.codemods.engine.events import Binding, Call, Context
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.view import Argument, View, name_of

_ENTRY = re.compile(r"(?P<base>.+)\['(?P<key>\w+)'\]")  # a target, as `ast.unparse` writes it


@dataclass(frozen=True, eq=False)
class Company:
    """Values that travel together.

    Attributes:
        node: the call, display or last store.
        members: the values, with the roles that their names give ("" where the name says nothing).
        context: the conditions under which they meet.
        call: the call that takes them, where it is one.
    """

    node: ast.AST
    members: tuple[Argument, ...]
    context: Context
    call: Call | None = None


@lru_cache(maxsize=1)
def companies(view: View) -> tuple[Company, ...]:
    """The companies of a function, each with two members or more."""
    found = [*_returned(view), *_batches(view), *_called(view), *_added(view)]
    return tuple(company for company in found if len(company.members) > 1)


def _argument(view: View, name: str, term: Term, node: ast.AST) -> Argument:
    return Argument((view.catalogue.role_of(name) or "") if name else "", name, term, node)


def _returned(view: View) -> Iterator[Company]:
    for returned in view.returns:
        node = returned.value_node
        if isinstance(node, ast.Tuple) and returned.value.op == "tuple" and len(node.elts) == len(returned.value.args):
            pairs = zip(node.elts, returned.value.args, strict=True)
            yield Company(
                node, tuple(_argument(view, name_of(elt), term, elt) for elt, term in pairs), returned.context
            )
        elif isinstance(node, ast.Dict):
            yield Company(node, tuple(_pairs(view, returned.value)), returned.context)


def _pairs(view: View, display: Term) -> Iterator[Argument]:
    for pair in display.children():
        if pair.op == "pair" and pair.node is not None and isinstance(pair.args[0].value, str):
            yield _argument(view, pair.args[0].value, pair.args[1], pair.node)


def _batches(view: View) -> Iterator[Company]:
    """A dict and the keys stored into it afterwards; the last value of a key counts."""
    batches: dict[str, list[tuple[Context, Argument]]] = {}
    made: dict[str, Binding] = {}
    for binding in view.bindings:
        if binding.value.op == "dict":
            batches[binding.target] = [(binding.context, member) for member in _pairs(view, binding.value)]
            made[binding.target] = binding
            continue
        entry = _ENTRY.fullmatch(binding.target)
        if entry is not None:
            base, key = entry["base"], entry["key"]
            term, context = binding.value, binding.context
            if base in made and _loops(context) > _loops(made[base].context):
                # What holds after all rounds, not in one of them.
                term = view.function.final.places.get((made[base].value, f"[{key}]"), term.pool.make("anything"))
                context = made[base].context
            stored = _argument(view, key, term, binding.value_node or binding.node)
            batches.setdefault(base, []).append((context, stored))
    for stores in batches.values():
        for context in dict.fromkeys(context for context, _ in stores):
            # What was stored on the way here; a store of another branch is no companion.
            together = [(at, member) for at, member in stores if context[: len(at)] == at]
            if together[-1][0] == context:
                members = {member.name: member for _, member in together}
                if not context:
                    members |= _stored_in_branches(view, stores, members)
                yield Company(together[-1][1].node, tuple(members.values()), context)


def _stored_in_branches(
    view: View, stores: Sequence[tuple[Context, Argument]], known: Mapping[str, Argument]
) -> dict[str, Argument]:
    """The keys that only branches store, with what the batch holds in the end."""
    found = {}
    for context, member in stores:
        if member.name in known or _loops(context):
            continue
        held = [
            term
            for (_, key), term in view.function.final.places.items()
            if key == f"[{member.name}]" and term.op == "phi" and member.term in term.args
        ]
        if len(held) == 1:
            found[member.name] = replace(member, term=held[0])
    return found


def _loops(context: Context) -> int:
    return sum(cond.op == "loop" for cond, _ in context)


def _called(view: View) -> Iterator[Company]:
    for call in view.calls:
        if call.result.op not in {"call", "sym", "dict"}:
            continue  # a call that is understood combines its arguments in its own way
        members = [
            _argument(view, name_of(node), term, node)
            for node, term in zip(call.node.args, call.args, strict=False)
            if term is not None and not isinstance(node, ast.Starred | ast.Constant)
        ]
        members += [
            _keyword(view, given.arg, call.kwargs[given.arg], given.value)
            for given in call.node.keywords
            if given.arg is not None and given.arg in call.kwargs
        ]
        yield Company(call.node, tuple(members), call.context, call)
        for node, term in zip(call.node.args, call.args, strict=False):
            for display, value in _displays(node, term):
                yield Company(display, tuple(_pairs(view, value)), call.context)


def _displays(node: ast.expr, term: Term | None) -> Iterator[tuple[ast.AST, Term]]:
    """A dict given to a call, also inside a list."""
    if term is not None and isinstance(node, ast.Dict) and term.op == "dict":
        yield node, term
    elif (
        term is not None and isinstance(node, ast.List) and term.op == "list" and len(node.elts) == len(term.args) == 1
    ):
        yield from _displays(node.elts[0], term.args[0])


def _added(view: View) -> Iterator[Company]:
    """`rows + embedding(tags)`: one value for each row is added to the rows."""
    for binding in view.bindings:
        value, node = binding.value, binding.value_node
        if value.op == "Add" and isinstance(node, ast.BinOp):
            members = [
                _argument(view, name_of(side), _looked_up(term), side)
                for side, term in zip((node.left, node.right), value.args, strict=True)
            ]
            yield Company(node, tuple(members), binding.context)


def _keyword(view: View, name: str, term: Term, node: ast.AST) -> Argument:
    """A keyword; `position_embeddings=(cos, sin)` stands for the positions that both were looked up with."""
    if name == "position_embeddings":
        tables = {part.args[0] for part in term.children() if part.op == "item"} if term.op == "tuple" else {term}
        table = tables.pop() if len(tables) == 1 else term
        if table.op == "call" and "rotary" in str(table.args[0]) and isinstance(table.args[-1], Term):
            return Argument("positions", name, table.args[-1], node)
    return _argument(view, name, term, node)


def _looked_up(term: Term) -> Term:
    """The tags that an embedding table was indexed with."""
    if (
        term.op == "call"
        and "embed" in str(term.args[0]).rpartition(".")[2].lower()
        and isinstance(term.args[-1], Term)
    ):
        return term.args[-1]
    return term
