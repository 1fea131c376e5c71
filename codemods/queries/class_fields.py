"""The annotated fields of the classes of a file."""

import ast
from collections.abc import Iterator

from shapecheck.codemods.view import View


def fields_of_classes(view: View, *names: str) -> Iterator[dict[str, ast.AnnAssign]]:
    """The fields of each class that has all of `names`."""
    for owner in view.module.all_classes():
        fields = {
            inner.target.id: inner
            for inner in view.module.body(owner)
            if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name)
        }
        if fields.keys() >= set(names):
            yield fields
