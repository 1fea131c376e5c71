"""Where values in a role end up: arguments of consumers, and what leaves the function under a name."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from shapecheck.codemods.catalogue import Sink
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.events import Call
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.engine.transfer import METHODS
from shapecheck.codemods.queries.wording import written
from shapecheck.codemods.view import Argument, Bundle, View, name_of, values_of_key

_LIBRARIES = {"torch", "numpy", "itertools", "einops", "math"}
_OF_LISTS = {"append", "extend", "insert", "put", "add"}

BOUNDS = frozenset({"bounds", "bounds_q", "bounds_k", "padded", "padded_q", "padded_k"})
ENDS = frozenset({"ends_q", "ends_k"})
LENS = frozenset({"lens_q", "lens_k"})


@dataclass(frozen=True, eq=False)
class Slot:
    """A value in a role.

    Attributes:
        argument: the first place where it is given.
        others: further places that get the same value in the same call or bundle.
        call: the call that takes it; None where it leaves the function (a return, a batch).
        sink: the catalogue's entry, where the callee is certainly that one.
        guessed: only the name of a variable says the role: a positional argument of an unknown callee.
    """

    argument: Argument
    others: tuple[Argument, ...] = ()
    call: Call | None = None
    sink: Sink | None = None
    guessed: bool = False

    @property
    def node(self) -> ast.AST:
        """The expression."""
        return self.argument.node

    @property
    def term(self) -> Term:
        """The value."""
        return self.argument.term

    @property
    def shown(self) -> str:
        """The expression as it is written, for a message."""
        text = written(self.node)
        return "this value" if text == "a value" else text

    @property
    def taker(self) -> str:
        """Who takes it, for a message."""
        return f"`{self.call.name}`" if self.call is not None else f"`{self.argument.name}`"


def slots(view: View, roles: frozenset[str]) -> Iterator[Slot]:
    """The values given in one of the roles, each once: the first place of a value, or the first of a known consumer."""
    if not roles & view.roles and not ("bounds" in roles and "diff" in view.module.pool.by_op):
        return
    seen: set[Term] = set()
    for slot in sorted(_all(view, roles), key=lambda slot: slot.sink is None):
        if slot.term not in seen:
            seen.add(slot.term)
            yield slot


def _all(view: View, roles: frozenset[str]) -> Iterator[Slot]:
    for consumer in view.consumers:
        call = consumer.call
        given = [argument for role, argument in consumer.roles.items() if role in roles]
        if given:
            sink = consumer.sink
            certain = sink is not None and (not sink.imports or (call.imported and sink.owns(call.path)))
            yield from _grouped(given, call, sink if certain else None)
    for call in view.calls:
        if any(given.arg is None for given in call.node.keywords):
            yield from _from_mappings(view, call, roles)
        elif _takes_rows(view, call):
            for term, node in zip(call.args, call.node.args, strict=False):
                if (
                    isinstance(node, ast.Name)
                    and term is not None
                    and (role := view.catalogue.role_of(node.id)) in roles
                ):
                    yield Slot(Argument(role or "", node.id, term, node), (), call, guessed=True)
    for bundle in view.bundles:
        if not _is_call(bundle):
            members = [member for member in bundle.members if member.role in roles]
            if isinstance(getattr(bundle.node, "value", None), ast.Tuple):
                # `return torch.diff(cu_seqlens), n`: the name is that of the argument, not of the value.
                members = [member for member in members if not isinstance(member.node, ast.Call)]
            yield from _grouped(members, None, None)
    if "bounds" in roles:
        yield from _measured_beside(view)
    stored = {binding.target: binding for binding in view.bindings if "." in binding.target}
    for target, binding in stored.items():
        name = target.rpartition(".")[2]
        if binding.value_node is not None and (role := view.catalogue.role_of(name)) in roles:
            yield Slot(Argument(role or "", target, binding.value, binding.value_node))
    for returned in view.returns:
        if isinstance(returned.value_node, ast.Name | ast.Attribute):
            name = name_of(returned.value_node)
            role = view.catalogue.role_of(name) if name else None
            if role in roles:
                yield Slot(Argument(role, name, returned.value, returned.value_node))


def _measured_beside(view: View) -> Iterator[Slot]:
    """Boundaries by what they leave with, whatever their name: the maximum of their differences."""
    for bundle in view.bundles if "diff" in view.module.pool.by_op else ():
        inner = [plain(member.term) for member in bundle.members]
        lens = [plain(longest.args[0]) for longest in inner if longest.op == "max" and len(longest.args) == 1]
        whole = {plain(length.args[0]) for length in lens if length.op == "diff"}
        for member, value in zip(bundle.members, inner, strict=True):
            if not member.role and value in whole:
                yield Slot(Argument("bounds", member.name or "boundaries", member.term, member.node))


def _is_call(bundle: Bundle) -> bool:
    """Whether the members are the keywords of a call, which its consumer has."""
    return isinstance(bundle.node, ast.Call) and any(
        given.value is bundle.members[0].node for given in bundle.node.keywords
    )


def _takes_rows(view: View, call: Call) -> bool:
    """Whether a callee may be a layer or kernel: nothing of torch, numpy or Python, no method of a tensor or list."""
    if call.name in METHODS or call.name in view.module.helpers or call.name.endswith("_") or call.name in _OF_LISTS:
        return False
    if call.receiver is not None:
        return call.receiver.op in {"self", "attr"}
    return not call.imported or ("." in call.path and call.path.partition(".")[0] not in _LIBRARIES)


def _from_mappings(view: View, call: Call, roles: frozenset[str]) -> Iterator[Slot]:
    """Arguments that are given by `**kwargs`, where one display in the function has the key."""
    sinks = view.catalogue.by_callee.get(call.name, [])
    sink = next((sink for sink in sinks if call.imported and sink.owns(call.path)), None)
    given = []
    for keyword, term in call.kwargs.items():
        role = (sink.keywords.get(keyword) if sink is not None else None) or view.catalogue.role_of(keyword)
        if role in roles and call.arg_node(None, keyword) is None:
            values = [value for node in view.nodes for value in values_of_key(node, keyword)]
            if len(values) == 1:
                given.append(Argument(role, keyword, term, values[0]))
    yield from _grouped(given, call, sink)


def _grouped(given: list[Argument], call: Call | None, sink: Sink | None) -> Iterator[Slot]:
    groups: dict[Term, list[Argument]] = {}
    for argument in given:
        groups.setdefault(argument.term, []).append(argument)
    for first, *others in groups.values():
        yield Slot(first, tuple(others), call, sink)
