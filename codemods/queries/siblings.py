"""Per-row fields of one object of which all but one were cut, padded, picked or shifted alike."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shapecheck.codemods.compare import sample_of, worlds
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.describe.rows import Change, Rows, rows_of
from shapecheck.codemods.engine.events import Binding, Return
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.queries.class_fields import fields_of_classes
from shapecheck.codemods.queries.companions import Company, companies
from shapecheck.codemods.queries.history import traced
from shapecheck.codemods.queries.partings import first_round, is_shift
from shapecheck.codemods.view import Argument, View

_PER_ROW = {"rows", "tags", "positions", "mask"}
# Further names of values that have one entry for each token; they only say which fields are compared.
_NAMES = re.compile(
    r"(^|_)(labels?|targets?|advantages|returns|logprobs|log_probs|loss_mask|loss_weights?|loss_scale|token_weights|"
    r"type_ids|token_ids|input_ids|tokens|position_ids|positions|response_mask|action_mask|completion_mask)$"
)
_KEYED = re.compile(r"\w+\[")  # batch["labels"], also batch[key] in a loop over names


# What may be done to each sample, or to the samples, before they are joined.
_ONE_BY_ONE = {"pad", "slice", "filter", "sort", "items"}
_FILLERS = {"list", "full", "Mult"}  # `[eos]`, `x.new_full((1,), eos)`, `[pad] * n`


@dataclass(frozen=True, eq=False)
class LeftOut:
    """A field without the operation that its siblings got.

    Attributes:
        field: the field.
        changed: two or more siblings.
        change: the operation.
    """

    field: Argument
    changed: tuple[Argument, ...]
    change: Change


def left_out(view: View) -> Iterator[LeftOut]:
    """The fields that were left out, each once."""
    seen: set[tuple[Term, str]] = set()
    grouped = (found for company in companies(view) if (found := _in(company)) is not None)
    pairs = (
        found
        for company in companies(view)
        for found in (*_packed_pairs(company), *_not_counted(company), *_made_for_uncut(company))
    )
    for found in (*grouped, *pairs, *_used_together(view), *_replaced(view)):
        if (found.field.term, found.field.name) not in seen:
            seen.add((found.field.term, found.field.name))
            yield found


def is_per_row(argument: Argument) -> bool:
    """Whether the name of a value says that it has one entry for each token."""
    return argument.role in _PER_ROW or _NAMES.search(argument.name) is not None


def _in(company: Company) -> LeftOut | None:
    members = [member for member in company.members if is_per_row(member)]
    if len(members) < 3:
        return None
    for terms in worlds(*(first_round(member.term) for member in members)):
        histories = [traced(term) for term in terms]
        last = [changes[-1].same_as if changes else None for _, changes in histories]
        for key in dict.fromkeys(key for key in last if key is not None):
            with_it = [at for at, at_key in enumerate(last) if at_key == key]
            roots = {histories[at][0] for at in with_it}
            # The whole beside a piece of it is what both are for.
            without = [at for at in range(len(members)) if at not in with_it and histories[at][0] not in roots]
            if len(with_it) < 2 or len(without) != 1:
                continue
            odd = without[0]
            change = histories[with_it[0]][1][-1]
            if members[odd].role == "positions" and _is_share(change):
                continue  # tables are looked up for all rows, or the attention gathers them
            owners = {_owner(root) for root in roots}
            is_field = (
                not histories[odd][1]
                and None not in owners
                and len(owners) == 1
                and _owner(histories[odd][0]) in owners
            )
            are_given = not histories[odd][1] and _are_parameters([*roots, histories[odd][0]])
            is_field = is_field or (are_given and not _is_computed(terms[odd]))
            if is_field or (len(with_it) > 2 and change.kind == "pad" and _made_before(terms[odd], roots, key)):
                return LeftOut(members[odd], tuple(members[at] for at in with_it), change)
    return None


def _is_computed(term: Term) -> bool:
    """Whether a value is the result of arithmetic, not a field as it was given."""
    while term.op in {"view", "elementwise", "cast", "host", "moved", "copy", "typed_like"}:
        term = term.args[1 if term.op in {"view", "elementwise"} else 0]
    return term.op in {"Add", "Sub", "Mult", "Div", "FloorDiv", "Mod"}


def _is_share(change: Change) -> bool:
    """Whether a cut takes the part between two computed places, as the ranks of a group do."""
    if change.kind == "shard":
        return True
    ends = [part for inner in change.detail for part in (inner.args[:2] if inner.op == "slice" else (inner,))]
    return change.kind == "slice" and bool(ends) and all(end.op in {"Mult", "Add"} for end in ends)


def _are_parameters(roots: Sequence[Term]) -> bool:
    return all(root.op == "parameter" for root in roots) and len({root.args[1] for root in roots}) == 1


def _packed_pairs(company: Company) -> Iterator[LeftOut]:
    """Fields of the same samples that were joined sample by sample, one of them changed in each sample."""
    members = [member for member in company.members if is_per_row(member)]
    for field in members:
        for other in members:
            if field is other or field.term is other.term:
                continue
            for mine, others in worlds(first_round(field.term), first_round(other.term), context=company.context):
                change = only_in(rows_of(mine), rows_of(others))
                if change is not None:
                    yield LeftOut(field, (other,), change)
                    break


def only_in(mine: Rows, others: Rows) -> Change | None:
    """The change that each sample of `others` has and those of `mine` lack."""
    if not (mine.known and others.known) or len(mine.parts) != 1 or mine.changes or others.changes:
        return None
    one, other = mine.parts[0], next((part for part in others.parts if part.root.op not in _FILLERS), None)
    if other is None or not (one.each and other.each) or one.root is other.root or one.changes:
        return None
    if sample_of(one.root) is not sample_of(other.root):
        return None
    added = [part for part in others.parts if part is not other]
    if added:
        filler = added[0].root
        is_longer = len(added) == 1 and added[0].each and filler.op in _FILLERS and not other.changes
        return Change("pad", filler, filler.parts) if is_longer else None
    if len(other.changes) != 1 or other.changes[0].kind not in _ONE_BY_ONE or is_shift(other.changes[0]):
        return None
    return other.changes[0]


def _not_counted(company: Company) -> Iterator[LeftOut]:
    """Rows that were padded by what a list of lengths lacks to a size, beside that list without the padding."""
    lens = [member for member in company.members if member.role in {"lens", "lens_q", "lens_k"}]
    rows = [member for member in company.members if is_per_row(member)]
    for field in lens:
        for field_term, *terms in worlds(field.term, *(member.term for member in rows), context=company.context):
            root, changes = traced(field_term)
            padded = [
                (member, change)
                for member, term in zip(rows, terms, strict=True)
                if (change := _padded_for(term, root))
            ]
            if len(padded) > 1 and not changes:
                yield LeftOut(field, tuple(member for member, _ in padded), padded[0][1])
                break


def _padded_for(rows: Term, counted: Term) -> Change | None:
    """The padding of rows by an amount that depends on how many items another value has."""
    _, changes = traced(rows)
    if not changes or changes[-1].kind != "pad":
        return None
    sizes = changes[-1].detail
    return changes[-1] if any(_counts(inner, counted) for size in sizes for inner in size.walk()) else None


def _counts(term: Term, root: Term) -> bool:
    return term.op in {"shape", "len", "numel"} and term.args[0] is root


def _made_before(term: Term, roots: set[Term], key: tuple[object, ...]) -> bool:
    """Whether pieces of rows were joined from rows that were padded later, without the padding."""
    if term.op != "cat" or term.args[1].op != "each":
        return False
    inside = set(term.walk())
    return bool(roots & inside) and not any(inner.op == "pad" for inner in inside)


def _made_for_uncut(company: Company) -> Iterator[LeftOut]:
    """Ids as they were made, beside two or more values that were made for them and then cut alike."""
    for field in company.members if len(company.members) > 2 else ():
        if field.role != "rows" or plain(field.term).op not in {
            "Add",
            "each",
            "rounds",
            "cat",
            "flattened",
            "parameter",
        }:
            continue
        cuts: dict[Term, list[tuple[Argument, Term]]] = {}
        for member in company.members:
            cut = plain(member.term)
            if is_per_row(member) and _is_cut(cut) and _made_for(cut.args[0]) is plain(field.term):
                cuts.setdefault(cut.args[1], []).append((member, cut))
        for pairs in cuts.values():
            if len(pairs) > 1 and len(cuts) == 1:
                change = Change("slice", pairs[0][1], (pairs[0][1].args[1],))
                yield LeftOut(field, tuple(member for member, _ in pairs), change)


def _is_cut(term: Term) -> bool:
    """Whether a value is the head of another one, up to a computed place."""
    if term.op != "item" or term.args[1].op != "slice":
        return False
    start, end, _ = term.args[1].args
    return bool(start.is_const(None) and end.op not in {"const", "USub"})


def _made_for(term: Term) -> Term | None:
    """The rows that a value has an entry for each of: `ones_like(x)`, `arange(len(x))`, `[1] * len(x)`."""
    term = plain(term)
    if term.op == "full_like":
        return plain(term.args[0])
    size = term.args[1] if term.op in {"arange", "full", "Mult"} else None
    return plain(size.args[0]) if isinstance(size, Term) and size.op in {"len", "shape", "numel"} else None


def _alike(change: Change) -> tuple[object, ...]:
    """Equal for changes that siblings get together: the same one, or the two halves of a next-token shift."""
    return ("shift",) if is_shift(change) else change.same_as


def _used_together(view: View) -> Iterator[LeftOut]:
    """Keys of a batch that were changed alike one by one, and one that was not but meets them in a product."""
    for owner, fields in changed_keys(view):
        if len(fields) < 3:
            continue
        changed = {argument.term for argument, _ in fields.values()}
        events: list[Binding | Return] = [*view.bindings, *view.returns]
        for event in events:
            for product in event.value.walk():
                if product.op != "Mult":
                    continue
                for side, other in (product.args, reversed(product.args)):
                    root, changes = traced(side)
                    if changes or _owner(root) is not owner or not (changed & set(other.walk())):
                        continue
                    name = root.args[1].value if root.op == "item" else root.args[1]
                    field = Argument(view.catalogue.role_of(name) or "", name, root, side.node or event.node)
                    if name not in fields and is_per_row(field):
                        arguments = tuple(argument for argument, _ in fields.values())
                        yield LeftOut(field, arguments, next(iter(fields.values()))[1])
                        return


def changed_keys(view: View) -> Iterator[tuple[Term, dict[str, tuple[Argument, Change]]]]:
    """The keys of one batch that were stored with the same change, each with its value and the change."""
    stores: dict[tuple[Term, tuple[object, ...]], dict[str, tuple[Argument, Change]]] = {}
    for binding in view.bindings:
        if not _KEYED.match(binding.target):
            continue
        root, changes = traced(first_round(binding.value))
        owner = _owner(root)
        key = root.args[1].value if root.op == "item" and changes and owner is not None else None
        if owner is not None and isinstance(key, str):
            argument = Argument("", key, binding.value, binding.node)
            stores.setdefault((owner, _alike(changes[-1])), {})[key] = (argument, changes[-1])
    yield from ((owner, fields) for (owner, _), fields in stores.items())


def _replaced(view: View) -> Iterator[LeftOut]:
    """`replace(x, a=x.a[i], b=x.b[i])` of a dataclass with a further per-row field."""
    for call in view.calls:
        if call.name not in {"replace", "_replace"} or len(call.kwargs) < 2:
            continue
        owner = call.receiver if call.name == "_replace" else (call.args[0] if call.args else None)
        histories = {name: traced(term) for name, term in call.kwargs.items()}
        keys = {changes[-1].same_as if changes else None for _, changes in histories.values()}
        if (
            owner is None
            or None in keys
            or len(keys) != 1
            or any(
                root.op != "attr" or root.args[0] is not owner or root.args[1] != name
                for name, (root, _) in histories.items()
            )
        ):
            continue
        classes = list(fields_of_classes(view, *call.kwargs))
        if len(classes) != 1:
            continue
        fields = classes[0]
        annotation = {ast.unparse(fields[name].annotation) for name in call.kwargs}
        for name, field in fields.items():
            argument = Argument(view.catalogue.role_of(name) or "", name, owner, call.node)
            of_type = ast.unparse(field.annotation)
            same_type = _container(of_type) in {_container(known) for known in annotation}
            says_so = is_per_row(argument) or name.endswith("_mask") or of_type.endswith("[bool]")
            if name not in call.kwargs and same_type and says_so:
                members = tuple(Argument("", key, term, call.node) for key, term in call.kwargs.items())
                yield LeftOut(argument, members, next(iter(histories.values()))[1][-1])


def _container(annotation: str) -> str:
    """`list` for `list[int]`, `torch.Tensor` for `Optional[torch.Tensor]` and `torch.Tensor | None`."""
    return annotation.removeprefix("Optional[").partition("[")[0].partition(" ")[0].rstrip("]")


def _owner(root: Term) -> Term | None:
    """The object that a value is a field of."""
    if root.op == "attr":
        base: Term = root.args[0]
        return base if base.op != "self" else None
    if root.op == "item":
        base, key = root.args
        if key.op == "const" and isinstance(key.value, str):
            return _whole(base)
        if key.op == "const" and type(key.value) is int and base.op in {"call", "sym"}:
            return base
    return None


def _whole(base: Term) -> Term:
    """An object, also where a branch replaced it by a shallow copy."""
    while base.op == "copy":
        base = base.args[0]
    if base.op == "phi":
        one, other = _whole(base.args[1]), _whole(base.args[2])
        return one if one is other else base
    return base
