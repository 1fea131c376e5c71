"""How rows were gathered: the indices applied to a value and to those that it was made from, last one first."""

from collections.abc import Iterator

from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.view import View

_SAME = {"cast", "host", "moved", "copy", "typed_like", "pad", "entered"}
_BOOLEAN = {"Eq", "Lt", "Gt", "LtE", "GtE", "not", "Invert", "BitAnd", "BitOr", "and", "or", "nonzero", "mask_indices"}
_INDICES = _BOOLEAN | {
    "cast",
    "view",
    "elementwise",
    "parameter",
    "item",
    "argsort",
    "nonzero",
    "mask_indices",
    "call",
    "sym",
    "attr",
    "cat",
    "sorted",
    "copy",
    "host",
    "tensor",
}


def within(view: View, term: Term) -> bool:
    """Whether a term was made in the function of a view, and not in one that is defined inside it."""
    node, function = term.node, view.function.node
    row = getattr(node, "lineno", None)
    if row is None or not function.lineno <= row <= (function.end_lineno or row):
        return False
    inner = (nested.node for nested in view.function.nested)
    return not any(nested.lineno <= row <= (nested.end_lineno or row) for nested in inner)


def numbers(index: Term) -> Term:
    """An index without copies: the same rows."""
    while index.op in {"host", "moved", "copy", "typed_like", "tensor"} or (
        index.op == "cast" and index.args[1] in {"int32", "int64"}
    ):
        index = index.args[0]
    return index


def gather_of(term: Term) -> tuple[Term, Term] | None:
    """The rows and the index, where a value is rows picked by an index on the first axis."""
    if term.op == "item" and _is_index(term.args[1]):
        return term.args[0], numbers(term.args[1])
    if term.op == "unpadded":
        return term.args[0], numbers(term.args[1])
    if term.op == "picked" and term.args[1].is_const(0):
        return term.args[0], numbers(term.args[2])
    return None


def _is_index(index: Term) -> bool:
    return index.op in _INDICES and not (
        index.op == "item" and index.args[1].op == "slice" and index.args[0].op == "range"
    )


def gathers(term: Term) -> Iterator[Term]:
    """The indices in the history of a value's rows, through calls that are not understood: last one first."""
    seen: set[Term] = set()
    stack = [term]
    while stack:
        inner = stack.pop()
        if inner in seen:
            continue
        seen.add(inner)
        found = gather_of(inner)
        if found is not None:
            yield found[1]
            stack.append(found[0])
        else:
            stack.extend(_sources(inner))


def _sources(term: Term) -> Iterator[Term]:
    """What the rows of a value may come from."""
    if term.op in _SAME:
        yield term.args[0]
    elif term.op in {"view", "elementwise"}:
        yield term.args[1]
    elif term.op == "item":
        yield term.args[0]
    elif term.op == "call":
        for arg in term.args[1:]:
            if isinstance(arg, Term) and arg.op not in {"self", "keyword", "splat"}:
                yield arg
            elif isinstance(arg, Term) and arg.op == "keyword":
                yield arg.args[1]
    elif term.op in {"Add", "Sub", "Mult", "Div", "phi", "tuple", "cat", "list"}:
        yield from term.children()


def last_gather(term: Term) -> Term | None:
    """The index that a value's rows were last picked by; looks through calls that give the rows of one argument."""
    for _ in range(40):
        found = gather_of(term)
        if found is not None:
            return found[1]
        if term.op in _SAME:
            term = term.args[0]
        elif term.op in {"view", "elementwise"}:
            term = term.args[1]
        elif term.op == "call" and (query := _query(term)) is not None:
            term = query
        elif term.op == "item" and (term.args[1].is_const(0) or _keeps_rows(term.args[1])):
            term = term.args[0]
        else:
            return None
    return None


def _query(call: Term) -> Term | None:
    """The queries of an attention call: its result has their rows."""
    if not str(call.args[0]).rpartition(".")[2].startswith(("flash_attn_varlen", "_flash_attn_varlen", "varlen_attn")):
        return None
    for arg in call.args[1:]:
        if isinstance(arg, Term) and arg.op == "keyword" and arg.args[0] in {"q", "query", "qkv"}:
            value: Term = arg.args[1]
            return value
    first = call.args[1] if len(call.args) > 1 else None
    return first if isinstance(first, Term) and first.op not in {"keyword", "self", "splat"} else None


def _keeps_rows(index: Term) -> bool:
    return (
        index.op == "tuple" and index.args[0].op == "slice" and all(part.is_const(None) for part in index.args[0].args)
    )


# Names of a choice of rows, whether it is a mask or a list of row numbers.
_CHOICES = {"mask", "keep", "kept", "keep_mask", "finished", "done", "valid", "selected", "alive"}


def keeps_some(view: View, index: Term) -> bool:
    """Whether an index leaves rows out: a comparison, a mask."""
    while index.op in {"view", "cat", "each", "elementwise"}:
        index = index.args[0 if index.op == "each" else 1]
    if index.op == "cast":
        return bool(index.args[1] == "bool")
    if index.op == "item":
        return keeps_some(view, index.args[0])
    name = index.args[0] if index.op == "parameter" else index.args[1] if index.op == "attr" else None
    return index.op in _BOOLEAN or (
        isinstance(name, str) and (name in _CHOICES or view.catalogue.role_of(name) == "mask")
    )
