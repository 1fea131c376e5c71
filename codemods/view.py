"""What a rule sees of one function: its consumers, the values that travel together, and how to report."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from shapecheck.codemods.catalogue import Catalogue, Sink
from shapecheck.codemods.contracts import ContractIndex, Signature
from shapecheck.codemods.engine.events import Binding, Call, Return
from shapecheck.codemods.engine.module import Function, Module
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.engine.walk import walk
from shapecheck.codemods.findings import Edit, Finding, Fix, Note, Position, Span
from shapecheck.codemods.rule import Rule

_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, eq=False)
class Argument:
    """A value in a role, and the expression that gives it."""

    role: str
    name: str  # keyword, key or variable
    term: Term
    node: ast.AST


# Roles that make a call a consumer of packed metadata.
PACKED = frozenset(
    {
        *("bounds", "bounds_q", "bounds_k", "ends_q", "ends_k", "padded_q", "padded_k"),
        *("lens_q", "lens_k", "max", "max_q", "max_k", "tags", "tags_q", "tags_k"),
    }
)


@dataclass(frozen=True, eq=False)
class Consumer:
    """A call that takes packed metadata.

    Attributes:
        call: the call.
        sink: its entry in the catalogue, or None where only its keywords speak.
        roles: role -> argument.
    """

    call: Call
    sink: Sink | None
    roles: dict[str, Argument]

    def sides(self) -> Iterator[tuple[str, Argument | None, Argument | None, Argument | None]]:
        """For q and k: (side, rows, boundaries, maximum)."""
        get = self.roles.get
        bounds, longest = get("bounds"), get("max")
        yield "q", get("q") or get("qkv") or get("x"), get("bounds_q") or bounds, get("max_q") or longest
        yield "k", get("k") or get("kv") or get("qkv"), get("bounds_k") or bounds, get("max_k") or longest


@dataclass(frozen=True, eq=False)
class Bundle:
    """Values that leave the function together: a returned tuple or dict, a batch, the keywords of a call."""

    node: ast.AST
    members: tuple[Argument, ...]  # role "" where the name says nothing


def sink_of(signature: Signature, catalogue: Catalogue) -> Sink | None:
    """An annotated signature as a consumer; None if it takes no boundaries.

    Boundaries are what `PrefixSum(end=...)` says, or an annotated parameter whose name says so; the rows are the
    first parameter
    of two axes or more that has the axis where the boundaries end.
    """
    roles: dict[str, str] = {}
    end = next((one.covers for one in signature.parameters if one.covers is not None), None)
    for one in signature.parameters:
        role = catalogue.role_of(one.name)
        if one.dims is not None and (role in PACKED or one.covers is not None):
            roles[one.name] = role if role in PACKED and role is not None else "bounds"
    if not {"bounds", "bounds_q", "bounds_k"} & set(roles.values()):
        return None
    for one in signature.parameters:
        if (
            end is not None
            and one.dims is not None
            and end in one.dims[:2]
            and len(one.dims) > 1
            and one.name not in roles
        ):
            roles[one.name] = "x"
            break
    bounds = [one for one in signature.parameters if roles.get(one.name, "").startswith("bounds")]
    positional = [one.name for one in signature.parameters if one.positional]
    return Sink(
        signature.called,
        (),
        {place: roles[name] for place, name in enumerate(positional) if name in roles},
        roles,
        "int32" if all(one.dtype == "Int32" for one in bounds) else None,
    )


class Source:
    """Places in a file's text: ast counts bytes, findings count characters."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = text.split("\n")

    def span(self, node: ast.AST) -> Span:
        """The span of a node."""
        return Span(
            self._position(node.lineno, node.col_offset),  # type: ignore[attr-defined]
            self._position(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
        )

    def mentions(self, word: str) -> bool:
        """Whether the text contains the word anywhere."""
        return re.search(rf"\b{re.escape(word)}\b", self.text) is not None

    def code(self, node: ast.AST) -> str:
        """A node as it is written."""
        try:
            start = node.lineno, node.col_offset  # type: ignore[attr-defined]
            end = node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]
        except AttributeError:  # a node that is not in the text
            return ast.unparse(node)
        return self.between(start, end)

    def between(self, start: tuple[int, int], end: tuple[int, int]) -> str:
        """The text from one (row, byte of the row) to another, as `ast` counts them."""
        lines = self._lines[start[0] - 1 : end[0]]
        lines[-1] = lines[-1].encode()[: end[1]].decode()
        lines[0] = lines[0].encode()[start[1] :].decode()
        return "\n".join(lines)

    def _position(self, row: int, offset: int) -> Position:
        line = self._lines[row - 1] if row <= len(self._lines) else ""
        column = offset if line.isascii() else len(line.encode()[:offset].decode("utf-8", "replace"))
        return Position(row, column + 1)


@dataclass(eq=False)
class View:
    """One function, as the rules see it."""

    function: Function
    catalogue: Catalogue
    source: Source
    path: str
    siblings: Sequence["View"] = field(default_factory=list)  # the other functions of the file
    contracts: ContractIndex = field(default_factory=ContractIndex)

    @property
    def module(self) -> Module:
        """The file."""
        return self.function.module

    @cached_property
    def methods(self) -> tuple[ast.AST, ...]:
        """All methods of the function's class; the function alone where it has none."""
        owner = self.function.owner
        return (self.function.node,) if owner is None else tuple(self.module.methods(owner).values())

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the function, in order of appearance: one walk for all rules."""
        placed = [node for node in walk(self.function.node) if hasattr(node, "lineno")]
        return tuple(sorted(placed, key=lambda node: (node.lineno, node.col_offset)))  # type: ignore[attr-defined]

    def of_class(self) -> list["View"]:
        """The function itself, and the other methods of its class."""
        owner = self.function.owner
        others = [
            view for view in self.siblings if owner is not None and view.function.owner is owner and view is not self
        ]
        return [self, *others]

    @cached_property
    def roles(self) -> frozenset[str]:
        """The roles of all names in the function and of what its consumers take: most rules are about some of them."""
        names = set(_WORD.findall(self.source.code(self.function.node)))
        found = {role for name in names if (role := self.catalogue.role_of(name)) is not None}
        return frozenset(found.union(*(consumer.roles for consumer in self.consumers)))

    @cached_property
    def calls(self) -> list[Call]:
        """The calls in order."""
        return self.function.calls

    @cached_property
    def bindings(self) -> list[Binding]:
        """The assignments in order."""
        return self.function.bindings

    @cached_property
    def returns(self) -> list[Return]:
        """The returns in order."""
        return self.function.returns

    @cached_property
    def consumers(self) -> list[Consumer]:
        """The calls that take packed metadata."""
        return [found for call in self.calls if (found := self._consumer(call)) is not None]

    def _consumer(self, call: Call) -> Consumer | None:
        candidates = self.catalogue.by_callee.get(call.name, [])
        own = next((sink for sink in candidates if call.imported and sink.owns(call.path)), None)
        if own is None and not candidates:
            signature = self.signature_of(call)
            own = None if signature is None else sink_of(signature, self.catalogue)
        roles: dict[str, Argument] = {}
        if own is not None:
            for position, role in own.positions.items():
                node = call.arg_node(position)
                if node is not None and position < len(call.args):
                    term = call.args[position]
                    if term is not None:
                        roles[role] = Argument(role, role, term, node)
        # Another package's function of the same name takes the same keywords, but not at the same positions.
        sink = own or (candidates[0] if candidates else None)
        for keyword, term in call.kwargs.items():
            role_name = sink.keywords.get(keyword) if sink is not None else None
            if role_name is None and keyword not in {"x", "rows"}:
                role_name = self.catalogue.role_of(keyword)
            node = call.arg_node(None, keyword) if role_name is not None else None
            if role_name is not None and node is None and any(word.arg is None for word in call.node.keywords):
                shown = [value for inner in self.nodes for value in values_of_key(inner, keyword)]
                node = shown[0] if len(shown) == 1 else None
            if role_name is not None and node is not None:
                roles.setdefault(role_name, Argument(role_name, keyword, term, node))
        return Consumer(call, sink, roles) if PACKED & roles.keys() else None

    @cached_property
    def own_signature(self) -> Signature | None:
        """The function's own annotated signature; None without one."""
        node, owner = self.function.node, self.function.owner
        return self.contracts.method(owner.name if owner is not None else "", node.name, self.path)

    def signature_of(self, call: Call) -> Signature | None:
        """The annotated signature of this project that a call runs; None if unknown or not annotated."""
        contracts = self.contracts
        if not contracts.signatures:
            return None
        if call.receiver is not None and call.receiver.op == "self":
            found = contracts.method(call.receiver.args[0], call.name, self.path)
            if found is not None:
                return found
        if call.callee.op == "call":
            return contracts.instance(call.callee.args[0], self.path)
        if call.callee.op == "parameter":
            named = getattr(call.callee.node, "annotation", None)  # `model: Encoder`
            if isinstance(named, ast.Name):
                return contracts.instance(self.module.imports.get(named.id, named.id), self.path)
        if call.receiver is None and call.path != "?" and call.callee.op in {"module", "global"}:
            return contracts.function(call.path, self.path)
        return None

    @cached_property
    def bundles(self) -> list[Bundle]:
        """Values that travel together."""
        found = []
        for returned in self.returns:
            members = self._members(returned.value, returned.value_node)
            if len(members) > 1:
                found.append(Bundle(returned.node, tuple(members)))
        for binding in self.bindings:
            if binding.value.op == "dict" and binding.value_node is not None:
                members = self._members(binding.value, binding.value_node)
                if len(members) > 1:
                    found.append(Bundle(binding.node, tuple(members)))
        stored: dict[Term, list[Argument]] = {}
        for binding in self.bindings:
            target = binding.node.targets[0] if isinstance(binding.node, ast.Assign) else None
            if isinstance(target, ast.Name) and binding.value.op == "dict":
                # d = {"length": ...}; d["ids"] = ...
                stored[self.module.pool.make("written_to", target.id)] = self._members(
                    binding.value, binding.value_node
                )
            if (
                isinstance(target, ast.Subscript)
                and isinstance(target.slice, ast.Constant)
                and isinstance(target.slice.value, str)
            ):
                key = target.slice.value
                base = ast.unparse(target.value)
                stored.setdefault(self.module.pool.make("written_to", base), []).append(
                    Argument(self.catalogue.role_of(key) or "", key, binding.value, binding.value_node or binding.node)
                )
        found += [Bundle(members[-1].node, tuple(members)) for members in stored.values() if len(members) > 1]
        for call in self.calls:
            for given, term in zip(call.node.args, call.args, strict=False):
                # batches.append({"cu_seqlens": ...})
                if isinstance(given, ast.Dict) and term is not None and len(members := self._members(term, given)) > 1:
                    found.append(Bundle(given, tuple(members)))
            members = []
            for node in call.node.keywords:
                if node.arg is not None and node.arg in call.kwargs:
                    members.append(
                        Argument(self.catalogue.role_of(node.arg) or "", node.arg, call.kwargs[node.arg], node.value)
                    )
            if sum(bool(member.role) for member in members) > 1:
                found.append(Bundle(call.node, tuple(members)))
        return found

    def _members(self, value: Term, node: ast.expr | None) -> list[Argument]:
        if value.op == "tuple" and isinstance(node, ast.Tuple) and len(node.elts) == len(value.args):
            return [
                Argument(self.catalogue.role_of(name := name_of(elt)) or "", name, term, elt)
                for elt, term in zip(node.elts, value.args, strict=True)
            ]
        if value.op == "dict" and isinstance(node, ast.Dict):
            found = []
            for key, elt in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    term = self.module.pool.item(value, self.module.pool.const(key.value))
                    found.append(Argument(self.catalogue.role_of(key.value) or "", key.value, term, elt))
            return found
        return []

    # Reporting -------------------------------------------------------------------------------------------------------

    def finding(
        self,
        rule: Rule,
        node: ast.AST,
        message: str,
        *,
        notes: Sequence[tuple[ast.AST | None, str]] = (),
        fix: Fix | None = None,
    ) -> Finding:
        """A finding at a node, with the places of the values that it is about."""
        return Finding(
            self.path,
            self.source.span(node),
            rule.code,
            rule.name,
            message,
            tuple(Note(self.source.span(at), text) for at, text in notes if at is not None),
            fix,
        )

    def fix(self, title: str, *edits: Edit, safe: bool = False) -> Fix:
        """A fix."""
        return Fix(title, safe, edits)

    def binding_of(self, name: str, before: int | None = None) -> Binding | None:
        """The last binding of a name (before the event with that number)."""
        found = None
        for binding in self.bindings:
            if before is not None and binding.order >= before:
                break
            if binding.target == name:
                found = binding
        return found

    def line(self, node: ast.AST | None) -> str:
        """` (line 12)`, or nothing where the place is unknown."""
        return f" (line {node.lineno})" if node is not None and hasattr(node, "lineno") else ""


def values_of_key(node: ast.AST, key: str) -> Iterator[ast.expr]:
    """The values that a dict display, or a call of `dict`, has under a key."""
    if isinstance(node, ast.Dict):
        for at, value in zip(node.keys, node.values, strict=True):
            if isinstance(at, ast.Constant) and at.value == key:
                yield value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        yield from (given.value for given in node.keywords if given.arg == key)


def name_of(node: ast.expr) -> str:
    """The name that an expression goes by: a variable, attribute or key, also as the argument of one call."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(attr=attr):
            return attr
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return key
        case ast.Call(func=func, args=[inner]) if isinstance(func, ast.Name | ast.Attribute):
            return name_of(inner)
    return ""
