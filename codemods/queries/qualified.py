"""Which rows metadata is for by its name: `prompt_lens` counts prompts, `context_lens` the rows of `context`."""

import ast
from collections.abc import Iterable, Sequence

from shapecheck.codemods.engine.describe.rows import Part
from shapecheck.codemods.queries.words import side_words, words
from shapecheck.codemods.view import Argument

# Words of the kind of metadata, not of its rows.
_KINDS = {
    *(
        "cu",
        "seq",
        "seqlen",
        "seqlens",
        "len",
        "lens",
        "length",
        "lengths",
        "offset",
        "offsets",
        "indptr",
        "start",
        "loc",
        "max",
    ),
    *(
        "num",
        "n",
        "size",
        "sizes",
        "count",
        "counts",
        "token",
        "tokens",
        "id",
        "ids",
        "position",
        "positions",
        "pos",
        "type",
        "types",
    ),
    *(
        "tag",
        "tags",
        "mask",
        "masks",
        "segment",
        "segments",
        "modality",
        "cumulative",
        "sequence",
        "sequences",
        "sample",
        "actual",
    ),
    *(
        "input",
        "row",
        "rows",
        "all",
        "total",
        "padded",
        "packed",
        "q",
        "k",
        "kv",
        "query",
        "key",
        "the",
        "of",
        "per",
        "in",
        "x",
    ),
}


def is_for_other_member(meta: Argument, rows: Argument, names: Iterable[str]) -> bool:
    """Whether the metadata is named after another value that travels along: `context_lens` beside `context`."""
    own = _qualifiers(meta)
    return (
        bool(own)
        and own.isdisjoint(_words(rows.name))
        and any(own <= _words(name) for name in names if name != meta.name)
    )


def is_for_its_parts(meta: Argument, rows: Argument, covered: Sequence[Part], missing: Part) -> bool:
    """Whether the metadata is named after the very parts that it covers: `prompt_lens`, measured on the prompts."""
    own = _qualifiers(meta)
    if not own or not own.isdisjoint(_words(rows.name)) or not own.isdisjoint(_of_part(missing, meta.name)):
        return False
    return bool(covered) and all(not own.isdisjoint(_of_part(part, meta.name)) for part in covered)


def _qualifiers(meta: Argument) -> set[str]:
    return _words(meta.name) - _KINDS


def _of_part(part: Part, name: str) -> set[str]:
    """The words of what a part is; of a field that is called as the metadata is, those of its sample."""
    root = part.root
    if root.op in {"item", "attr"} and name in {root.args[1], getattr(root.args[1], "value", None)}:
        root = root.args[0]
    return side_words(root.node or ast.Pass(), root)


def _words(name: str) -> set[str]:
    """In the spelling of `side_words`."""
    return side_words(ast.Name("_".join(sorted(words(name)))))
