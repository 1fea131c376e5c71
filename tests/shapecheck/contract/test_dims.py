"""The axis string of an annotation."""

import re

import pytest

from shapecheck._contract._dims import Dim, parse_dims

GRAMMAR = "use names, integers, + - * // % and brackets"


@pytest.mark.parametrize(
    ("text", "dim"),
    [
        ("4", Dim("fixed", "4", size=4)),
        ("0", Dim("fixed", "0", size=0)),
        ("S", Dim("name", "S", name="S")),
        ("Größe", Dim("name", "Größe", name="Größe")),
        ("B+1", Dim("expression", "B+1")),
        ("2*S-B//4", Dim("expression", "2*S-B//4")),
        ("_", Dim("any", "_")),
        ("_heads", Dim("any", "_heads")),
        ("...", Dim("run", "...")),
        ("*batch", Dim("run", "*batch", name="batch")),
        ("*_batch", Dim("run", "*_batch")),
        ("rgb=3", Dim("fixed", "rgb=3", size=3)),
        ("rows=S", Dim("name", "rows=S", name="S")),
    ],
)
def test_kinds(text, dim):
    assert parse_dims(text) == (dim,)


def test_several_axes_and_none():
    assert [dim.kind for dim in parse_dims(" 1 S  *rest C ")] == ["fixed", "name", "run", "name"]
    assert parse_dims("") == ()


def test_an_expression_knows_its_symbols():
    (dim,) = parse_dims("B+1")
    assert dim.expression.names == ("B",)
    (documented,) = parse_dims("bounds=B+1")
    assert (documented.kind, documented.expression.names) == ("expression", ("B",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#*S", "'#*S': only a name or a number can be broadcastable under @contract"),
        ("rows=#B+1", "'rows=#B+1': only a name or a number can be broadcastable under @contract"),
        ("?S", "'?S': tree-path axes are not supported by @contract"),
        ("... *a", "only one of `...` and `*name` can stand in one annotation"),
        ("*a S *b", "only one of `...` and `*name` can stand in one annotation"),
        ("*", "'*': `*` must be followed by a name"),
        ("**a", "'**a': `*` must be followed by a name"),
        ("-1", "'-1': an axis cannot have a negative size"),
        ("B + 1", "'+' is not an expression"),
        ("S...", "'S...' is not an expression"),
        ("S//0", "'S//0' divides by zero"),
        ("S,C", f"'(S, C)' in 'S,C' is not understood: {GRAMMAR}"),
        ("{S", "'{S' is not an expression"),
        ("min(S,4)", f"'min(S, 4)' in 'min(S,4)' is not understood: {GRAMMAR}"),
    ],
)
def test_refuses(text, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_dims(text)
