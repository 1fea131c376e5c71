"""`import shapecheck` is cheap: what is heavy comes with the name that needs it."""

import subprocess
import sys

import pytest

import shapecheck

HEAVY = ("torch", "jaxtyping", "beartype", "numpy", "click", "rich", "libcst")


def loaded_after(code: str) -> set[str]:
    """Which of the heavy packages a fresh interpreter has loaded after `code`."""
    program = f"import sys\n{code}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import shapecheck",
        "from shapecheck import ContractError, LayoutError, AnnotationError",
        "from shapecheck import PrefixSum, SameBatch, SameAsHost, OneOf, InRange, MultipleOf, SameDevice; PrefixSum(end='S')",
        "import shapecheck; shapecheck.Part('text', 3)",
        "import shapecheck.codemods, shapecheck.compile_backend",
        "import shapecheck; dir(shapecheck)",
    ],
)
def test_imports_nothing_heavy(code: str) -> None:
    assert loaded_after(code) == set()


def test_a_layout_needs_torch_but_no_annotations() -> None:
    assert loaded_after("from shapecheck import PackedLayout") >= {"torch"}
    assert not loaded_after("from shapecheck import PackedLayout") & {"jaxtyping", "beartype"}


def test_a_contract_needs_beartype_but_leaves_jaxtyping_to_the_reference_engine() -> None:
    loaded = loaded_after("from shapecheck import contract")
    assert loaded >= {"torch", "beartype"}
    assert "jaxtyping" not in loaded


def test_every_public_name_is_there() -> None:
    for name in shapecheck.__all__:
        assert getattr(shapecheck, name).__name__ == name
        assert name in dir(shapecheck)
    assert shapecheck.__version__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = shapecheck.nothing


def test_the_mapped_packages_are_inside() -> None:
    import shapecheck.codemods
    import shapecheck.compile_backend

    assert shapecheck.codemods.__name__ == "shapecheck.codemods"
    assert "codemods" not in sys.modules
    assert "compile_backend" not in sys.modules
