"""What a rule sees: places in the text, bundles, signatures of calls."""

import ast

import pytest
from shapecheck.codemods.catalogue import Catalogue
from shapecheck.codemods.contracts import ContractIndex
from shapecheck.codemods.engine.module import Module
from shapecheck.codemods.view import Bundle, Source, View, name_of


def view(text: str, name: str = "f") -> View:
    module = Module(text)
    owner, _, last = name.rpartition(".")
    found = module.class_of(owner) if owner else None
    node = module.method(found, last) if found is not None else module.function(last)
    assert node is not None
    return View(
        module.interpret(node), Catalogue.load(), Source(text), "case.py", [], ContractIndex.of_text(text, "case.py")
    )


def test_columns_count_characters_not_bytes() -> None:
    text = "x = 'éé' + ab\n"
    [node] = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name) and node.id == "ab"]
    span = Source(text).span(node)
    assert (span.start.column, span.end.column) == (12, 14)
    assert Source(text).code(node) == "ab"


def test_code_of_nodes() -> None:
    text = "x = [\n    'é', (a\n     + b),\n]\n"
    tree = ast.parse(text)
    [several] = [node for node in ast.walk(tree) if isinstance(node, ast.BinOp)]
    assert Source(text).code(several) == "a\n     + b"
    assert Source(text).code(ast.Name("made", ast.Load())) == "made"


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [((1, 3), (1, 5), "é"), ((1, 3), (2, 1), "é'\n+"), ((2, 2), (2, 2), "")],
)
def test_text_between_two_places(start: tuple[int, int], end: tuple[int, int], found: str) -> None:
    assert Source("x='é'\n+ y\n").between(start, end) == found


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("x", "x"),
        ("self.x", "x"),
        ("batch['x']", "x"),
        ("torch.tensor(x)", "x"),
        ("x.cuda()", ""),
        ("f(x, y)", ""),
        ("x[0]", ""),
        ("1", ""),
    ],
)
def test_names_of_expressions(code: str, name: str) -> None:
    assert name_of(ast.parse(code, mode="eval").body) == name


def members(bundle: Bundle) -> list[tuple[str, str]]:
    return [(member.name, member.role) for member in bundle.members]


@pytest.mark.parametrize(
    "body",
    [
        "return ids, cu_seqlens",
        "return {'ids': ids, 'cu_seqlens': cu_seqlens}",
        "batch = {'ids': ids, 'cu_seqlens': cu_seqlens}",
        "batch = {}\n    batch['ids'] = ids\n    batch['cu_seqlens'] = cu_seqlens",
        "batch = {'ids': ids}\n    batch['cu_seqlens'] = cu_seqlens",
        "model(ids=ids, cu_seqlens=cu_seqlens)",
        "out.append({'ids': ids, 'cu_seqlens': cu_seqlens})",
    ],
)
def test_bundles(body: str) -> None:
    found = view(f"def f(ids, cu_seqlens, model, out):\n    {body}\n").bundles
    assert [("ids", "rows"), ("cu_seqlens", "bounds")] in [members(bundle) for bundle in found]


@pytest.mark.parametrize("body", ["return ids", "model(ids)", "model(a=ids, b=cu_seqlens)", "x = ids"])
def test_no_bundles(body: str) -> None:
    assert view(f"def f(ids, cu_seqlens, model):\n    {body}\n").bundles == []


SIGNED = (
    "from jaxtyping import Float\n"
    "def attend(x: Float[Tensor, 'S']): ...\n"
    "class Block:\n"
    "    def forward(self, x: Float[Tensor, 'S']):\n        self.mix(x)\n"
    "    def mix(self, x: Float[Tensor, 'S']): ...\n"
)


@pytest.mark.parametrize(
    ("call", "signature"),
    [
        ("attend(a)", "attend"),
        ("Block()(a)", "Block.forward"),
        ("block = Block()\n    block(a)", "Block.forward"),
        ("other(a)", None),
        ("a.attend(a)", None),
    ],
)
def test_signatures_of_calls(call: str, signature: str | None) -> None:
    seen = view(f"{SIGNED}def f(a):\n    {call}\n")
    found = seen.signature_of(seen.calls[-1])
    assert (found.qualname if found is not None else None) == signature


def test_own_signatures_and_methods_of_self() -> None:
    seen = view(SIGNED, "Block.forward")
    assert seen.own_signature is not None
    assert seen.own_signature.qualname == "Block.forward"
    found = seen.signature_of(seen.calls[0])
    assert found is not None
    assert found.qualname == "Block.mix"


def test_the_last_binding_before_a_place() -> None:
    seen = view("def f(a, b):\n    x = a\n    g(x)\n    x = b\n")
    assert seen.binding_of("x", seen.calls[0].order).value.args[0] == "a"  # type: ignore[union-attr]
    assert seen.binding_of("x").value.args[0] == "b"  # type: ignore[union-attr]
    assert seen.binding_of("y") is None


def test_sides_of_a_consumer() -> None:
    text = "from flash_attn import flash_attn_varlen_func\ndef f(q, k, v, a, b, m):\n    flash_attn_varlen_func(q, k, v, a, b, m, m)\n"
    [consumer] = view(text).consumers
    sides = {side: (rows.name, bounds.name) for side, rows, bounds, _ in consumer.sides()}  # type: ignore[union-attr]
    assert sides == {"q": ("q", "bounds_q"), "k": ("k", "bounds_k")}
