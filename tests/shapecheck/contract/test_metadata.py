"""Metadata, presets, and the axes and unions that go with them."""

import dataclasses
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict, Unpack

import pytest
import torch
from jaxtyping import Float32, Int32
from torch import Tensor

from shapecheck import AnnotationError, ContractError, Fields, PrefixSum, SameBatch, contract, preset

X, CU = torch.ones(3, 2), torch.tensor([0, 3], dtype=torch.int32)
BAD = CU + 1
Boundaries = Annotated[Int32[Tensor, "B+1"], PrefixSum(end="S")]


class Meta(TypedDict):
    cu: Boundaries
    cu_k: NotRequired[Annotated[Int32[Tensor, "B+1"], SameBatch("cu")]]
    longest: NotRequired[int]


@dataclasses.dataclass
class Data:
    cu: Boundaries
    extra: Any = None
    longest: int | None = None


class Tuple(NamedTuple):
    cu: Boundaries


def of_dict(x: Float32[Tensor, "S C"], meta: Meta) -> Tensor:
    return x


def of_keywords(x: Float32[Tensor, "S C"], **meta: Unpack[Meta]) -> Tensor:
    return x


def of_data(x: Float32[Tensor, "S C"], meta: Data | None = None) -> Tensor:
    return x


def of_tuple(x: Float32[Tensor, "S C"], meta: Tuple) -> Tensor:
    return x


def of_other(x: Float32[Tensor, "S C"], meta: Annotated[Any, Fields(Data)]) -> Tensor:
    return x


def refused(function: Any, *args: Any, **kwargs: Any) -> str | None:
    try:
        function(*args, **kwargs)
    except ContractError as error:
        return error.argument
    return None


@pytest.mark.parametrize("engine", ["generated", "reference"])
@pytest.mark.parametrize(
    ("function", "make"),
    [
        (of_dict, lambda **fields: fields),
        (of_data, Data),
        (of_tuple, Tuple),
        (of_other, lambda **fields: SimpleNamespace(unknown=1, **fields)),
        (of_other, lambda **fields: {"unknown": 1, **fields}),
    ],
)
def test_fields_are_arguments(function: Any, make: Any, engine: Any) -> None:
    checked = contract(engine=engine)(function)
    assert refused(checked, X, make(cu=CU)) is None
    assert refused(contract(function), X, make(cu=CU.long())) == "meta.cu"
    assert refused(checked, X, make(cu=BAD)) == "meta.cu"
    assert refused(contract(function), X, make(cu=None)) == "meta.cu"


def test_absent_and_wrong_fields() -> None:
    checked = contract(of_dict)
    assert refused(checked, X, {}) == "meta.cu"
    assert refused(checked, X, {"cu": CU, "longest": "3"}) == "meta.longest"
    assert refused(checked, X, {"cu": CU, "cu_k": torch.tensor([0, 1, 2], dtype=torch.int32)}) == "meta.cu_k"
    assert refused(contract(of_data), X) is None
    assert refused(contract(of_data), X, 3) is not None


def test_keywords_keep_their_names() -> None:
    checked = contract(of_keywords)
    assert refused(checked, X, cu=CU, other=3) is None
    assert refused(checked, X, cu=BAD) == "cu"
    assert refused(checked, X) == "cu"


def test_metadata_that_is_no_argument() -> None:
    held = Data(CU)

    def get_meta() -> Data:
        return held

    @contract(bind={"meta": get_meta})
    def forward(x: Float32[Tensor, "S C"]) -> Tensor:
        return x

    assert refused(forward, X) is None
    held.cu = BAD
    assert refused(forward, X) == "meta.cu"
    with pytest.raises(AnnotationError, match="return annotation"):
        contract(bind={"other": lambda: held})(of_dict)
    with pytest.raises(AnnotationError, match="no parameter's"):
        contract(bind={"meta": get_meta})(of_dict)


def test_a_field_that_cannot_be_resolved_is_named() -> None:
    @dataclasses.dataclass
    class Broken:
        cu: Boundaries
        other: "Nowhere"  # type: ignore[name-defined]

    def forward(x: Float32[Tensor, "S C"], meta: Annotated[Any, Fields(Broken)]) -> Tensor:
        return x

    with pytest.raises(AnnotationError, match="meta.other.*Nowhere"):
        contract(forward)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.width = 2

    def forward(self, x: Any, **kwargs: Any) -> Any:
        return x

    @contract
    def own(self, x: Float32[Tensor, "S {self.width}"], y: Float32[Tensor, "S//{self.width}"]) -> Tensor:
        return x


@preset
def specification(
    self: Any, x: Float32[Tensor, "S {self.width}"], *, cu: Boundaries, late: Float32[Tensor, "S"] | None = None
) -> Float32[Tensor, "S C"]: ...


def test_a_preset_is_for_functions_of_others() -> None:
    model = Model()
    checked = contract(specification)(Model.forward)
    assert refused(checked, model, X, cu=CU, unknown=1) is None
    assert refused(checked, model, X, cu=BAD) == "cu"
    assert refused(checked, model, X) == "cu"
    assert refused(checked, model, X, cu=CU, late=X[:2, 0]) == "late"
    assert refused(checked, model, X[:, :1], cu=CU) == "x"
    with pytest.raises(AnnotationError, match="cu"):
        contract(specification)(lambda self, x: x)


def test_attributes_are_sizes() -> None:
    model = Model()
    assert refused(model.own, torch.ones(4, 2), torch.ones(2)) is None
    assert refused(model.own, torch.ones(4, 3), torch.ones(2)) == "x"
    assert refused(model.own, torch.ones(4, 2), torch.ones(3)) == "y"
    model.width = "two"  # type: ignore[assignment]
    assert refused(model.own, torch.ones(4, 2), torch.ones(2)) == "self.width"
    with pytest.raises(AnnotationError, match="attribute of an argument"):
        contract(bad_attribute)


def bad_attribute(x: Float32[Tensor, "{other.width}"]) -> Tensor:
    return x


@pytest.mark.parametrize("engine", ["generated", "reference"])
def test_broadcast_axes(engine: Any) -> None:
    @contract(engine=engine)
    def forward(bias: Float32[Tensor, "#S"], x: Float32[Tensor, "S"], y: Float32[Tensor, "#4"]) -> Tensor:
        return x

    one, three, four = torch.ones(1), torch.ones(3), torch.ones(4)
    forward(one, three, four)
    forward(three, three, one)
    for wrong in [(four, three, four), (three, three, three)]:
        with pytest.raises(ContractError):
            forward(*wrong)


def test_a_tensor_or_something_else() -> None:
    @contract
    def forward(
        x: Float32[Tensor, "S C"], y: Float32[Tensor, "S"] | str, z: tuple[Float32[Tensor, "S"], int]
    ) -> Tensor:
        return x

    row = X[:, 0]
    assert refused(forward, X, "none", (row, 1)) is None
    assert refused(forward, X, row, (row, 1)) is None
    assert refused(forward, X, row[:2], (row, 1)) == "y"
    assert refused(forward, X, 3, (row, 1)) == "y"
    assert refused(forward, X, row, (row[:2], 1)) == "z[0]"


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_without_a_break(backend: str) -> None:
    torch._dynamo.reset()
    for function, meta, bad in [(of_dict, {"cu": CU}, {"cu": BAD}), (of_data, Data(CU), Data(BAD))]:
        compiled = torch.compile(contract(function), backend=backend, fullgraph=True)
        compiled(X, meta)
        with pytest.raises(ContractError, match="meta.cu"):
            compiled(X, bad)
    compiled = torch.compile(contract(specification)(Model.forward), backend=backend, fullgraph=True)
    assert refused(compiled, Model(), X, cu=CU) is None
    assert refused(compiled, Model(), X, cu=BAD) == "cu"


def test_values_are_verified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import shapecheck._contract._violation as violation

    reads = []
    real = violation.values_hold
    monkeypatch.setattr(violation, "values_hold", lambda *args: reads.append(1) or real(*args))
    checked, boundaries = contract(of_dict), CU.clone()
    for _ in range(3):
        checked(X, {"cu": boundaries})
    assert len(reads) == 1
    boundaries[-1] = 2
    assert refused(checked, X, {"cu": boundaries}) == "meta.cu"
    boundaries[-1] = 3
    checked(X, {"cu": boundaries})
    assert refused(checked, torch.ones(4, 2), {"cu": boundaries}) == "meta.cu"  # another S
    assert refused(checked, X, {"cu": BAD}) == "meta.cu"
    assert refused(checked, X, {"cu": BAD}) == "meta.cu"  # a violation is never remembered
    with torch.inference_mode():
        checked(X, {"cu": CU.clone()})
