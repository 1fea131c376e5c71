"""Which operators of a graph take boundaries themselves, and what each of their arguments is.

Read off the linter's catalogue, so that a kernel is described once. The catalogue names Python functions; the operators
below them have other names, and schemas that name each argument. So an operator is looked up by the name of its
arguments: first as the catalogue's consumer of the same name and package has them, leading underscores aside
(`torch_attn::_varlen_attn` is `varlen_attn`), then as all consumers and the catalogue's list of names have them. An
operator that the catalogue does not name must take queries, keys and values too: boundaries of something else may
follow other rules.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import torch
from shapecheck.codemods.catalogue import Catalogue, Sink

OWN = "shapecheck::varlen_attention"
"""Our own operator, where a user calls it."""

_BUILT_IN = ("aten", "prim", "prims", "inductor", "higher_order")
_NAMESPACES = {"torch": "torch_attn", "torch_npu": "npu"}
"""Of operators, where it is not the name of the package that has them."""

_PAGED = frozenset(("block_table", "block_tables", "page_table"))
_TOKENS_FIRST = "TND"
_BOUNDS = ("bounds", "bounds_q", "bounds_k", "ends_q", "ends_k")


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator that takes boundaries.

    Attributes:
        name: with its namespace, such as `"torch_attn::_varlen_attn"`.
        roles: what an argument is, by its name; roles are those of the catalogue.
        dtypes: of boundaries; None where it is not known to want certain ones.
        exact: whether the last boundary must equal the number of rows, rather than be at most that.
        described: whether the catalogue has it. Of others nothing is demanded: the names of their arguments say what
            these are, and not in which layout tensors come or which rows are counted.
    """

    name: str
    roles: Mapping[str, str]
    dtypes: tuple[torch.dtype, ...] | None
    exact: bool
    described: bool


def is_paged(argument: str) -> bool:
    """Whether keys lie in pages where this argument is given: their rows are then no rows of the keys' tensor."""
    return argument in _PAGED


def is_packed_layout(argument: str, given: object) -> bool:
    """Whether an argument that may choose a layout leaves it at packed rows, which Ascend's operators call TND."""
    return argument != "input_layout" or given == _TOKENS_FIRST


def takes_boundaries(target: object) -> bool:
    """Whether a function of a graph may be such an operator; Dynamo leaves the choice of an overload open."""
    if isinstance(target, torch._ops.OpOverloadPacket):
        names: list[str] = target.overloads()  # type: ignore[no-untyped-call]
        return any(operator_of(getattr(target, name)) is not None for name in names)
    return operator_of(target) is not None


@cache
def operator_of(target: object) -> Operator | None:
    """What is known of an operator that takes boundaries; None for all others, and for backward passes."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace in _BUILT_IN:
        return None
    schema = target._schema
    bare = schema.name.partition("::")[2].lstrip("_")
    if any(word in bare for word in ("backward", "bwd", "_grad")):
        return None
    sinks = [
        sink
        for sink in _catalogue().sinks
        if sink.callee.lstrip("_") == bare
        and any(_NAMESPACES.get(root := path.partition(".")[0], root) == target.namespace for path in sink.imports)
    ]
    roles = {}
    for argument in schema.arguments:
        role = _role(argument.name, sinks)
        if role is not None:
            roles[argument.name] = role
    held = set(roles.values())
    if not held.intersection(_BOUNDS) or not (sinks or {"q", "k", "v"} <= held):
        return None
    dtypes = {sink.dtype for sink in sinks}
    wanted: tuple[torch.dtype, ...] | None = None
    if schema.name == OWN:
        wanted = (torch.int32, torch.int64)
    elif len(dtypes) == 1 and (name := dtypes.pop()) is not None:
        wanted = (getattr(torch, name),)
    return Operator(schema.name, roles, wanted, any(sink.exact for sink in sinks), bool(sinks) or schema.name == OWN)


@cache
def _catalogue() -> Catalogue:
    return Catalogue.load()


@cache
def _common() -> dict[str, str | None]:
    """The role of each keyword on which all consumers agree; None for the others."""
    found: dict[str, str | None] = {}
    for sink in _catalogue().sinks:
        for keyword, role in sink.keywords.items():
            found[keyword] = role if found.get(keyword, role) == role else None
    return found


def _role(argument: str, sinks: list[Sink]) -> str | None:
    own = {role for sink in sinks if (role := sink.keywords.get(argument)) is not None}
    if len(own) == 1:
        return own.pop()
    return _common().get(argument) or _catalogue().role_of(argument)
