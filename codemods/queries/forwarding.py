"""Packed metadata that one of several like calls gets and another does not."""

import ast
import builtins
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shapecheck.codemods.catalogue import Sink
from shapecheck.codemods.engine.events import Call
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.queries.takers import kernel_of, takes
from shapecheck.codemods.queries.unread import kind_by_name, unread
from shapecheck.codemods.queries.words import words
from shapecheck.codemods.view import View

_CHECKPOINT = re.compile(r"checkpoint(_|$)|checkpointing_func|checkpoint_fn", re.IGNORECASE)
_LIBRARIES = {"torch", "numpy", "math", *dir(builtins)}
_MANNER = {"checkpoint", "checkpointing", "recompute", "recomputation", "training", "grad", "offload"}
_OF_SEGMENTS = {"bounds", "tags"}
# Packages whose kernels run over rows one after the other.
_RECURRENCES = {"fla", "mamba_ssm"}
# Objects that carry packed metadata.
_CARRIERS = {"packed_seq_params", "flash_attn_kwargs"}
_SEGMENTS = {"bounds", "padded", "ends", "max", "tags"}
_ROWS = ("input_ids", "inputs_embeds", "tokens", "hidden_states")
# What models return; a norm or an embedding does not.
_OUTPUTS = {"logits", "loss", "last_hidden_state", "hidden_states"}


@dataclass(frozen=True, eq=False)
class Given:
    """A metadata argument of a call; `keyword` is None for a positional one."""

    name: str
    term: Term
    node: ast.expr
    keyword: str | None
    position: int = -1
    is_position: bool = False  # position ids: many layers need none


@dataclass(frozen=True, eq=False)
class LeftOut:
    """A call without metadata that a like call gets."""

    call: Call
    like: Call
    missing: tuple[Given, ...]


def left_out(view: View) -> Iterator[LeftOut]:
    """The calls of a function that lack metadata, at most one finding for each."""
    givers = [(call, given) for call in view.calls if not _is_library(call) and (given := _metadata(view, call))]
    found: set[ast.Call] = set()
    for like, given in givers:
        for call in view.calls:
            if call is like or call.node in found or call.node is like.node or None in call.args or "**" in call.kwargs:
                continue
            missing = _missing(view, call, like, given)
            if missing:
                found.add(call.node)
                yield LeftOut(call, like, tuple(missing))
    yield from _odd_ones(givers, view.calls, found)
    yield from _in_checkpointed(view, givers)


def is_checkpoint(call: Call) -> bool:
    """Whether a call runs its first argument so that it can be recomputed."""
    return _CHECKPOINT.search(call.name) is not None


def _is_library(call: Call) -> bool:
    """Whether a callee is a builtin or an operation on any numbers: what it gets says nothing about the next call."""
    return call.imported and not _CHECKPOINT.search(call.name) and call.path.partition(".")[0] in _LIBRARIES


def _metadata(view: View, call: Call) -> list[Given]:
    found: list[Given] = []
    for keyword in call.node.keywords:
        if keyword.arg is None:
            if isinstance(keyword.value, ast.Name) and keyword.value.id in _CARRIERS and "**" in call.kwargs:
                found.append(Given(keyword.value.id, call.kwargs["**"], keyword.value, "**"))
        elif keyword.arg in call.kwargs and (kind := _kind(view, keyword.arg)):
            given = call.kwargs[keyword.arg]
            found.append(Given(keyword.arg, given, keyword.value, keyword.arg, is_position=kind == "positions"))
    for position, term in enumerate(call.args):
        node = call.arg_node(position)
        if term is not None and isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if kind := _kind(view, name):
                found.append(Given(name, term, node, None, position, kind == "positions"))
    return [given for given in found if given.term.op != "const"]


def _kind(view: View, name: str) -> str:
    if name in _CARRIERS:
        return "object"
    role = (view.catalogue.role_of(name) or "").partition("_")[0]
    return role if role in _SEGMENTS or role == "positions" else ""


def _missing(view: View, call: Call, like: Call, given: list[Given]) -> list[Given]:
    segments = [one for one in given if not one.is_position]
    if _CHECKPOINT.search(call.name) and not _CHECKPOINT.search(like.name):
        return _of_checkpoint(call, like, given) if call.args and _runs(view, call.args[0], like.callee) else []
    if _CHECKPOINT.search(like.name):
        return _of_plain(call, like, given) if like.args and _runs(view, like.args[0], call.callee) else []
    if not segments or not (call.callee is like.callee or _same_list_kind(call, like) or _same_rows(call, like)):
        return []
    if not _comparable(call, like, segments):
        return []
    if call.callee is like.callee:
        if _same_conditions(call, like):
            # With and without on the same rows is a comparison.
            return segments if call.args[:1] != like.args[:1] and _twins(call, like, segments) else []
        return segments if _other_manner(call, like) and _twins(call, like, segments) else []
    if _same_list_kind(call, like):
        same = _same_conditions(call, like) and _twins(call, like, segments) and len(call.args) + len(call.kwargs) > 1
        return segments if same else []
    if _same_rows(call, like) and _used_alike(view, call, like) and _shares(call, given):
        return [one for one in segments if one.keyword is not None]
    return []


def _in_checkpointed(view: View, givers: list[tuple[Call, list[Given]]]) -> Iterator[LeftOut]:
    """A function defined here, given to a checkpoint, that calls a layer without what the plain call of it gets."""
    handed = {call.args[0] for call in view.calls if call.args and _CHECKPOINT.search(call.name)}
    for nested in view.function.nested if givers else ():
        if view.module.pool.make("function", id(nested.node)) not in handed:
            continue
        for call in nested.calls:
            for like, given in givers:
                if call.callee is not like.callee or None in call.args or "**" in call.kwargs:
                    continue
                missing = [one for one in given if one.keyword not in call.kwargs and one.keyword not in {None, "**"}]
                if missing and len(call.args) <= len(like.args) and _comparable(call, like, missing):
                    yield LeftOut(call, like, tuple(missing))
                    break


def _of_partial(function: Term | None) -> tuple[Term, ...]:
    """What `partial` adds to the arguments of a function: values, and keywords as terms of their own."""
    return tuple(function.args[2:]) if function is not None and _is_partial(function) else ()


def _is_partial(function: Term) -> bool:
    return function.op == "call" and function.args[0] in {"partial", "functools.partial"} and len(function.args) > 1


def _runs(view: View, function: Term | None, callee: Term) -> bool:
    """Whether a checkpointed function is this callee, bare, as `layer.__call__`, or in `def run(*args)`."""
    if function is not None and function.op == "function":
        inner = next((one for one in view.function.nested if id(one.node) == function.args[0]), None)
        calls = [] if inner is None else inner.calls
        if len(calls) != 1 or calls[0].args != [None] or calls[0].kwargs:
            return False
        # A closure over the variable of a loop sees its last item.
        function = calls[0].callee.args[0] if calls[0].callee.op == "last_round" else calls[0].callee
    if function is not None and _is_partial(function):
        function = function.args[1]
    if function is not None and function.op == "attr" and function.args[1] in {"__call__", "forward"}:
        function = function.args[0]
    return function is callee


def _of_checkpoint(call: Call, like: Call, given: list[Given]) -> list[Given]:
    bound = _of_partial(call.args[0])
    named = {part.args[0]: part.args[1] for part in bound if part.op == "keyword"}
    terms = {term for term in (*call.args, *call.kwargs.values(), *bound, *named.values()) if term is not None}
    count = len(call.args) - 1 + len(bound) - len(named)
    # A checkpoint without keywords may pass everything by position, under other names.
    full = count >= len(like.args) + len(like.kwargs)
    return [
        one
        for one in given
        if one.term not in terms
        and one.keyword not in call.kwargs
        and one.name not in named
        and (not full if one.keyword is not None else count <= one.position)
    ]


def _of_plain(call: Call, like: Call, given: list[Given]) -> list[Given]:
    terms = {term for term in (*call.args, *call.kwargs.values()) if term is not None}
    if len(call.args) >= len(like.args):
        return []
    named = [one for one in given if one.keyword is not None]
    return [one for one in named if one.term not in terms and one.keyword not in call.kwargs]


def _comparable(call: Call, like: Call, segments: list[Given]) -> bool:
    """Whether nothing says that the call is meant to do without: no condition about the metadata, no part given."""
    terms = {one.term for one in segments}
    for condition, _ in (*call.context, *like.context):
        if any(inner in terms for inner in condition.walk()):
            return False
    given = {term for term in (*call.args, *call.kwargs.values()) if term is not None}
    return not terms & given and not any(one.keyword in call.kwargs for one in segments)


def _same_conditions(call: Call, like: Call) -> bool:
    return _conditions(call) == _conditions(like)


def _conditions(call: Call) -> list[tuple[Term, bool]]:
    return [(condition, holds) for condition, holds in call.context if condition.op != "loop"]


def _other_manner(call: Call, like: Call) -> bool:
    """Whether two calls are the branches of a condition about how to run, not what: recomputation, training."""
    one, other = _conditions(call), _conditions(like)
    if not one or len(one) != len(other) or one[:-1] != other[:-1]:
        return False
    (condition, holds), (same, contrary) = one[-1], other[-1]
    named = (inner for inner in condition.walk() if inner.op in {"attr", "parameter", "call"})
    about = (name for inner in named for name in inner.args if isinstance(name, str))
    return condition is same and holds != contrary and any(_MANNER & words(name) for name in about)


def _twins(call: Call, like: Call, segments: list[Given]) -> bool:
    """Whether two calls differ in their first argument and the metadata only."""
    by_position = {one.position for one in segments if one.keyword is None}
    theirs = [term for at, term in enumerate(like.args) if at not in by_position]
    names = {one.keyword for one in segments}
    rest = {name: term for name, term in like.kwargs.items() if name not in names}
    return bool(call.args) and len(theirs) == len(call.args) and theirs[1:] == call.args[1:] and rest == call.kwargs


def _same_list_kind(call: Call, like: Call) -> bool:
    """Whether both callees are items of one list of layers, or of two under the same variable."""
    lists = [_list_of(one.callee) for one in (call, like)]
    if call.callee is not like.callee and lists[0] is not None and lists[0] is lists[1]:
        return True
    return (
        call.callee is not like.callee
        and call.callee.op == "elem"
        and like.callee.op == "elem"
        and call.path == like.path
        and not {"enumerate"} & {call.callee.args[0].op, like.callee.args[0].op}
    )


def _list_of(layer: Term) -> Term | None:
    """`self.layers` for its items, also of a slice of it."""
    if layer.op not in {"elem", "item"}:
        return None
    layers = layer.args[0]
    while layers.op == "item" and layers.args[1].op == "slice":
        layers = layers.args[0]
    return layers if layers.op == "attr" else None


def _same_rows(call: Call, like: Call) -> bool:
    rows = [_rows(one) for one in (call, like)]
    return rows[0] is not None and rows[0] is rows[1]


def _rows(call: Call) -> Term | None:
    return call.args[0] if call.args else next((call.kwargs[name] for name in _ROWS if name in call.kwargs), None)


def _shares(call: Call, given: list[Given]) -> bool:
    """Whether a call gets other metadata of the same rows, such as position ids."""
    return any(one.keyword is not None and call.kwargs.get(one.keyword) is one.term for one in given)


def _used_alike(view: View, call: Call, like: Call) -> bool:
    """Whether the results of two calls are both the outputs of a model."""
    read = view.module.pool.by_op.get("attr", ())
    names = [{user.args[1] for user in read if user.args[0] is one.result} for one in (call, like)]
    return bool(names[0] & names[1] & _OUTPUTS)


def _odd_ones(givers: list[tuple[Call, list[Given]]], calls: Iterable[Call], found: set[ast.Call]) -> Iterator[LeftOut]:
    """One of three or more calls with the same keywords lacks what all others get."""
    families: dict[tuple[frozenset[str], int, tuple[tuple[Term, bool], ...]], list[tuple[Call, list[Given]]]] = {}
    for call, given in givers:
        segments = [one for one in given if one.keyword not in {None, "**"} and not one.is_position]
        rest = frozenset(call.kwargs) - {one.keyword for one in segments}
        if segments and len(rest) > 1 and "**" not in call.kwargs:
            families.setdefault((rest, len(call.args), tuple(_conditions(call))), []).append((call, segments))
    for (names, count, conditions), members in families.items():
        terms = {tuple(one.term for one in given) for _, given in members}
        odd = [
            call
            for call in calls
            if frozenset(call.kwargs) == names and len(call.args) == count and tuple(_conditions(call)) == conditions
        ]
        if len(members) > 1 and len(terms) == 1 and len(odd) == 1 and odd[0].node not in found:
            like, given = members[0]
            if _comparable(odd[0], like, given):
                yield LeftOut(odd[0], like, tuple(given))


def without_tags(view: View) -> Iterator[LeftOut]:
    """Convolutions without segment tags whose result goes into a scan that gets them."""
    consumers = {consumer.call.node for consumer in view.consumers}
    for call in view.calls:
        if call.name != "causal_conv1d_fn" or (call.imported and not call.path.startswith("causal_conv1d")):
            continue
        if call.node in consumers or "**" in call.kwargs or None in call.args or len(call.args) > 3:
            continue
        for scan in view.consumers:
            tags = scan.roles.get("tags")
            if tags is None or tags.name != "seq_idx" or tags.term.op == "const" or not isinstance(tags.node, ast.expr):
                continue
            given = [*scan.call.args[:1], scan.call.kwargs.get("x")]
            if any(term is not None and call.result in set(term.walk()) for term in given):
                yield LeftOut(call, scan.call, (Given("seq_idx", tags.term, tags.node, "seq_idx"),))
                break


def without_bounds(view: View) -> Iterator[LeftOut]:
    """Recurrences and linear attentions without boundaries, on rows from a convolution that was told the segments."""
    for call in view.calls:
        kernel = kernel_of(view, call)
        if kernel is None or not _RECURRENCES & set(kernel.imports) or None in call.args or "**" in call.kwargs:
            continue
        if any(kernel.keywords.get(name) in _OF_SEGMENTS for name in call.kwargs):
            continue
        if any(
            kind_by_name(view, name) in _OF_SEGMENTS and takes(kernel, kind_by_name(view, name))
            for name in unread(view)
        ):
            continue  # VL415's subject
        inside = {part for term in (*call.args, *call.kwargs.values()) if term is not None for part in term.walk()}
        for convolution in view.calls:
            given = (
                _segments_of(view, convolution, kernel)
                if "conv" in convolution.path and convolution.result in inside
                else None
            )
            if given is not None and not _opposed(convolution, call):
                yield LeftOut(call, convolution, (given,))
                break


def _segments_of(view: View, call: Call, kernel: Sink) -> Given | None:
    """The boundaries or tags that a call gets by keyword."""
    for keyword in call.node.keywords:
        term = call.kwargs.get(keyword.arg or "")
        if (
            keyword.arg is not None
            and term is not None
            and term.op != "const"
            and kind_by_name(view, keyword.arg) in _OF_SEGMENTS
        ):
            return Given(keyword.arg, term, keyword.value, keyword.arg if keyword.arg in kernel.keywords else None)
    return None


def _opposed(one: Call, other: Call) -> bool:
    """Whether two calls never run together."""
    holds = dict(one.context)
    return any(cond in holds and holds[cond] != value for cond, value in other.context)
