"""The index of annotated signatures: what annotations say, and which signature a call runs."""

import os
from pathlib import Path

import pytest
from shapecheck.codemods.contracts import ContractIndex, Memory, Parameter

HEAD = """\
import typing
from typing import Annotated, Optional
import jaxtyping
import jaxtyping as jt
from jaxtyping import Float, Int32
from jaxtyping import Float32 as F32
from torch import Tensor
"""


def parameter(annotation: str) -> Parameter:
    [found] = ContractIndex.of_text(f"{HEAD}\ndef f(x: {annotation}, y: Float[Tensor, 'Z']): ...\n", "m.py").signatures
    return found.parameters[0]


@pytest.mark.parametrize(
    ("annotation", "dtype", "dims"),
    [
        ('Float[Tensor, "S C"]', "Float", ("S", "C")),
        ('Float[Tensor, "1 S  C"]', "Float", ("1", "S", "C")),
        ('Float[Tensor, ""]', "Float", ()),
        ('F32[Tensor, "S"]', "Float32", ("S",)),
        ("\"Float[Tensor, 'S']\"", "Float", ("S",)),
        ('Optional[Int32[Tensor, "B+1"]]', "Int32", ("B+1",)),
        ('typing.Optional[Int32[Tensor, "B+1"]]', "Int32", ("B+1",)),
        ('Int32[Tensor, "B+1"] | None', "Int32", ("B+1",)),
        ('None | Int32[Tensor, "B+1"]', "Int32", ("B+1",)),
        ('Annotated[Int32[Tensor, "B+1"], PrefixSum(end="S")]', "Int32", ("B+1",)),
        ('Optional[Annotated[Int32[Tensor, "B+1"], 1]]', "Int32", ("B+1",)),
        ('Annotated[Int32[Tensor, "B+1"], 1] | None', "Int32", ("B+1",)),
        ('jaxtyping.Float[Tensor, "S"]', "Float", ("S",)),
        ('jt.Float[Tensor, "S"]', "Float", ("S",)),
    ],
)
def test_dims(annotation: str, dtype: str, dims: tuple[str, ...]) -> None:
    found = parameter(annotation)
    assert (found.dtype, found.dims) == (dtype, dims)


@pytest.mark.parametrize(
    "annotation",
    [
        "Tensor",
        "list[str]",
        'Literal["a", "b"]',
        'Dict[str, "S"]',
        "Float[Tensor, dims]",
        '"("',
        'other.Float[Tensor, "S"]',
        "int",
    ],
)
def test_no_dims(annotation: str) -> None:
    assert parameter(annotation).dims is None


@pytest.mark.parametrize(
    ("annotation", "covers"),
    [
        ('Annotated[Int32[Tensor, "B+1"], PrefixSum(end="S")]', "S"),
        ("Annotated[Int32[Tensor, 'B+1'], shapecheck.PrefixSum(end='S')] | None", "S"),
        ("\"Annotated[Int32[Tensor, 'B+1'], PrefixSum(end='S')]\"", "S"),
        ('Annotated[Int32[Tensor, "B+1"], PrefixSum()]', None),
        ('Annotated[Int32[Tensor, "B+1"], PrefixSum(end=S)]', None),
        ('Annotated[Int32[Tensor, "B+1"], OneOf(end="S")]', None),
        ('Int32[Tensor, "B+1"]', None),
    ],
)
def test_what_boundaries_cover(annotation: str, covers: str | None) -> None:
    assert parameter(annotation).covers == covers


def names(text: str) -> list[str]:
    return [one.qualname for one in ContractIndex.of_text(HEAD + text, "m.py").signatures]


def test_which_functions_are_signatures() -> None:
    text = (
        "def bare(x): ...\n"
        "def f(x: Float[Tensor, 'S']): ...\n"
        "async def g(*, x: Float[Tensor, 'S']): ...\n"
        "class A:\n"
        "    def forward(self, x: Float[Tensor, 'S']) -> Float[Tensor, 'S']: ...\n"
        "    @staticmethod\n"
        "    def s(x: Float[Tensor, 'S']): ...\n"
        "    @property\n"
        "    def p(self, x: Float[Tensor, 'S']): ...\n"
        "    @overload\n"
        "    def o(self, x: Float[Tensor, 'S']): ...\n"
    )
    assert names(text) == ["f", "g", "A.forward", "A.s"]


def test_parameters_of_methods_leave_self_out() -> None:
    text = "class A:\n    @contract\n    def forward(self, x: Float[Tensor, 'S'], /, n=1, *, k: Float[Tensor, 'S'] = None) -> Float[Tensor, 'S C']: ...\n"
    [found] = ContractIndex.of_text(HEAD + text, "m.py").signatures
    assert [(one.name, one.positional) for one in found.parameters] == [("x", True), ("n", True), ("k", False)]
    assert (found.enforced, found.result, found.called, found.row) == (
        "contract",
        ("S", "C"),
        "A",
        HEAD.count("\n") + 3,
    )


@pytest.mark.parametrize(
    ("decorator", "enforced"),
    [
        ("@contract\n", "contract"),
        ("@jaxtyped(typechecker=x)\n", "jaxtyped"),
        ("@sc.contract()\n", "contract"),
        ("@other\n", ""),
        ("", ""),
    ],
)
def test_enforcement(decorator: str, enforced: str) -> None:
    [found] = ContractIndex.of_text(f"{HEAD}{decorator}def f(x: Float[Tensor, 'S']): ...\n", "m.py").signatures
    assert found.enforced == enforced


def test_jaxtyping_under_a_guard_counts() -> None:
    text = "if TYPE_CHECKING:\n    from jaxtyping import Float\n\ndef f(x: 'Float[Tensor, \"S\"]'): ...\n"
    assert len(ContractIndex.of_text(text, "m.py").signatures) == 1


@pytest.mark.parametrize("text", ["def f(x: 'jaxtyping'): (\n", "x = 'jaxtyping'\n", "from nowhere import Float\n"])
def test_files_without_signatures(text: str) -> None:
    assert ContractIndex.of_text(text, "m.py").signatures == ()


SIGNED = "from jaxtyping import Float\ndef attend(x: Float[Tensor, 'S C']): ...\nclass Block:\n    def forward(self, x: Float[Tensor, 'S']): ...\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {
        "src/pack/__init__.py": "from .ops import attend as packed_attend\nfrom pack.ops.kernels import Block\n",
        "src/pack/ops/__init__.py": "from .kernels import attend\n",
        "src/pack/ops/kernels.py": SIGNED,
        "src/pack/model.py": "",
        "src/pack/broken.py": "from jaxtyping import (\n",
        "venv/lib/copy.py": SIGNED,
        ".hidden/copy.py": SIGNED,
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "caller"),
    [
        ("pack.ops.kernels.attend", "src/pack/model.py"),
        ("src.pack.ops.kernels.attend", "src/pack/model.py"),
        ("pack.ops.attend", "src/pack/model.py"),
        ("pack.packed_attend", "elsewhere.py"),
        (".ops.attend", "src/pack/model.py"),
        (".ops.kernels.attend", "src/pack/model.py"),
        (".kernels.attend", "src/pack/ops/__init__.py"),
        ("..ops.kernels.attend", "src/pack/ops/other.py"),
        ("attend", "src/pack/ops/kernels.py"),
    ],
)
def test_functions_are_found(project: Path, path: str, caller: str) -> None:
    found = ContractIndex.of(project).function(path, str(project / caller))
    assert found is not None
    assert found.qualname == "attend"


@pytest.mark.parametrize(
    "path", ["kernels.other", "other.kernels.attend", "attend", "pack.ops.kernels.Block", "forward", ""]
)
def test_other_functions_are_not(project: Path, path: str) -> None:
    assert ContractIndex.of(project).function(path, str(project / "src/pack/model.py")) is None


def test_instances_and_methods(project: Path) -> None:
    index, here = ContractIndex.of(project), str(project / "src/pack/ops/kernels.py")
    for path in ("pack.Block", "pack.ops.kernels.Block", "Block"):
        found = index.instance(path, here)
        assert found is not None
        assert found.qualname == "Block.forward"
    assert index.instance("pack.ops.kernels.attend", here) is None
    assert index.method("Block", "forward", here) is not None
    assert index.method("", "attend", here) is not None
    assert index.method("Block", "forward", str(project / "src/pack/model.py")) is None


def test_two_of_one_name_are_none(project: Path) -> None:
    kernels = project / "src/pack/ops/kernels.py"
    kernels.write_text(SIGNED + "def attend(x: Float[Tensor, 'S']): ...\n")
    index = ContractIndex.of(project)
    assert index.function("pack.ops.kernels.attend", str(kernels)) is None
    assert index.method("", "attend", str(kernels)) is None


def test_the_digest_changes_with_a_signature_and_only_then(project: Path) -> None:
    before = ContractIndex.of(project).digest
    (project / "src/pack/model.py").write_text("x = 1\n")
    assert ContractIndex.of(project).digest == before
    kernels = project / "src/pack/ops/kernels.py"
    kernels.write_text(SIGNED.replace("'S C'", "'S D'"))
    assert ContractIndex.of(project).digest != before


def test_what_former_runs_read_is_not_read_again(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("memory") / "contracts.json"
    memory = Memory(file)
    first = ContractIndex.of(project, memory)
    memory.save()
    again = ContractIndex.of(project, Memory(file))
    assert again == first
    assert again.digest == first.digest
    file.write_text("{")
    assert ContractIndex.of(project, Memory(file)) == first


def test_the_pattern_matches_callers(project: Path) -> None:
    pattern = ContractIndex.of(project).pattern
    assert pattern is not None
    assert pattern.search(b"y = attend(x)")
    assert pattern.search(b"self.block = Block()")
    assert pattern.search(b"y = packed_attend(x)"), "an `__init__.py` exports it by this name"
    assert not pattern.search(b"attending")
    assert ContractIndex().pattern is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_are_not_waited_for(project: Path) -> None:
    before = ContractIndex.of(project)
    os.mkfifo(project / "src/pack/pipe.py")
    assert ContractIndex.of(project) == before
