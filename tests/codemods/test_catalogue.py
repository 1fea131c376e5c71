"""Every consumer and name of the catalogue, and what users may add."""

import ast
import inspect
from collections.abc import Mapping
from typing import Any

import pytest
from shapecheck.codemods.catalogue import ROLES, Catalogue, CatalogueError, Sink
from shapecheck.codemods.engine.module import Module
from shapecheck.codemods.view import Consumer, Source, View

BUILT_IN = Catalogue.load()
PACKED = {role for role in ROLES if role.partition("_")[0] in {"bounds", "ends", "lens", "padded", "tags", "max"}}


def consumers(text: str, catalogue: Catalogue = BUILT_IN) -> list[Consumer]:
    module = Module(text, helpers=catalogue.helpers)
    node = module.function("f")
    assert node is not None
    return View(module.interpret(node), catalogue, Source(text), "case.py").consumers


def roles(consumer: Consumer) -> dict[str, str]:
    """Role -> the expression given for it."""
    return {role: ast.unparse(argument.node) for role, argument in consumer.roles.items()}


def path_of(sink: Sink) -> str:
    prefix = sink.imports[0]
    return prefix if prefix.endswith(f".{sink.callee}") else f"{prefix}.{sink.callee}"


def positional(sink: Sink, path: str) -> str:
    given = [sink.positions.get(at, f"other{at}") for at in range(max(sink.positions, default=-1) + 1)]
    module, _, name = path.rpartition(".")
    return f"from {module} import {name}\ndef f({', '.join(given)}):\n    {name}({', '.join(given)})\n"


SINKS = [pytest.param(sink, id=f"{sink.callee}-{sink.imports[0]}") for sink in BUILT_IN.sinks]
WITH_POSITIONS = [param for param in SINKS if PACKED & set(param.values[0].positions.values())]


@pytest.mark.parametrize("sink", WITH_POSITIONS)
class TestPositions:
    def test_hold_for_the_package(self, sink: Sink) -> None:
        [found] = consumers(positional(sink, path_of(sink)))
        assert found.sink is sink
        assert roles(found) == {role: role for role in sink.positions.values()}

    def test_hold_under_another_name(self, sink: Sink) -> None:
        text = positional(sink, path_of(sink)).replace(f"import {sink.callee}", f"import {sink.callee} as attend")
        [found] = consumers(text.replace(f"    {sink.callee}(", "    attend("))
        assert found.sink is sink

    def test_say_nothing_about_another_package(self, sink: Sink) -> None:
        assert consumers(positional(sink, f"elsewhere.{sink.callee}")) == []

    def test_say_nothing_about_a_function_of_the_file(self, sink: Sink) -> None:
        text = positional(sink, path_of(sink))
        assert consumers(text[text.index("def f") :]) == []

    def test_end_at_a_starred_argument(self, sink: Sink) -> None:
        module, _, name = path_of(sink).rpartition(".")
        assert consumers(f"from {module} import {name}\ndef f(args):\n    {name}(*args)\n") == []


@pytest.mark.parametrize("sink", SINKS)
class TestKeywords:
    def test_hold_for_the_package(self, sink: Sink) -> None:
        if not PACKED & set(sink.keywords.values()):
            return
        module, _, name = path_of(sink).rpartition(".")
        given = ", ".join(f"{keyword}={keyword}" for keyword in sink.keywords)
        [found] = consumers(f"from {module} import {name}\ndef f({', '.join(sink.keywords)}):\n    {name}({given})\n")
        expected: dict[str, str] = {}
        for keyword, role in sink.keywords.items():
            expected.setdefault(role, keyword)
        assert roles(found) == expected

    def test_agree_with_the_names(self, sink: Sink) -> None:
        side = {"bounds_k": {"bounds_k", "bounds"}, "bounds_q": {"bounds_q", "bounds"}}
        for keyword, role in sink.keywords.items():
            named = BUILT_IN.role_of(keyword)
            assert named in {None, role, "rows", *side.get(role, ())} or role.startswith(("lens", "ends")), keyword

    def test_no_position_twice(self, sink: Sink) -> None:
        assert len(set(sink.positions.values())) == len(sink.positions)

    def test_is_usable(self, sink: Sink) -> None:
        assert sink.imports
        assert sink.positions or sink.keywords
        assert sink.owns(path_of(sink))
        assert not sink.owns(f"x{path_of(sink)}")
        assert not sink.owns(f"{path_of(sink)}_other")


def test_the_varlen_functions_of_three_packages_differ() -> None:
    packages = {
        "flash_attn": {"bounds_q": "a3", "max_k": "a6"},
        "flash_attn.cute": {"bounds_q": "a4", "max_k": "a7"},
        "vllm.vllm_flash_attn": {"bounds_q": "a4", "max_k": "a5"},
    }
    names = ", ".join(f"a{at}" for at in range(8))
    for package, expected in packages.items():
        text = f"from {package} import flash_attn_varlen_func\ndef f({names}):\n    flash_attn_varlen_func({names})\n"
        found = roles(consumers(text)[0])
        assert {role: found[role] for role in expected} == expected


def test_positions_of_torch_are_those_of_torch() -> None:
    varlen = pytest.importorskip("torch.nn.attention.varlen")
    import torch

    for callee, function in (
        ("varlen_attn", varlen.varlen_attn),
        ("nested_tensor_from_jagged", torch.nested.nested_tensor_from_jagged),
    ):
        [sink] = BUILT_IN.by_callee[callee]
        parameters = list(inspect.signature(function).parameters)
        for at, role in sink.positions.items():
            assert sink.keywords[parameters[at]] == role


NAMES = [(role, name) for role, names in BUILT_IN.names.items() for name in names]


@pytest.mark.parametrize(("role", "name"), NAMES)
def test_names(role: str, name: str) -> None:
    assert BUILT_IN.role_of(name.replace("*", "vision")) is not None
    if "*" not in name:
        assert BUILT_IN.role_of(name) == role
        assert BUILT_IN.role_of(f"_{name}") == role


@pytest.mark.parametrize("name", ["", "size", "cu", "batch", "maximum", "mask2", "position", "tag"])
def test_other_names_have_no_role(name: str) -> None:
    assert BUILT_IN.role_of(name) is None


def test_no_name_has_two_roles() -> None:
    exact = [name for _, name in NAMES if "*" not in name]
    assert len(exact) == len(set(exact))


def test_keywords_of_unknown_callees_go_by_name() -> None:
    [found] = consumers("def f(self, a, b):\n    self.core(a, cu_seqlens_q=b)\n")
    assert roles(found) == {"bounds_q": "b"}
    assert found.sink is None


def test_a_call_without_packed_metadata_is_no_consumer() -> None:
    assert (
        consumers("from flash_attn import flash_attn_varlen_func\ndef f(q):\n    flash_attn_varlen_func(q, q, q)\n")
        == []
    )
    assert consumers("def f(model, a):\n    model(input_ids=a, attention_mask=a)\n") == []


MINE = {
    "sinks": [
        {"callee": "attend", "imports": ["mine"], "positions": {"q": 0, "bounds": 1}, "keywords": {"offs": "bounds"}}
    ],
    "sources": [{"callee": "to_bounds", "arguments": {"lens": [0, "lens"]}, "returns": "bounds_of_lens"}],
    "names": {"bounds": ["offs"], "max": ["longest_*"]},
}


class TestUserEntries:
    def test_sinks(self) -> None:
        catalogue = Catalogue.load(MINE)
        for line in ("attend(q, b)", "attend(q, offs=b)"):
            [found] = consumers(f"from mine.ops import attend\ndef f(q, b):\n    {line}\n", catalogue)
            assert roles(found)["bounds"] == "b"

    def test_names(self) -> None:
        catalogue = Catalogue.load(MINE)
        assert catalogue.role_of("offs") == "bounds"
        assert catalogue.role_of("longest_row") == "max"
        assert catalogue.role_of("cu_seqlens") == "bounds"
        assert BUILT_IN.role_of("offs") is None

    def test_sources(self) -> None:
        from shapecheck.codemods.engine.describe.bounds import bounds_of

        text = "from mine import to_bounds\ndef f(lens):\n    return to_bounds(lens)\n"
        module = Module(text, helpers=Catalogue.load(MINE).helpers)
        node = module.function("f")
        assert node is not None
        found = bounds_of(module.interpret(node).returned[0])
        assert found is not None
        assert (found.kind, found.zero, found.dtype) == ("lens", True, None)

    def test_nothing_added_is_the_built_in_catalogue(self) -> None:
        assert Catalogue.load({}) is BUILT_IN


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"sinks": ["attend"]}, 'sinks[0] must be a table with callee = "name".'),
        ({"sinks": [{"imports": []}]}, 'sinks[0] must be a table with callee = "name".'),
        ({"sinks": [{"callee": "f", "keyword": {}}]}, "sinks[0]: unknown key 'keyword'. Did you mean 'keywords'?"),
        ({"sinks": [{"callee": "f", "zzz": 1}]}, "sinks[0]: unknown key 'zzz'."),
        ({"sinks": [{"callee": "f", "positions": {"q": "0"}}]}, "sinks[0].positions must map roles to positions"),
        ({"sinks": [{"callee": "f", "positions": {"q": True}}]}, "sinks[0].positions must map roles to positions"),
        ({"sinks": [{"callee": "f", "positions": {"bound": 0}}]}, "there is no role 'bound'. Did you mean 'bounds'?"),
        ({"sinks": [{"callee": "f", "keywords": ["q"]}]}, "sinks[0].keywords must map keywords to roles"),
        ({"sinks": [{"callee": "f", "keywords": {"x": "zzz"}}]}, "there is no role 'zzz'. Roles: bounds, "),
        ({"sinks": [{"callee": "f", "imports": "mine"}]}, "sinks[0].imports must be a list of dotted paths."),
        ({"sinks": [{"callee": "f", "dtype": "int"}]}, "sinks[0].dtype must be one of int32, int64."),
        ({"sinks": [{"callee": "f", "exact": 1}]}, "sinks[0].exact must be true or false."),
        ({"names": {"bound": ["x"]}}, "names: there is no role 'bound'. Did you mean 'bounds'?"),
        ({"names": {"bounds": "x"}}, "names.bounds must be a list of names."),
        ({"names": {"bounds": [1]}}, "names.bounds must be a list of names."),
        ({"sources": [{"returns": "bounds_of_lens"}]}, 'sources[0] must be a table with callee = "name".'),
        ({"sources": [{"callee": "f", "return": "x"}]}, "sources[0]: unknown key 'return'. Did you mean 'returns'?"),
        ({"sources": [{"callee": "f", "returns": "same"}]}, "sources[0].arguments must say where they are"),
        (
            {"sources": [{"callee": "f", "arguments": {"lens": 0}, "returns": "same"}]},
            "sources[0].arguments must say where",
        ),
        (
            {"sources": [{"callee": "f", "arguments": {"lens": [0]}, "returns": "bounds_of_len"}]},
            "'bounds_of_len' is not known. Did you mean 'bounds_of_lens'?",
        ),
        (
            {"sources": [{"callee": "f", "arguments": {"lens": [0]}, "returns": "bounds_of_mask"}]},
            "'bounds_of_mask' needs 'mask' among the arguments.",
        ),
        (
            {"sources": [{"callee": "f", "arguments": {"lens": [0]}, "returns": "bounds_of_lens", "most": "2"}]},
            "sources[0].most must be a number of arguments.",
        ),
        (
            {"sources": [{"callee": "f", "arguments": {"lens": [0]}, "returns": "bounds_of_lens", "dtype": "int"}]},
            "sources[0].dtype must be one of int32, int64.",
        ),
    ],
)
def test_errors_name_the_entry_and_the_fix(extra: Mapping[str, Any], message: str) -> None:
    with pytest.raises(CatalogueError) as caught:
        Catalogue.load(extra)
    assert message in str(caught.value)
