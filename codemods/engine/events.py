"""What happened in a function, in order: the raw material of the rules."""

import ast
from dataclasses import dataclass, field

from shapecheck.codemods.engine.terms import Term

Context = tuple[
    tuple[Term, bool], ...
]  # the conditions under which it happens, outermost first; loops are ("loop", iter)


@dataclass(eq=False)
class Call:
    """A call.

    Attributes:
        path: the callee as imported (`flash_attn.flash_attn_varlen_func`), or as written where it is no import
            (`self.core`, `block`); `?` stands for a computed callee.
        name: the last part of the path.
        imported: whether `path` was resolved through an import.
        callee: the value that is called.
        receiver: the value on which a method is called.
        args: positional arguments; `None` stands for `*args`.
        kwargs: keyword arguments; a `**mapping` is under the key `**`.
        names: the names in scope at the call, for rules that ask what else there is.
    """

    node: ast.Call
    path: str
    name: str
    imported: bool
    callee: Term
    receiver: Term | None
    args: list[Term | None]
    kwargs: dict[str, Term]
    result: Term
    context: Context
    names: dict[str, Term] = field(repr=False)
    order: int = 0

    def arg_node(self, position: int | None, keyword: str | None = None) -> ast.expr | None:
        """The expression given for a parameter."""
        if keyword is not None:
            for given in self.node.keywords:
                if given.arg == keyword:
                    return given.value
        if position is not None and position < len(self.node.args):
            before = self.node.args[: position + 1]
            if not any(isinstance(node, ast.Starred) for node in before):
                return before[position]
        return None


@dataclass(eq=False)
class Binding:
    """A name, attribute, key or slice gets a value. `target` is as written: `x`, `self.x`, `batch['x']`.

    The key of a dict is its value: `batch[key]` in a loop over names is `batch['x']`, too.
    """

    node: ast.AST
    target: str
    value: Term
    before: Term | None
    context: Context
    order: int = 0
    value_node: ast.expr | None = None


@dataclass(eq=False)
class Return:
    """`return value`, or `yield value`."""

    node: ast.AST
    value: Term
    value_node: ast.expr | None
    context: Context
    names: dict[str, Term] = field(repr=False, default_factory=dict)
    order: int = 0


Event = Call | Binding | Return
