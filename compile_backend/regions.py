"""Bodies that several calls share, as `torch.compiler.nested_compile_region` makes them.

Before the analysis each call gets a copy of its body, so that the attentions in it are looked at, lowered and given
boundaries for this call. Afterwards the calls whose copies still equal each other share one body again: what was
compiled once for all layers still is.
"""

import copy
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from shapecheck.compile_backend.erase import erase_unused
from torch import fx

_CALL = torch.ops.higher_order.invoke_subgraph
_OPERANDS = 2
"""Where they start among the arguments: body, the name by which what is compiled of it is kept, operands."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that got a copy of its body.

    Attributes:
        node: the call.
        body: the node that reads its body off `owner`, for this call only.
        owner: the module whose graph calls.
        original: what its body is called there, and `text` what it was.
    """

    node: fx.Node
    body: fx.Node
    owner: fx.GraphModule
    original: str
    text: str


@dataclass(frozen=True, slots=True)
class Regions:
    """The calls of shared bodies in one graph and in the bodies in it; the inner ones come later."""

    calls: list[_Call] = field(default_factory=list)

    @classmethod
    def unshare(cls, module: fx.GraphModule) -> "Regions":
        """Give each such call in `module` a body of its own."""
        found = cls()
        rest = [module]
        while rest:
            owner = rest.pop()
            for node in owner.graph.find_nodes(op="call_function", target=_CALL):
                if _body_of(node.args[0]) is not None:
                    found.calls.append(_with_a_copy(node, owner))
            rest += [body for _, body in _bodies(owner)]
        return found

    def share(self) -> None:
        """Let calls of what was one body share one again, where their copies did not become different."""
        alike: dict[tuple[fx.GraphModule, str], list[_Call]] = defaultdict(list)
        for call in reversed(self.calls):
            alike[call.owner, call.original].append(call)
        numbers: dict[tuple[Any, str], int] = {}
        for (owner, original), calls in alike.items():
            variants: dict[str, list[_Call]] = defaultdict(list)
            for call in reversed(calls):
                variants[_text(_held(call.body))].append(call)
            for text, same in variants.items():
                if text == same[0].text:
                    _rename(owner, same, original)
                    continue
                # Bodies that became the same in different places are kept, once compiled, by the same name.
                kept = same[0].node.args[1]
                number = numbers.setdefault((kept, text), len(numbers))
                name = f"{original}_varlen_{number}"
                owner.add_submodule(name, _held(same[0].body))
                _rename(owner, same, name)
                for call in same:
                    call.node.update_arg(1, f"{kept}_varlen_{number}")
                _drop_unused([call.node for call in same])
                _tell_outputs(_held(same[0].body))
            if all(str(node.target) != original for node in owner.graph.find_nodes(op="get_attr")):
                owner.delete_submodule(original)


def _bodies(owner: fx.GraphModule) -> Iterator[tuple[str, fx.GraphModule]]:
    """The bodies that the graph of a module reads off it, with their names."""
    found = {str(node.target): _body_of(node) for node in owner.graph.find_nodes(op="get_attr")}
    for name, body in found.items():
        if body is not None:
            yield name, body


def _body_of(node: Any) -> fx.GraphModule | None:
    if not isinstance(node, fx.Node) or node.op != "get_attr" or node.graph.owning_module is None:
        return None
    held = getattr(node.graph.owning_module, str(node.target), None)
    return held if isinstance(held, fx.GraphModule) else None


def _held(node: Any) -> fx.GraphModule:
    body = _body_of(node)
    assert body is not None
    return body


def _with_a_copy(node: fx.Node, owner: fx.GraphModule) -> _Call:
    body = node.args[0]
    assert isinstance(body, fx.Node)
    original, held = str(body.target), _held(body)
    if len(body.users) > 1:
        with owner.graph.inserting_before(node):
            body = owner.graph.get_attr(original)
        node.update_arg(0, body)
    name = next(name for number in range(10**6) if not hasattr(owner, name := f"{original}_copy_{number}"))
    owner.add_submodule(name, _copy(held))
    body.target = name
    return _Call(node, body, owner, original, _text(held))


def _copy(body: fx.GraphModule) -> fx.GraphModule:
    """A copy of a body and of those in it; tensors are shared."""
    copied = fx.GraphModule(body, copy.deepcopy(body.graph))
    copied.meta.update(body.meta)
    for name, inner in list(_bodies(copied)):
        setattr(copied, name, _copy(inner))
    return copied


def _rename(owner: fx.GraphModule, calls: Sequence[_Call], name: str) -> None:
    """Let calls read their body by another name, and drop what they read so far."""
    for call in calls:
        owner.delete_submodule(str(call.body.target))
        call.body.target = name


def _drop_unused(calls: Sequence[fx.Node]) -> None:
    """Drop operands that the one body of `calls` does not need any more, such as masks."""
    body = _held(calls[0].args[0])
    inputs = body.graph.find_nodes(op="placeholder")
    dropped = [at for at, one in enumerate(inputs) if not one.users]
    for at in dropped:
        body.graph.erase_node(inputs[at])
    for call in calls:
        operands = call.args[_OPERANDS:]
        call.args = (*call.args[:_OPERANDS], *(one for at, one in enumerate(operands) if at not in dropped))
        for at in dropped:
            if isinstance(one := operands[at], fx.Node):
                erase_unused(one)


def _tell_outputs(body: fx.GraphModule) -> None:
    """Say what a body returns where torch looks for it.

    Else it runs the body once more, on tensors without values (`get_output_metadata` of torch's invoke_subgraph, 2.13),
    and boundaries without values are out of range.
    """
    for node in body.graph.output_node().all_input_nodes:
        node.meta.setdefault("val", node.meta.get("example_value"))


def _text(body: fx.GraphModule) -> str:
    """What a body computes: equal texts, equal bodies."""
    at = {node: f"%{position}" for position, node in enumerate(body.graph.nodes)}
    lines = []
    for node in body.graph.nodes:
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda one: _Name(at[one]))
        target = "" if node.op in ("placeholder", "output") else node.target
        if node.op == "get_attr":
            held = _body_of(node)
            target = id(getattr(body, node.target)) if held is None else _text(held)
        elif node.op == "call_function":
            target = id(node.target)
        lines.append(f"{node.op} {target} {args} {kwargs}")
    return "\n".join(lines)


class _Name(str):
    """A node in a text: no string of the program reads like it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
