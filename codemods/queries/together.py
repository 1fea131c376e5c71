"""Values that describe the same rows because they travel together: in one call, one dict or one object."""

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.events import Call
from shapecheck.codemods.view import Argument, View


@dataclass(frozen=True, eq=False)
class Group:
    """Arguments by role; a role that two different values claim is left out.

    Attributes:
        node: the call, display or statement.
        call: the call, where it is one.
        roles: role -> argument.
    """

    node: ast.AST
    call: Call | None
    roles: dict[str, Argument]

    def side(self, name: str) -> tuple[Argument | None, Argument | None]:
        """Boundaries and maximum of `q` or `k`."""
        get = self.roles.get
        return get(f"bounds_{name}") or get("bounds"), get(f"max_{name}") or get("max")


def groups(view: View) -> Iterator[Group]:
    """The groups of a function that hold boundaries."""
    seen: set[int] = set()
    for consumer in view.consumers:
        seen.add(id(consumer.call.node))
        yield Group(consumer.call.node, consumer.call, consumer.roles)
    for bundle in view.bundles:
        if id(bundle.node) not in seen:
            yield Group(bundle.node, None, _unambiguous(_recognized(bundle.members)))
    fields: dict[str, dict[str, Argument]] = {}
    for binding in view.bindings:
        base, _, attribute = binding.target.rpartition(".")
        if base and "[" not in attribute and (role := view.catalogue.role_of(attribute)):
            node = binding.value_node or binding.node
            fields.setdefault(base, {})[attribute] = Argument(role, attribute, binding.value, node)
    for members in fields.values():
        if len(members) > 1:
            found = list(members.values())
            yield Group(found[0].node, None, _unambiguous(found))


def _recognized(members: Sequence[Argument]) -> Iterator[Argument]:
    """The members, with the roles of the one value that is made as boundaries and the one that is made as a maximum."""
    nameless = [member for member in members if not member.role]
    kinds = {
        "bounds": [one for one in nameless if _is_made_as_bounds(one)],
        "max": [one for one in nameless if _is_made_as_max(one)],
    }
    given = {member.role.partition("_")[0] for member in members}
    for member in members:
        kind = next((kind for kind, found in kinds.items() if found == [member] and kind not in given), "")
        yield replace(member, role=kind) if kind else member


def _is_made_as_bounds(member: Argument) -> bool:
    bounds = bounds_of(member.term)
    return bounds is not None and bounds.zero is True and bounds.kind == "lens"


def _is_made_as_max(member: Argument) -> bool:
    made = plain(member.term)
    return made.op == "max" and len(made.args) == 1


def _unambiguous(members: Iterable[Argument]) -> dict[str, Argument]:
    found: dict[str, Argument] = {}
    twice: set[str] = set()
    for member in members:
        if member.role in found and found[member.role].term is not member.term:
            twice.add(member.role)
        found[member.role] = member
    return {role: member for role, member in found.items() if role and role not in twice}
