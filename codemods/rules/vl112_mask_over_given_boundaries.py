"""Boundaries from the caller are replaced by those of a padding mask.

### What it does
Reports a layer that takes boundaries from its caller and, whenever there is a padding mask, overwrites them with boundaries derived
from the mask, without asking whether the caller gave any.

### Why is this bad?
A packed row holds several segments. Its padding mask only knows padding, so the segments of a row become one and attend to each
other; what the caller said is lost silently.

### Example
```python
cu_seqlens = kwargs.get("cu_seqlens")
if attention_mask is not None:
    indices, cu_seqlens, _ = get_unpad_data(attention_mask)
```

### Use instead
```python
cu_seqlens = kwargs.get("cu_seqlens")
if cu_seqlens is None and attention_mask is not None:
    indices, cu_seqlens, _ = get_unpad_data(attention_mask)
```

### Fix safety
No fix: the rows have to be handled under the same condition.

### References
- [flash-linear-attention: variable-length inputs](https://github.com/fla-org/flash-linear-attention)
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.names import outer_name
from shapecheck.codemods.queries.slots import BOUNDS, slots
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_HOLDERS = {"packed_seq_params"}  # objects that hold the boundaries of a packed batch


@dataclass(frozen=True)
class _Choice:
    """What the caller gave, what replaces it, and the mask that decides."""

    given: Term
    derived: Term
    mask: Term


def check(view: View) -> Iterator[Finding]:
    """VL112."""
    seen: set[Term] = set()
    for node, term in _taken(view):
        choice = _choice(term, view)
        if choice is None or choice.given in seen:
            continue
        seen.add(choice.given)
        given, mask = outer_name(choice.given), outer_name(choice.mask)
        if given is None or mask is None or _exclusive(view.nodes, given):
            continue
        bound = next((binding for binding in view.bindings if plain(binding.value) is choice.derived), None)
        place = bound.node if bound is not None else node
        yield view.finding(
            RULE,
            place,
            f"the caller's `{given}` is replaced by boundaries of `{mask}` whenever there is a mask, so the segments of a packed "
            f"row are joined; derive them only where `{given}` is None",
            notes=[(node, f"used here, whether it came from the caller or from `{mask}`")],
        )
    yield from _written_back(view)


def _taken(view: View) -> Iterator[tuple[ast.AST, Term]]:
    """Boundaries, and objects that hold them, where a call takes them."""
    for slot in slots(view, BOUNDS):
        if slot.call is not None:
            yield slot.node, slot.term
    for call in view.calls:
        for given in call.node.keywords:
            if given.arg in _HOLDERS and given.arg in call.kwargs:
                yield given.value, call.kwargs[given.arg]


def _written_back(view: View) -> Iterator[Finding]:
    """`kwargs["cu_seqlens"] = ...` under a condition on the mask alone."""
    rest = view.function.node.args.kwarg
    if rest is None:
        return
    mapping = view.function.parameters[rest.arg]
    for binding in view.bindings:
        target = binding.node.targets[0] if isinstance(binding.node, ast.Assign) else None
        match target:
            case ast.Subscript(value=ast.Name(id=rest.arg), slice=ast.Constant(value=str(key))) if binding.context:
                conditions = [condition for condition, _ in binding.context]
                mask = _decides(conditions[-1])
                asked = any(mapping in set(condition.walk()) for condition in conditions)
                if mask is None or asked or not _is_mask(mask, view) or view.catalogue.role_of(key) not in BOUNDS:
                    continue
                if mask in set(binding.value.walk()) and not _exclusive(view.nodes, key):
                    yield view.finding(
                        RULE,
                        binding.node,
                        f"the caller's `{key}` is replaced by boundaries of `{outer_name(mask)}` whenever there is a mask, so the "
                        f"segments of a packed row are joined; derive them only where the caller gave none",
                    )


def _choice(term: Term, view: View) -> _Choice | None:
    """The two sources of a value that is the caller's or the mask's, as the mask alone decides."""
    term = plain(term)
    if term.op != "phi":
        return None
    mask = _decides(term.args[0])
    if mask is None or not _is_mask(mask, view):
        return None
    sides = [plain(side) for side in term.args[1:]]
    for side, other in (sides, reversed(sides)):
        given = _if_any(side)
        derived = _without(other, given)
        within = set(derived.walk())
        if _from_caller(given, view) and given not in within and mask in within:
            return _Choice(given, derived, mask)
    return None


def _decides(condition: Term) -> Term | None:
    """The one value that a condition is about."""
    while condition.op == "not":
        condition = condition.args[0]
    if condition.op == "Is" and condition.args[1].is_const(None):
        mask: Term = condition.args[0]
        return mask
    about = {inner for inner in condition.walk() if inner.op in {"parameter", "self", "sym"}}
    return about.pop() if len(about) == 1 else None


def _is_mask(mask: Term, view: View) -> bool:
    name = outer_name(mask) or ""
    return view.catalogue.role_of(name) == "mask" or name == "mask"


def _without(derived: Term, given: Term) -> Term:
    """A value without the branches in which it stays what the caller gave."""
    while derived.op == "phi" and given not in set(derived.args[0].walk()):
        sides = [plain(side) for side in derived.args[1:]]
        if given not in sides:
            break
        derived = sides[1 - sides.index(given)]
    return derived


def _if_any(term: Term) -> Term:
    """`x` for `x if ... else None`."""
    if term.op != "phi":
        return term
    sides = [plain(side) for side in term.args[1:]]
    values = [side for side in sides if not side.is_const(None)]
    return values[0] if len(values) == 1 else term


def _from_caller(term: Term, view: View) -> bool:
    name = outer_name(term)
    if name is None or (view.catalogue.role_of(name) not in BOUNDS and name not in _HOLDERS):
        return False
    return term.op in {"parameter", "item"} or bool(term.args[0].op == "parameter")


def _exclusive(nodes: Iterable[ast.AST], given: str) -> bool:
    """Whether the function refuses or returns early for some values of the caller's boundaries."""
    for node in nodes:
        if isinstance(node, ast.Assert) and _mentions(node.test, given):
            return True
        if (
            isinstance(node, ast.If)
            and any(isinstance(last, ast.Raise | ast.Return) for last in _lasts(node))
            and _mentions(node.test, given)
        ):
            return True
    return False


def _lasts(node: ast.If) -> list[ast.stmt]:
    return [node.body[-1], *node.orelse[-1:]]


def _mentions(node: ast.AST, name: str) -> bool:
    return any(
        (isinstance(inner, ast.Name) and inner.id == name) or (isinstance(inner, ast.Constant) and inner.value == name)
        for inner in ast.walk(node)
    )


RULE = Rule(
    "VL112",
    "mask-over-given-boundaries",
    "stable",
    __doc__,
    check,
    valid=(
        "from .padding import get_unpad_data\n\n\ndef f(layer, x, attention_mask=None, cu_seqlens=None):\n"
        "    if cu_seqlens is None and attention_mask is not None:\n"
        "        indices, cu_seqlens, _ = get_unpad_data(attention_mask)\n    return layer(x, cu_seqlens=cu_seqlens)\n",
        "from .padding import get_unpad_data\n\n\ndef f(layer, x, attention_mask=None, cu_seqlens=None):\n"
        "    if cu_seqlens is not None and attention_mask is not None:\n        raise ValueError('one of them')\n"
        "    if attention_mask is not None:\n"
        "        indices, cu_seqlens, _ = get_unpad_data(attention_mask)\n    return layer(x, cu_seqlens=cu_seqlens)\n",
        "from .padding import get_unpad_data\n\n\ndef f(layer, x, attention_mask=None):\n    cu_seqlens = None\n"
        "    if attention_mask is not None:\n"
        "        indices, cu_seqlens, _ = get_unpad_data(attention_mask)\n    return layer(x, cu_seqlens=cu_seqlens)\n",
    ),
    invalid=(
        Invalid(
            "from .padding import get_unpad_data\n\n\ndef f(layer, x, attention_mask=None, **kwargs):\n"
            "    cu_seqlens = kwargs.get('cu_seqlens')\n    if attention_mask is not None:\n"
            "        indices, cu_seqlens, _ = get_unpad_data(attention_mask)\n    return layer(x, cu_seqlens=cu_seqlens)\n",
            rows=(7,),
        ),
        Invalid(
            "import torch.nn.functional as F\n\n\ndef f(layer, x, attention_mask=None, cu_seqlens=None):\n"
            "    if attention_mask is not None:\n        if attention_mask.dim() == 2:\n"
            "            cu_seqlens = F.pad(attention_mask.sum(-1).cumsum(0), (1, 0))\n"
            "    return layer(x, cu_seqlens=cu_seqlens)\n",
            rows=(7,),
        ),
        Invalid(
            "import torch.nn.functional as F\n\n\ndef f(layer, x, attention_mask=None, cu_seq_lens_q=None):\n"
            "    if attention_mask is not None:\n        lens = attention_mask.sum(-1)\n"
            "        cu_seq_lens_q = F.pad(lens.cumsum(0), (1, 0))\n"
            "    return layer(x, cu_seqlens=cu_seq_lens_q)\n",
            rows=(7,),
        ),
        Invalid(
            "import torch.nn.functional as F\n\n\ndef f(layer, x, attention_mask=None, **kwargs):\n"
            "    if attention_mask is not None:\n        lens = attention_mask.sum(-1)\n"
            "        kwargs['cu_seqlens'] = F.pad(lens.cumsum(0), (1, 0))\n    return layer(x, **kwargs)\n",
            rows=(7,),
        ),
    ),
)
