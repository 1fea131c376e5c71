"""Boundaries stand where a maximum belongs, or a maximum where boundaries belong.

### What it does
Checks the arguments of packed kernels against their signature, which differs between packages of the same function name. Reports
boundaries (by how they were made) in the slot of a maximum and the reverse, and calls whose arguments are shifted: by the names of
the values there is a maximum in a boundary slot and boundaries in another one.

### Why is this bad?
Some packages interleave boundaries and maxima, some put all maxima first, some have one more parameter before them. A shifted call
crashes at best; a tensor is often accepted where a number is expected.

### Example
```python
from flash_attn import flash_attn_varlen_func

out = flash_attn_varlen_func(q, k, v, cu_q, max_q, cu_k, max_k)
```

### Use instead
```python
out = flash_attn_varlen_func(q, k, v, cu_q, cu_k, max_q, max_k)
```

### Fix safety
Unsafe: the computed values change, which is the purpose.

### References
- [flash-attention: variable-length interface](https://github.com/Dao-AILab/flash-attention)
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from shapecheck.codemods.findings import Finding, Fix, Replace
from shapecheck.codemods.queries.kinds import Kind, kind_of, kind_of_role
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Consumer, View, name_of

_WORDS = {"bounds": "boundaries", "max": "a maximum", None: "another value"}


@dataclass(frozen=True)
class _Slot:
    node: ast.expr
    wanted: str | None  # bounds, max, or None for any other parameter
    given: Kind | None

    @property
    def wrong(self) -> bool:
        return self.given is not None and self.given.name != self.wanted


def check(view: View) -> Iterator[Finding]:
    """VL413."""
    for consumer in view.consumers:
        slots = list(_slots(view, consumer))
        wrong = [slot for slot in slots if slot.wrong]
        shifted = _is_shifted(slots, wrong)
        for slot in wrong:
            if slot.wanted is not None and slot.given is not None and (shifted or slot.given.proven):
                keyword = next((given.arg for given in consumer.call.node.keywords if given.value is slot.node), None)
                place = "here" if keyword is None else f"as `{keyword}`"
                use = (
                    "pass boundaries and maxima by keyword, or in the order of this package"
                    if keyword is None
                    else f"pass {_WORDS[slot.wanted]}"
                )
                yield view.finding(
                    RULE,
                    slot.node,
                    f"`{consumer.call.path}` takes {_WORDS[slot.wanted]} {place}, but `{ast.unparse(slot.node)}` is "
                    f"{_WORDS[slot.given.name]}: {use}",
                    fix=_reordered(view, slots),
                )
                break


def _is_shifted(slots: list[_Slot], wrong: list[_Slot]) -> bool:
    """Whether names say that both kinds stand in the wrong slots, or that no slot has its kind and both maxima are boundaries."""
    kinds = [slot.given.name for slot in wrong if slot.given is not None]
    right = any(slot.given is not None and slot.given.name == slot.wanted for slot in slots)
    return set(kinds) == {"bounds", "max"} or (len(kinds) > 1 and not right)


def _slots(view: View, consumer: Consumer) -> Iterator[_Slot]:
    call, sink = consumer.call, consumer.sink
    if sink is not None and call.imported and sink.owns(call.path):
        for position, term in enumerate(call.args):
            node = call.arg_node(position)
            if term is None or node is None or position > max(sink.positions, default=-1):
                break
            yield _Slot(node, kind_of_role(sink.positions.get(position)), kind_of(term, node, view.catalogue))
    for keyword in call.node.keywords:
        if keyword.arg in call.kwargs and (wanted := _keyword_kind(view, consumer, keyword.arg)) is not None:
            yield _Slot(keyword.value, wanted, kind_of(call.kwargs[keyword.arg], keyword.value, view.catalogue))


def _keyword_kind(view: View, consumer: Consumer, keyword: str) -> str | None:
    known = consumer.sink.keywords.get(keyword) if consumer.sink is not None else None
    return kind_of_role(known or view.catalogue.role_of(keyword))


def _is_misnamed(view: View, slot: _Slot) -> bool:
    named = kind_of_role(view.catalogue.role_of(name_of(slot.node)))
    return named is not None and slot.given is not None and named != slot.given.name


def _reordered(view: View, slots: list[_Slot]) -> Fix | None:
    """The same values, boundaries in the boundary slots and maxima in the others, if there is one of each for every slot."""
    typed = [slot for slot in slots if slot.wanted is not None]
    if any(_is_misnamed(view, slot) for slot in typed):
        return None  # the fault is where it got its name
    given = {
        kind: [slot.node for slot in typed if slot.given and slot.given.name == kind] for kind in ("bounds", "max")
    }
    if any(len(given[kind]) != sum(slot.wanted == kind for slot in typed) for kind in given):
        return None
    edits = []
    for slot in typed:
        node = given[str(slot.wanted)].pop(0)
        if node is not slot.node:
            edits.append(Replace(view.source.span(slot.node), view.source.code(node)))
    return view.fix("Put boundaries and maxima into their slots", *edits)


RULE = Rule(
    "VL413",
    "boundaries-in-maximum-slot",
    "stable",
    __doc__,
    check,
    valid=(
        "from flash_attn import flash_attn_varlen_func\n\n\ndef f(q, k, v, meta):\n"
        "    return flash_attn_varlen_func(q, k, v, meta.cu_q, meta.cu_k, meta.max_q, meta.max_k)\n",
        "from vllm.vllm_flash_attn import flash_attn_varlen_func\n\n\ndef f(q, k, v, meta):\n"
        "    return flash_attn_varlen_func(q, k, v, meta.max_q, meta.cu_q, meta.max_k, meta.cu_k)\n",
        "from flash_attn import flash_attn_varlen_func\n\n\ndef f(q, k, v, cu_seqlens, n):\n"
        "    return flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, cu_seqlens[-1], n)\n",
        "def f(attend, x, cu_seqlens):\n    return attend(x, max_seqlen=cu_seqlens)\n",
    ),
    invalid=(
        Invalid(
            "from flash_attn import flash_attn_varlen_func\n\n\ndef f(q, k, v, meta):\n"
            "    return flash_attn_varlen_func(q, k, v, meta.cu_q, meta.max_q, meta.cu_k, meta.max_k)\n",
            rows=(5,),
            fixed="from flash_attn import flash_attn_varlen_func\n\n\ndef f(q, k, v, meta):\n"
            "    return flash_attn_varlen_func(q, k, v, meta.cu_q, meta.cu_k, meta.max_q, meta.max_k)\n",
        ),
        Invalid(
            "import torch\n\n\ndef f(attend, x, lens):\n"
            "    ends = torch.nn.functional.pad(lens.cumsum(0), (1, 0))\n"
            "    return attend(x, cu_seqlens=lens.max(), max_seqlen=ends)\n",
            rows=(6,),
            fixed="import torch\n\n\ndef f(attend, x, lens):\n"
            "    ends = torch.nn.functional.pad(lens.cumsum(0), (1, 0))\n"
            "    return attend(x, cu_seqlens=ends, max_seqlen=lens.max())\n",
        ),
        Invalid(
            "from flash_attn.cute import flash_attn_varlen_func\n\n\ndef f(q, k, v, cu_q, cu_k, max_q, max_k):\n"
            "    return flash_attn_varlen_func(q, k, v, cu_q, cu_k, max_q, max_k)\n",
            rows=(5,),
        ),
    ),
    fixable=True,
)
