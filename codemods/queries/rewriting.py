"""Code of a node with one part changed: comments, quotes and parentheses stay as they are written."""

import ast

from shapecheck.codemods.view import View


def with_index(view: View, node: ast.Subscript, index: str) -> str:
    """`x[1:]` with another index."""
    between = view.source.between
    return between(_start(node), _start(node.slice)) + index + between(_end(node.slice), _end(node))


def or_equal(view: View, node: ast.Compare) -> str | None:
    """`a < b` as `a <= b`, `a > b` as `a >= b`; None where a comment stands before the sign."""
    between = view.source.between
    left, right = node.left, node.comparators[0]
    sign = "<" if isinstance(node.ops[0], ast.Lt) else ">"
    before, found, after = between(_end(left), _start(right)).partition(sign)
    if not found or "#" in before:
        return None
    return between(_start(node), _end(left)) + f"{before}{sign}={after}" + between(_start(right), _end(node))


def _start(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0
