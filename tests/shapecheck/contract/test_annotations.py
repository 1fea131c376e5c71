"""What a signature may say: what is refused when decorating, in which words, and what works."""

import asyncio
import dataclasses
import functools
import gc
import importlib.util
import inspect
import linecache
import re
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any, NewType, NoReturn, TypedDict, TypeVar

import jaxtyping
import numpy as np
import pytest
import torch
import typing_extensions
from beartype.vale import Is
from jaxtyping import Float, Int
from torch import Tensor, nn

import shapecheck
from shapecheck import AnnotationError, ContractError, InRange, contract
from shapecheck._contract._codegen import HELPERS

NESTED = (
    "holds a tensor annotation or an invariant inside another type, which cannot be checked; "
    "annotate the argument itself, or None beside it"
)
GRAMMAR = "use names, integers, + - * // % and brackets"


class Batch(TypedDict):
    x: Float[Tensor, "S"]


class LateBatch(TypedDict):
    x: "Float[Tensor, 'S']"


class Options(TypedDict):
    scale: float


Tags = NewType("Tags", Int[Tensor, "S"])
T = TypeVar("T", bound=Int[Tensor, "S"])


NAMES = {
    **vars(typing),
    **vars(jaxtyping),
    **{name: getattr(shapecheck, name) for name in shapecheck.__all__},
    **{thing.__name__: thing for thing in (Batch, LateBatch, Options, Tags, T)},
    "Tensor": Tensor,
    "np": np,
    "torch": torch,
    "typing_extensions": typing_extensions,
}


def decorated(parameters: str, returns: str = "", level: str | None = None, **names: Any) -> Callable[..., Any]:
    """`forward` with this signature, which gives all its arguments back."""
    namespace = {**NAMES, **names}
    arrow = f" -> {returns}" if returns else ""
    exec(f"def forward({parameters}){arrow}:\n    return locals()", namespace)
    return contract(level=level)(namespace["forward"])


def refusal(parameters: str, returns: str = "", **names: Any) -> str:
    with pytest.raises(AnnotationError) as caught:
        decorated(parameters, returns, **names)
    assert isinstance(caught.value, TypeError)
    return str(caught.value)


def test_annotation_error_is_a_type_error():
    assert issubclass(AnnotationError, TypeError)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            """x: "Flot[Tensor, 'S']" """,
            """x: name 'Flot' is not defined, in annotation "Flot[Tensor, 'S']"; """
            "it must be there at run time, not under TYPE_CHECKING only",
        ),
        (
            "x: list['Nope']",
            "x: name 'Nope' is not defined, in annotation list['Nope']; "
            "it must be there at run time, not under TYPE_CHECKING only",
        ),
        (
            "x: 'Float['",
            "x: annotation 'Float[' cannot be resolved: Forward reference must be an expression -- got 'Float['",
        ),
        (
            "x: 'torch.Tensr'",
            "x: annotation 'torch.Tensr' cannot be resolved: module 'torch' has no attribute 'Tensr'",
        ),
        (
            """x: "Float[Tensor, '... *a']" """,
            """x: annotation "Float[Tensor, '... *a']" cannot be resolved: """
            "Cannot use variadic specifiers (`*name` or `...`) more than once.",
        ),
        ('x: Float[Tensor, "?S"]', "x: Float[Tensor, \"?S\"]: '?S': tree-path axes are not supported by @contract"),
        ('x: Float[Tensor, "-1"]', "x: Float[Tensor, \"-1\"]: '-1': an axis cannot have a negative size"),
        ('x: Float[Tensor, "B + 1"]', "x: Float[Tensor, \"B + 1\"]: '+' is not an expression"),
        (
            'x: Float[Tensor, "min(S,4)"]',
            f"x: Float[Tensor, \"min(S,4)\"]: 'min(S, 4)' in 'min(S,4)' is not understood: {GRAMMAR}",
        ),
        ('x: Float[np.ndarray, "S"]', 'x: Float[ndarray, "S"]: the array type must be torch.Tensor'),
        ('x: Float[Any, "S"]', 'x: Float[Any, "S"]: the array type must be torch.Tensor'),
        ('x: Key[Tensor, "S"]', 'x: Key[Tensor, "S"]: torch has none of the dtypes prng_key'),
        ("*x: Float[Tensor, 'S']", "x: tensors behind `*` cannot be checked; name the arguments"),
        ("**x: Float[Tensor, 'S']", "x: tensors behind `*` cannot be checked; name the arguments"),
        ("*x: Annotated[int, OneOf(1)]", "x: tensors behind `*` cannot be checked; name the arguments"),
        ("x: Annotated[Int[Tensor, 'S'], PrefixSum]", "x: PrefixSum is a class; write PrefixSum(...)"),
        (
            "x: Annotated[Int[Tensor, 'S'], SameBatch('q')]",
            "x: SameBatch(other='q', empty='any') names 'q', which is no annotated argument; annotated are: x",
        ),
        (
            "x: Annotated[Int[Tensor, 'S'], SameDevice('y')], y",
            "x: SameDevice(other='y') names 'y', which is no annotated argument; annotated are: x",
        ),
        (
            "x: Annotated[Int[Tensor, 'S'], PrefixSum(end='Q')]",
            "x: PrefixSum(start=0, end='Q', tail='exact', empty='any') reads Q, but no argument has an axis Q; "
            "axes that are bound: S",
        ),
        (
            "x: Float[Tensor, 'A+B']",
            "x: axis 0 is 'A+B', but no argument binds A and B; name A and B as an axis of some argument",
        ),
    ],
)
def test_refused_when_decorating(parameters, message):
    assert refusal(parameters) == f"forward: {message}"


@pytest.mark.parametrize(
    ("returns", "message"),
    [
        (
            "'Nope'",
            "name 'Nope' is not defined, in annotation 'Nope'; it must be there at run time, not under TYPE_CHECKING only",
        ),
        ("Annotated[Int[Tensor, 'S'], PrefixSum()]", "value invariants are for arguments"),
        (
            "Float[Tensor, 'A+B']",
            "axis 0 is 'A+B', but no argument binds A and B; name A and B as an axis of some argument",
        ),
    ],
)
def test_results_refused_when_decorating(returns, message):
    assert refusal("x: int", returns) == f"forward: return: {message}"


def test_every_result_of_a_tuple_is_a_tensor():
    assert refusal("", "tuple[Float[Tensor, 'S'], int]") == (
        "forward: return[1]: int: every result must be a tensor annotation"
    )
    for returns in ("tuple[Float[Tensor, 'S'], ...]", "tuple[Float[Tensor, 'S'], Int[Tensor, 'S']] | None"):
        message = refusal("", returns)
        assert message.startswith("forward: return: ")
        assert message.endswith("cannot be checked; give a tuple of fixed length")


NESTING = [
    "list[Float[Tensor, 'S']]",
    "dict[str, Float[Tensor, 'S']]",
    "tuple[Float[Tensor, 'S'], ...]",
    "Float[Tensor, 'S'] | Int[Tensor, 'S']",
    "Union[Float[Tensor, 'S'], list[Float[Tensor, 'S']]]",
    "list[Annotated[Float[Tensor, 'S'], 'doc']] | None",
]


@pytest.mark.parametrize("hint", NESTING)
def test_tensors_nested_in_other_types_are_refused(hint):
    message = refusal(f"x: {hint}")
    assert message.startswith("forward: x: ")
    assert message.endswith(f" {NESTED}")
    assert "Float[Tensor, 'S']" in message


def test_nested_tensors_are_quoted_as_written():
    assert refusal("x: list[Float[Tensor, 'S']]") == (f"forward: x: list[jaxtyping.Float[Tensor, 'S']] {NESTED}")


def test_unpacked_dicts():
    assert decorated("**x: Unpack[Options]")(scale=1.0) == {"x": {"scale": 1.0}}


def test_unpacked_dicts_of_typing_extensions():
    assert decorated("**x: typing_extensions.Unpack[Options]")(scale=1.0) == {"x": {"scale": 1.0}}


@pytest.mark.parametrize("parameters", ["x: LateBatch", "**x: Unpack[LateBatch]"])
def test_typed_dicts_with_string_annotations_are_checked(parameters):
    with pytest.raises(ContractError):
        decorated(parameters)(x={"x": 3} if parameters.startswith("x") else 3)


@pytest.mark.parametrize("hint", ["Tags", "T"])
def test_tensors_behind_names_are_refused_or_checked(hint):
    try:
        forward = decorated(f"x: Float[Tensor, 'S'], tags: {hint}")
    except AnnotationError:
        return
    with pytest.raises(ContractError):
        forward(torch.zeros(3), torch.zeros(2, dtype=torch.int64))


@pytest.mark.parametrize(
    "hint",
    [
        "list[Annotated[int, InRange(0, 3)]]",
        "Annotated[int, InRange(0, 3)] | str",
        "tuple[Annotated[int, OneOf(1)], ...]",
    ],
)
def test_nested_invariants_are_refused(hint):
    assert refusal(f"x: {hint}").startswith("forward: x: ")


@pytest.mark.parametrize(
    "hint",
    [
        "Annotated[int, PrefixSum()]",
        "Annotated[float | None, PrefixSum()]",
        "Annotated[int, SameBatch('x')]",
        "Annotated[int, SameDevice('x')]",
        "Annotated[list[int], SameDevice('x')]",
        "Annotated[Float[Tensor, 'S'], PrefixSum()]",
        "Annotated[Int[Tensor, 'S'], OneOf('a')]",
        "Annotated[int, OneOf('a')]",
        "Annotated[str, InRange(0, 3)]",
    ],
)
def test_invariants_that_do_not_fit_the_type_are_refused(hint):
    assert refusal(f"x: Int[Tensor, 'S'], y: {hint}").startswith("forward: y: ")


def test_hints_that_beartype_does_not_know_are_refused_with_the_function():
    assert refusal("x: 3").startswith("forward: x: beartype cannot enforce 3")


def test_hints_that_beartype_does_not_know_are_refused():
    assert "x: beartype cannot enforce 3" in refusal("x: 3")


def test_names_that_only_type_checkers_see(tmp_path):
    message = (
        "forward: x: name 'Decimal' is not defined, in annotation 'Decimal'; "
        "it must be there at run time, not under TYPE_CHECKING only"
    )
    text = """
        from __future__ import annotations
        from typing import TYPE_CHECKING
        from shapecheck import contract
        if TYPE_CHECKING:
            from decimal import Decimal
        @contract
        def forward(x: Decimal): ...
    """
    with pytest.raises(AnnotationError, match=f"^{re.escape(message)}$"):
        imported(tmp_path, text)


def imported(tmp_path, text):
    """The module with this text, as a user's file would be imported."""
    path = tmp_path / "model.py"
    path.write_text(inspect.cleandoc(text))
    spec = importlib.util.spec_from_file_location("model", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_future_annotations(tmp_path):
    module = imported(
        tmp_path,
        """
        from __future__ import annotations
        from typing import Annotated, Optional
        from jaxtyping import Float, Int32
        from torch import Tensor, nn
        from shapecheck import PrefixSum, contract

        Row = Float[Tensor, "1 S C"]

        class Model(nn.Module):
            Boundaries = Annotated[Int32[Tensor, "B+1"], PrefixSum(end="S")]

            @contract
            def forward(self, x: Row, cu: Boundaries, mask: Optional[Float[Tensor, "S"]] = None) -> Row:
                return x
        """,
    )
    model, x = module.Model(), torch.zeros(1, 4, 2)
    assert model(x, torch.tensor([0, 4], dtype=torch.int32)) is x
    with pytest.raises(ContractError, match=r"^Model.forward: cu\[-1\] is 3, expected 4 \(S\)"):
        model(x, torch.tensor([0, 3], dtype=torch.int32))
    with pytest.raises(ContractError, match=r"^Model.forward: mask axis 0 \(S\) is 3, expected 4"):
        model(x, torch.tensor([0, 4], dtype=torch.int32), torch.zeros(3))


def test_strings_may_name_what_is_local_where_it_is_decorated():
    Row = Float[Tensor, "S C"]

    @contract
    def plain(x: "Row"): ...

    @contract(level="shape")
    def with_arguments(x: "Row"): ...

    for function in (plain, with_arguments):
        function(torch.zeros(2, 3))
        with pytest.raises(ContractError, match="x has 1 axis, expected 2 axes"):
            function(torch.zeros(2))


def test_strings_may_name_what_the_function_closes_over():
    Row = Float[Tensor, "S C"]

    def make(decorate):
        def forward(x: "Row"):
            return Row

        return decorate(forward)  # decorated where `Row` is no local

    with pytest.raises(ContractError, match="x has 1 axis, expected 2 axes"):
        make(contract)(torch.zeros(2))


def test_strings_in_a_local_class_may_name_what_is_local_around_it():
    Row = Float[Tensor, "S C"]

    class Model(nn.Module):
        @contract
        def forward(self, x: "Row"): ...


def test_methods_that_use_super():
    class Model(nn.Identity):
        @contract
        def forward(self, x: Float[Tensor, "S"]):
            return super().forward(x)

    assert Model()(torch.zeros(2)).shape == (2,)


def test_recursive_local_functions():
    @contract
    def depth(x: Float[Tensor, "S"]):
        return 0 if len(x) == 0 else 1 + depth(x[1:])

    assert depth(torch.zeros(3)) == 3


@pytest.mark.parametrize(
    "parameter",
    [
        "x: Optional[Float[Tensor, 'S']]",
        "x: Float[Tensor, 'S'] | None",
        "x: None | Float[Tensor, 'S']",
        "x: Union[Float[Tensor, 'S'], None]",
        "x: Annotated[Float[Tensor, 'S'] | None, InRange(0, 2)]",
        "x: Annotated[Float[Tensor, 'S'], InRange(0, 2)] | None",
        "x: Optional[Annotated[Optional[Float[Tensor, 'S']], InRange(0, 2)]]",
        "x: Annotated[Annotated[Float[Tensor, 'S'], InRange(0, 2)], 'doc'] | None",
        "x: Float[Tensor, 'S'] = None",
        "x: \"Float[Tensor, 'S'] | None\"",
    ],
)
def test_optional_in_every_spelling(parameter):
    forward = decorated(parameter)
    forward(None)
    forward(torch.ones(2))
    for bad in (torch.ones(2, 2), torch.ones(2).int(), 3):
        with pytest.raises(ContractError, match=r"^forward: x "):
            forward(bad)
    if "InRange" in parameter:
        with pytest.raises(ContractError, match=r"^forward: x\[0\] is 2.0, expected 0 <= value < 2"):
            forward(torch.ones(2) * 2)


def test_none_is_refused_where_nothing_allows_it():
    with pytest.raises(ContractError, match=r"^forward: x is None, expected a torch.Tensor"):
        decorated("x: Float[Tensor, 'S']")(None)


@pytest.mark.parametrize("rows", [5, 6])
def test_a_result_binds_what_absent_arguments_left_open(rows):
    @contract
    def forward(
        x: Float[Tensor, "S+C"], s: Float[Tensor, "S"] | None = None, c: Float[Tensor, "C"] | None = None
    ) -> Float[Tensor, "S C"]:
        return torch.zeros(2, 3)

    if rows == 5:
        forward(torch.zeros(rows))
        forward(torch.zeros(rows), torch.zeros(2), torch.zeros(3))
    else:
        with pytest.raises(ContractError, match=r"forward: x axis 0 \(S\+C\) is 6, expected 5"):
            forward(torch.zeros(rows))


SHORT = Is[lambda tensor: tensor.numel() < 3]


def test_validators_of_beartype():
    even = Is[lambda number: number % 2 == 0]
    forward = decorated(
        "x: Annotated[Float[Tensor, 'S'], short], n: Annotated[int, even] | None = None", short=SHORT, even=even
    )
    forward(torch.zeros(2))
    forward(torch.zeros(2), 2)
    with pytest.raises(ContractError, match=r"^forward: x is float32\[3\], expected "):
        forward(torch.zeros(3))
    with pytest.raises(ContractError, match=r"^forward: n is 3 \(int\), expected "):
        forward(torch.zeros(2), 3)


@pytest.mark.parametrize(
    "parameter",
    [
        "x: Annotated[Tensor, short] = None",
        "x: Annotated[Float[Tensor, 'S'], short] | None",
    ],
)
def test_validators_on_an_optional_tensor(parameter):
    forward = decorated(parameter, short=SHORT)
    forward(None)
    with pytest.raises(ContractError):
        forward(torch.zeros(3))


def test_validators_on_a_tensor_or_something_else():
    forward = decorated(
        "x: Annotated[Float[Tensor, 'S'] | str, Is[lambda value: len(value) < 3]], y: Float[Tensor, 'S']", Is=Is
    )
    forward("ab", torch.zeros(9))
    forward(torch.zeros(2), torch.zeros(2))
    for x, rows in (("abc", 9), (torch.zeros(3), 3), (torch.zeros(2), 1), (None, 2)):
        with pytest.raises(ContractError, match="^forward: "):
            forward(x, torch.zeros(rows))


@pytest.mark.parametrize("core", ["Any", "object"])
def test_validators_on_anything(core):
    forward = decorated(f"x: Annotated[{core}, Is[lambda value: value == 3]]", Is=Is)
    forward(3)
    with pytest.raises(ContractError):
        forward(4)


def test_validators_on_a_result():
    @contract
    def forward(x: Float[Tensor, "S"]) -> Annotated[Float[Tensor, "S"], SHORT]:
        return x

    with pytest.raises(ContractError, match=r"^test_validators_on_a_result.forward: return "):
        forward(torch.zeros(3))


def test_hints_without_tensors():
    forward = decorated("n: int, f: float, name: str = 'a', items: list[int] | None = None, anything: Any = 1, free=2")
    forward(1, 2)
    forward(1, 2.5, "b", [1], object(), object())
    for arguments in (("1", 2), (1, "2"), (1, 2, 3), (1, 2, "a", ["1"])):
        with pytest.raises(ContractError):
            forward(*arguments)
    with pytest.raises(ContractError, match=r"^forward: items is a list\[str\], expected list\[int\]"):
        forward(1, 2, items=["1"])


def test_dtype_families():
    forward = decorated(
        "a: Int[Tensor, ''] = None, b: Bool[Tensor, ''] = None, c: Shaped[Tensor, ''] = None, d: Tensor = None"
    )
    forward(a=torch.tensor(1, dtype=torch.int16), b=torch.tensor(True), c=torch.tensor(1j))
    forward(d=torch.zeros(2, 3))
    for bad in ({"a": torch.tensor(1.0)}, {"b": torch.tensor(1)}, {"c": 1}, {"d": 1}):
        with pytest.raises(ContractError, match=f"^forward: {next(iter(bad))} is "):
            forward(**bad)


class Model(nn.Module):
    """Every kind of method, each taking a vector of the model's size."""

    @contract
    def forward(self, x: Float[Tensor, "S"], y: Float[Tensor, "S"]) -> Float[Tensor, "S"]:
        """Adds."""
        return x + y

    @staticmethod
    @contract
    def static_inside(x: Float[Tensor, "S"]):
        return x

    @contract
    @staticmethod
    def static_outside(x: Float[Tensor, "S"]):
        return x

    @classmethod
    @contract
    def class_inside(cls, x: Float[Tensor, "S"]):
        return cls

    @contract
    @classmethod
    def class_outside(cls, x: Float[Tensor, "S"]):
        return cls


def test_modules_and_methods():
    model, x = Model(), torch.ones(2)
    assert model(x, x).tolist() == [2, 2]
    with pytest.raises(ContractError, match=r"^Model.forward: y axis 0 \(S\) is 3, expected 2"):
        model(x, torch.ones(3))
    assert model.static_inside(x) is model.static_outside(x) is x
    assert model.class_inside(x) is Model.class_outside(x) is Model
    for method in (model.static_inside, Model.static_outside, Model.class_inside, model.class_outside):
        with pytest.raises(ContractError, match="x has 2 axes, expected 1 axis"):
            method(torch.ones(1, 1))


def test_coroutines():
    @contract
    async def forward(x: Float[Tensor, "S"]) -> Float[Tensor, "S"]:
        await asyncio.sleep(0)
        return x[:1] if x[0] == 7 else x

    assert inspect.iscoroutinefunction(forward)
    assert asyncio.run(forward(torch.ones(2))).tolist() == [1, 1]
    with pytest.raises(ContractError, match="x has 2 axes"):
        asyncio.run(forward(torch.ones(2, 2)))
    with pytest.raises(ContractError, match=r"return axis 0 \(S\) is 1, expected 2"):
        asyncio.run(forward(torch.tensor([7.0, 7.0])))


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
def test_coroutines_with_the_reference_engine():
    @contract(engine="reference")
    async def forward(x: int) -> int:
        return x

    try:
        result = asyncio.run(forward(1))
    except ContractError:
        result = None
    gc.collect()  # the coroutine that nobody awaits, lest it warns in another test
    assert result == 1


def test_generators():
    @contract
    def forward(x: Float[Tensor, "S"]) -> Iterator[Any]:
        yield from x

    assert list(forward(torch.ones(2))) == [1, 1]
    with pytest.raises(ContractError):
        forward(torch.ones(2, 2))


def test_every_kind_of_parameter():
    forward = decorated("a: int, /, b: Float[Tensor, 'S'], c=3, *rest, d: int, e: Float[Tensor, 'S'] = None, **more")
    b, e = torch.zeros(2), torch.ones(2)
    assert forward(1, b, 4, 5, 6, d=7, e=e, f=8) == {
        "a": 1, "b": b, "c": 4, "rest": (5, 6), "d": 7, "e": e, "more": {"f": 8}
    }  # fmt: skip
    assert forward(1, b=b, d=2)["c"] == 3
    assert forward(1, b, d=2, a=9)["more"] == {"a": 9}  # positional-only names are free for **more
    for bad in ({"d": "7"}, {"d": 7, "e": torch.ones(3)}):
        with pytest.raises(ContractError):
            forward(1, b, **bad)
    for arguments in ((1,), (1, b)):
        with pytest.raises(TypeError, match="missing"):
            forward(*arguments)


@pytest.mark.parametrize(
    "parameters",
    ["", "x", "x, /", "*, x=1", "x, /, y=2, *, z=3", "*args", "**kwargs", "x, *args, y, **kwargs", "*, x, y=1"],
)
def test_unannotated_signatures_are_kept(parameters):
    namespace = {}
    exec(f"def plain({parameters}): return locals()", namespace)
    assert inspect.signature(contract(namespace["plain"])) == inspect.signature(namespace["plain"])


@pytest.mark.parametrize("parameters", ["*numbers: int", "**numbers: int", "x: int = 0, *numbers: int"])
def test_hints_of_variadic_parameters_are_those_of_each_member(parameters):
    forward = decorated(parameters)
    # beartype looks at the first member of a tuple or dict only.
    if parameters.startswith("**"):
        forward(a=1, b=2)
        with pytest.raises(ContractError, match=r"^forward: numbers is a dict, expected dict\[str, int\]"):
            forward(a="1", b=2)
    else:
        forward(1, 2)
        with pytest.raises(
            ContractError, match=r"^forward: numbers is a tuple\[(int, )?str\], expected tuple\[int, \.\.\.\]"
        ):
            forward(*(["1"] if parameters.startswith("*") else [1, "2"]))


def test_defaults_are_the_same_objects():
    marker, items = object(), [1]
    forward = decorated("a=marker, *, b: Any = items", marker=marker, items=items)
    assert forward()["a"] is marker
    assert forward()["b"] is items


def test_metadata_is_kept():
    assert Model.forward.__name__ == "forward"
    assert Model.forward.__qualname__ == "Model.forward"
    assert Model.forward.__doc__ == "Adds."
    assert Model.forward.__module__ == __name__
    original = Model.forward.__wrapped__
    assert inspect.signature(Model.forward) == inspect.signature(original)
    assert "violated(contract" in Model.forward.__contract__.source
    assert repr(Model.forward.__contract__) == "<contract of Model.forward at level host>"


def test_tracebacks_show_the_generated_lines():
    lines = linecache.getlines(Model.forward.__code__.co_filename)
    assert "".join(lines) == Model.forward.__contract__.source


def test_other_decorators_below_are_looked_through():
    def logged(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    forward = contract(logged(decorated("x: Float[Tensor, 'S'], n: int = 1").__wrapped__))
    assert forward(torch.zeros(2))["n"] == 1
    with pytest.raises(ContractError, match=r"^forward: x has 2 axes"):
        forward(torch.zeros(2, 2), n=3)


def test_empty_brackets_change_nothing():
    @contract()
    def forward(x: Float[Tensor, "S"]): ...

    with pytest.raises(ContractError, match="x has 2 axes"):
        forward(torch.zeros(2, 2))


def test_lambdas():
    assert contract(lambda x: x)(3) == 3


ROW = 'x: Annotated[Int32[Tensor, "S"], PrefixSum()]'


@pytest.mark.parametrize("level", ["shape", "host", "device", "sync"])
@pytest.mark.parametrize(
    "name",
    ["S", "shape_x", "result", "x_", "S_", "default_x", "default_n", "self", "checked", "conditions", "run_S", "list"],
)
def test_parameters_may_have_names_of_the_generated_code(name, level):
    assert_named_parameter_works(name, level)


@pytest.mark.parametrize("name", [*HELPERS, "dtypes_x", "dtypes_x_", "default_flag", "returned"])
@pytest.mark.parametrize("level", ["host", "device"])
def test_parameters_may_have_names_of_helpers(name, level):
    assert_named_parameter_works(name, level)


def assert_named_parameter_works(name, level):
    forward = decorated(f"{ROW}, {name}: Annotated[int, InRange(0, 5)] = 2, flag: bool = True", level=level)
    good = torch.tensor([0, 4], dtype=torch.int32)
    assert forward(good) == {"x": good, name: 2, "flag": True}
    assert forward(good, **{name: 3})[name] == 3
    with pytest.raises(ContractError, match=r"^forward: x has 2 axes"):
        forward(good[None])
    with pytest.raises(ContractError, match=rf"^forward: {name} is 7, expected 0 <= value < 5"):
        forward(good, 7)
    with pytest.raises(ContractError, match=r"^forward: flag is 3"):
        forward(good, 2, 3)
    if level != "shape":
        with pytest.raises(ContractError, match=r"^forward: x\[0\] is 1, expected 0"):
            forward(good + 1)


def test_a_parameter_called_result():
    @contract
    def forward(result: Float[Tensor, "S"]) -> Float[Tensor, "S"]:
        return result

    assert forward(torch.ones(2)).tolist() == [1, 1]
    with pytest.raises(ContractError):
        forward(torch.ones(2, 2))


@pytest.mark.parametrize(
    "symbol",
    [
        "x",
        "y",
        "Tensor",
        "function",
        "contract",
        "result",
        "checked",
        "shape_x",
        "dtypes_x",
        "class",
        "None",
        "int",
        "len",
        "isinstance",
        "tuple",
        "refuse",
        "returned",
    ],
)
def test_symbols_may_have_any_name(symbol):
    forward = decorated(f'x: Float[Tensor, "{symbol} 2"], y: Float[Tensor, "{symbol}"]')
    forward(torch.zeros(3, 2), torch.zeros(3))
    with pytest.raises(ContractError, match=rf"^forward: y axis 0 \({symbol}\) is 4, expected 3"):
        forward(torch.zeros(3, 2), torch.zeros(4))


@pytest.mark.parametrize(
    ("thing", "what"), [(nn.Linear, "a class"), (property(lambda self: 1), "property objects"), (3, "int objects")]
)
def test_what_is_no_function_is_refused(thing, what):
    message = f"@contract decorates functions and methods, not {what}; decorate its forward method"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        contract(thing)


@pytest.mark.parametrize("thing", [nn.Linear(1, 1), functools.partial(print, 1)], ids=["module", "partial"])
def test_callable_objects_are_refused(thing):
    with pytest.raises(
        TypeError, match=r"^@contract decorates functions and methods, not (Linear|partial) objects; decorate "
    ):
        contract(thing)


def test_unknown_engines_are_refused():
    with pytest.raises(ValueError, match=r"^engine='fast': expected one of generated, reference$"):
        contract(engine="fast")(lambda x: x)


def test_an_aligned_axis_may_be_stated_at_a_number():
    forward = decorated("x: Float[Tensor, 'S'], n: Annotated[int, MultipleOf(64, of='S')]")
    forward(torch.zeros(64), 3)
    with pytest.raises(ContractError, match="S is 63, expected a multiple of 64"):
        forward(torch.zeros(63), 64)


def test_tensor_subclasses_as_hints():
    @contract
    def forward(x: Float[Tensor, "S"], w: nn.Parameter):
        return w

    forward(torch.ones(2), nn.Parameter(torch.ones(1)))
    with pytest.raises(ContractError, match="w is float32"):
        forward(torch.ones(2), torch.ones(1))


@dataclasses.dataclass
class Held:
    x: Float[Tensor, "S"]


def test_dataclasses_with_tensor_fields_are_instances_too():
    @contract
    def forward(x: Float[Tensor, "S"], held: Held, make: Callable[..., Float[Tensor, "S"]] | None = None):
        return x

    forward(torch.ones(2), Held(torch.ones(2)), torch.ones)
    with pytest.raises(ContractError, match=r"held.x axis 0 \(S\) is 3, expected 2"):
        forward(torch.ones(2), Held(torch.ones(3)), torch.ones)
    with pytest.raises(ContractError, match=r"held is 3 \(int\), expected Held"):
        forward(torch.ones(2), 3)


def test_the_enclosing_class_in_a_hint():
    class Node:
        @contract
        def join(self, x: Float[Tensor, "S"], other: "Node | None" = None) -> "Node":
            return self

    node = Node()
    assert node.join(torch.ones(2), node) is node
    with pytest.raises(ContractError, match="x has 2 axes, expected 1 axis"):
        node.join(torch.ones(2, 2))


def test_a_result_that_never_comes():
    @contract
    def fail(x: Float[Tensor, "S"]) -> NoReturn:
        raise KeyError

    with pytest.raises(KeyError):
        fail(torch.ones(2))


def test_a_decorator_below_that_changes_the_parameters():
    def scaled(function):
        @functools.wraps(function)
        def wrapper(scale, *args, **kwargs):
            return function(*args, **kwargs) * scale

        return wrapper

    def plain(x: Float[Tensor, "S"]) -> Float[Tensor, "S"]:
        return x

    with pytest.raises(AnnotationError, match="plain"):
        contract(scaled(plain))


def test_names_of_the_decorating_module_are_not_those_of_the_function():
    source = "from jaxtyping import Float\nfrom torch import Tensor\ndef forward(x: Float[Tensor, 'S']): return x\n"
    namespace = {"__name__": "elsewhere"}
    exec(compile(f"from __future__ import annotations\n{source}", "elsewhere", "exec"), namespace)

    def decorated_here():
        Float = Int  # noqa: F841
        return contract(namespace["forward"])

    decorated_here()(torch.ones(2))


class Unprintable:
    def __repr__(self):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    "value", [10**5000, Unprintable(), "x" * 100_000, [Unprintable()]], ids=lambda v: type(v).__name__
)
def test_arguments_that_cannot_be_printed(value):
    @contract
    def forward(n: Annotated[int, InRange(0, 5)]):
        return n

    with pytest.raises(ContractError, match="n is ") as caught:
        forward(value)
    assert len(str(caught.value)) < 1000
