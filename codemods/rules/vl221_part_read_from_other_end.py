"""The last part of joined rows is read from their front.

### What it does
Finds rows that were joined from several parts, went through layers, and are cut to the length of a later part from the front.

### Why is this bad?
`x[:, :image.shape[1]]` holds rows of the text where the text comes first. The shape is right, so training goes on with the wrong
rows.

### Example
```python
x = torch.cat([text, image], dim=1)
x = block(x)
image = x[:, : image.shape[1]]
```

### Use instead
```python
x = torch.cat([text, image], dim=1)
x = block(x)
image = x[:, text.shape[1] :]
```

### Fix safety
No fix.

### References
- [diffusers: single-stream blocks](https://github.com/huggingface/diffusers/tree/main/src/diffusers/models/transformers)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.lengths import length_of
from shapecheck.codemods.engine.describe.rows import rows_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.naming import named
from shapecheck.codemods.queries.rearranged import within
from shapecheck.codemods.queries.row_chain import chain
from shapecheck.codemods.queries.words import side_words
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_THROUGH = {"call", "rounds", "cast", "moved", "attr", "elementwise", "last_round"}


def check(view: View) -> Iterator[Finding]:
    """VL221."""
    by_op = view.module.pool.by_op
    if "cat" not in by_op:
        return
    for split in by_op.get("split", ()):
        yield from _swapped(view, split)
    for op in ("item", "narrow"):
        for term in by_op.get(op, ()):
            front = _front(term)
            if front is None or term.node is None:
                continue
            axis, count = front
            length = length_of(count)
            if length is None or length.axis != axis or not within(view, term):
                continue
            joined = _joined(term.args[0], axis)
            if joined is None or not _is_later(joined.args[1].args, length.of):
                continue
            first, counted = joined.args[1].args[0], length.of
            if not _names(view, term, counted, first):
                continue
            yield view.finding(
                RULE,
                term.node,
                f"the rows begin with {named(view, first)}{view.line(joined.node)}, but as many as {named(view, counted)} has are read "
                f"from their front; {named(view, counted)} comes after it",
                notes=[(joined.node, "the rows are joined here")],
            )


def _swapped(view: View, split: Term) -> Iterator[Finding]:
    """`x.split([image.shape[1], text.shape[1]], dim=1)` where the text comes first."""
    axis = split.args[2].value
    lengths = [length_of(size) for size in split.args[1].few_items]
    if type(axis) is not int or len(lengths) != 2 or split.node is None or not within(view, split):
        return
    joined = _joined(split.args[0], axis)
    counted = [length.of for length in lengths if length is not None and length.axis == axis]
    if joined is None or len(counted) != 2 or len(joined.args[1].args) != 2:
        return
    parts = joined.args[1].args
    places = [[at for at, part in enumerate(parts) if any(step is one for step in chain(part))] for one in counted]
    if places == [[1], [0]]:
        first, second = (named(view, one) for one in counted)
        yield view.finding(
            RULE,
            split.node,
            f"the rows begin with {second}{view.line(joined.node)}, but are split as if {first} came first; give the sizes in the order "
            "of the parts",
            notes=[(joined.node, "the rows are joined here")],
        )


def _front(term: Term) -> tuple[int, Term] | None:
    """The axis and n, for `x[:n]`, `x[:, :n]` and `x.narrow(axis, 0, n)`."""
    if term.op == "narrow":
        axis, start, end = term.args[1].value, term.args[2], term.args[3]
        return (axis, end) if type(axis) is int and start.is_const(0) else None
    index = term.args[1]
    parts = index.args if index.op == "tuple" else (index,)
    if not parts or any(part.op != "slice" for part in parts):
        return None
    cut = [at for at, part in enumerate(parts) if not all(end.is_const(None) for end in part.args)]
    if len(cut) != 1:
        return None
    low, high, step = parts[cut[0]].args
    starts = low.is_const(None) or low.is_const(0)
    return (cut[0], high) if starts and step.is_const(None) and high.op != "const" else None


def _names(view: View, term: Term, counted: Term, first: Term) -> bool:
    """Whether the cut has the name of the part that it counts, or is written with it: a mere `length` may be that of all parts."""
    cut = term.node
    assert cut is not None
    end = cut.slice if isinstance(cut, ast.Subscript) else cut
    name = named(view, counted).strip("`")
    if any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(end)):
        return True
    if any(binding.value is term and binding.target == name for binding in view.bindings):
        return True
    return bool(side_words(end) & (side_words(counted.node or cut, counted) - side_words(first.node or cut, first)))


def _joined(rows: Term, axis: int) -> Term | None:
    """The display that the rows were joined from along an axis before they went through calls that keep them."""
    called = False
    for step in chain(rows):
        if step.op == "cat":
            parts = step.args[1]
            known = parts.op in {"list", "tuple"} and not any(part.op == "star" for part in parts.args)
            return step if called and known and step.args[0].is_const(axis) else None
        called = called or step.op in {"call", "rounds"}
        if step.op not in _THROUGH and not (step.op == "item" and step.args[1].is_const(0)):
            return None
    return None


def _is_later(parts: tuple[Term, ...], counted: Term) -> bool:
    """Whether a value is one of the parts, but not the first one nor of its length."""
    roots = [rows_of(part).flat for part in parts]
    mine = rows_of(counted).flat
    at = [place for place, root in enumerate(roots) if [one.key for one in root] == [one.key for one in mine]]
    if not at:
        at = [place for place, part in enumerate(parts) if any(step is counted for step in chain(part))]
    if len(at) != 1 or at[0] == 0 or len(parts) < 2:
        return False
    first = parts[0]
    return counted not in set(first.walk()) and not any(inner.op in {"full_like"} for inner in first.walk())


_HEAD = "import torch\n\n\n"

RULE = Rule(
    "VL221",
    "part-read-from-other-end",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "def joint(blocks, text, image):\n"
        "    x = torch.cat([text, image], dim=1)\n"
        "    for block in blocks:\n"
        "        x = block(x)\n"
        "    return x[:, text.shape[1] :], x[:, : text.shape[1]]\n",
        # A queue: what is pushed in front pushes the oldest out.
        _HEAD + "def push(queue, new):\n    return torch.cat([new, queue], dim=1)[:, : queue.shape[1]]\n",
        # Reference rows of the same length as the rows themselves.
        _HEAD + "def paired(model, x):\n"
        "    both = torch.cat([torch.zeros_like(x), x], dim=1)\n"
        "    return model(both)[:, : x.shape[1]]\n",
        # Two halves of one length.
        _HEAD + "def denoise(model, noisy, clean):\n"
        "    batch, length = clean.shape\n"
        "    return model(torch.cat([noisy, clean], dim=1))[:, :length]\n",
        # A convolution shortens the rows by its history.
        _HEAD
        + "def causal(self, history, x):\n    return self.conv(torch.cat([history, x], dim=1))[:, : x.shape[1]]\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def joint(blocks, text, image):\n"
            "    x = torch.cat([text, image], dim=1)\n"
            "    for block in blocks:\n"
            "        x = block(x)\n"
            "    return x[:, : image.shape[1]]\n",
            rows=(8,),
        ),
        Invalid(
            _HEAD + "def joint(blocks, text, image):\n"
            "    sizes = [image.shape[1], text.shape[1]]\n"
            "    x = torch.cat([text, image], dim=1)\n"
            "    for block in blocks:\n"
            "        x = block(x)\n"
            "    image, text = x.split(sizes, dim=1)\n"
            "    return image, text\n",
            rows=(9,),
        ),
        Invalid(
            _HEAD + "class Joint(torch.nn.Module):\n"
            "    def forward(self, image, text):\n"
            "        image_len = image.size(1)\n"
            "        text_len = len(text)\n"
            "        x = torch.cat((self.context_proj(text), self.proj(image)), 1)\n"
            "        x = self.stack(x)\n"
            "        return x.narrow(1, 0, image_len)\n",
            rows=(10,),
        ),
    ),
)
