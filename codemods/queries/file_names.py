"""The names that a file and its classes define: what a fix may mention that the function does not."""

import ast
from collections.abc import Iterable, Iterator
from functools import lru_cache

from shapecheck.codemods.view import View


def file_names(view: View) -> set[str]:
    """The names that the file imports or assigns at its top level, also below `if` and `try`."""
    return {*_top_level(view.source.text), *view.module.imports}


@lru_cache(maxsize=1)  # the functions of one file follow each other
def _top_level(text: str) -> frozenset[str]:
    try:
        return frozenset(_assigned(ast.parse(text).body))
    except SyntaxError:  # a notebook has other statements, too
        return frozenset()


def class_names(view: View, name: str) -> set[str]:
    """The attributes that the body of a class of the file assigns; those of its own class for `self` and `cls`."""
    owner = view.function.owner if name in {"self", "cls"} else view.module.class_of(name)
    return set() if owner is None else set(_assigned(view.module.body(owner)))


def _assigned(body: Iterable[ast.stmt]) -> Iterator[str]:
    for statement in body:
        match statement:
            case ast.Assign() | ast.AnnAssign(value=ast.expr()):
                yield from (
                    node.id
                    for node in ast.walk(statement)
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
                )
            case ast.If(body=then, orelse=other) | ast.Try(body=then, orelse=other):
                yield from _assigned([*then, *other])
