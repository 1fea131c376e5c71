"""A loop over all keys of a batch cuts the token axis of values that have none.

### What it does
Reports loops that slice axis 1 of every value of a batch but those of some keys, where a key that is not exempt leaves
the function together with an exempt one.

### Why is this bad?
`pixel_values` is exempt because its axis 1 is not the tokens. What belongs to it (`image_position_ids`) has the same
axis, but is cut to the token limit.

### Example
```python
for key, value in batch.items():
    if key != "pixel_values":
        batch[key] = value[:, :limit]
vision = {"pixel_values": batch.pop("pixel_values"), "image_position_ids": batch.pop("image_position_ids")}
```

### Use instead
```python
for key in ("input_ids", "attention_mask", "labels"):
    batch[key] = batch[key][:, :limit]
```

### Fix safety
No fix: which keys have a token axis is not known.

### References
- [Automodel#3554](https://github.com/NVIDIA-NeMo/Automodel/issues/3554)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.findings import Finding
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL322."""
    for loop in view.nodes:
        if (
            not isinstance(loop, ast.For)
            or not isinstance(loop.iter, ast.Call)
            or not isinstance(loop.target, ast.Tuple)
        ):
            continue
        batch, names = _batch(loop.iter), loop.target.elts
        if batch is None or not isinstance(names[0], ast.Name):
            continue
        key = names[0].id
        test = next((node for node in ast.walk(loop) if _exempts(node, key)), None)
        cut = next((node for node in ast.walk(loop) if _cuts(node, batch, key)), None)
        if test is None or cut is None:
            continue
        exempt = {
            node.value for node in ast.walk(test) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        found = next((pair for display in view.nodes if (pair := _parted(display, batch, exempt)) is not None), None)
        if found is not None and found[2].lineno > loop.lineno:
            known, other, node = found
            yield view.finding(
                RULE,
                cut,
                f"`{known}` is exempt from the cut of axis 1, but `{other}`, which goes with it{view.line(node)}, is "
                "not; name the keys that have a token axis",
                notes=[(node, "goes with the exempt key here")],
            )


def _parted(display: ast.AST, batch: str, exempt: set[str]) -> tuple[str, str, ast.expr] | None:
    """An exempt key and another one that a dict display holds, and the value of the latter."""
    if not isinstance(display, ast.Dict):
        return None
    taken = {name: node for value in display.values for name, node in _keys_of(value, batch)}
    others = [name for name in taken if name not in exempt]
    if not others or not exempt & taken.keys():
        return None
    return min(exempt & taken.keys()), others[0], taken[others[0]]


def _batch(node: ast.expr) -> str | None:
    """`batch` for `batch.items()` and `list(batch.items())`."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"list", "tuple"}
        and node.args
    ):
        node = node.args[0]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "items":
        return ast.unparse(node.func.value)
    return None


def _exempts(node: ast.AST, key: str) -> bool:
    return (
        isinstance(node, ast.Compare)
        and isinstance(node.left, ast.Name)
        and node.left.id == key
        and len(node.ops) == 1
        and isinstance(node.ops[0], ast.NotEq | ast.NotIn)
    )


def _cuts(node: ast.AST, batch: str, key: str) -> bool:
    """`batch[key] = value[:, :n]`."""
    if not isinstance(node, ast.Assign) or ast.unparse(node.targets[0]) != f"{batch}[{key}]":
        return False
    value = node.value
    if not isinstance(value, ast.Subscript) or not isinstance(value.slice, ast.Tuple) or len(value.slice.elts) < 2:
        return False
    second = value.slice.elts[1]
    return isinstance(second, ast.Slice) and (second.lower is not None or second.upper is not None)


def _keys_of(node: ast.expr, batch: str) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.Subscript(value=base, slice=ast.Constant(value=str(name))) if ast.unparse(base) == batch:
            yield name, node
        case ast.Call(func=ast.Attribute(value=base, attr="pop" | "get"), args=[ast.Constant(value=str(name)), *_]) if (
            ast.unparse(base) == batch
        ):
            yield name, node


_LOOP = "def f(batch, limit, cu_seqlens):\n    for key, value in list(batch.items()):\n        if {test}:\n            batch[key] = value[:, :limit]\n"
_VISION = "    return {'pixel_values': batch.pop('pixel_values'), 'image_position_ids': batch['image_position_ids']}\n"

RULE = Rule(
    "VL322",
    "cut-of-other-axes",
    "stable",
    __doc__,
    check,
    valid=(
        _LOOP.format(test="key not in ('pixel_values', 'image_position_ids')") + _VISION,
        _LOOP.format(test="key != 'pixel_values'") + "    return batch['position_ids']\n",
    ),
    invalid=(
        Invalid(_LOOP.format(test="key != 'pixel_values'") + _VISION, rows=(4,)),
        Invalid(_LOOP.format(test="value.ndim > 1 and key not in ('pixel_values', 'grid')") + _VISION, rows=(4,)),
    ),
)
