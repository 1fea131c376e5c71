"""The words of the names that a value goes by."""

import ast
import re

from shapecheck.codemods.engine.terms import Term

_WORD = re.compile(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]+")
_SAME = {"kv": "k", "key": "k", "keys": "k", "query": "q", "queries": "q", "qo": "q", "txt": "text", "img": "image"}


def words(name: str) -> set[str]:
    """`cu_seqlens_q` -> cu, seqlens, q."""
    return {word.lower() for word in _WORD.findall(name)}


def side_words(node: ast.AST, *origins: Term) -> set[str]:
    """The words of an argument as written, and of the parameters, attributes and keys it comes from; kv, key are k."""
    found: set[str] = set()
    for part in ast.walk(node):
        match part:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                found |= words(name)
    for origin in origins:
        for inner in origin.walk():
            if inner.op == "parameter":
                found |= words(inner.args[0])
            elif inner.op == "attr":
                found |= words(inner.args[1])
            elif inner.op == "const" and isinstance(inner.value, str):
                found |= words(inner.value)
    return {_SAME.get(word, word[:-1] if len(word) > 4 and word.endswith("s") else word) for word in found}
