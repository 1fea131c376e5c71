"""The README's examples of contracts, layouts and the backend, run one after the other as a reader would."""

import re
from pathlib import Path

import pytest
import torch

from shapecheck import ContractError, ContractWarning, PackedLayout

TEXT = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def section(title):
    return re.search(rf"^## {title}\n(.*?)^## ", TEXT, re.DOTALL | re.MULTILINE)[1]


def blocks(title, language="python"):
    return re.findall(rf"^```{language}\n(.*?)^```", section(title), re.DOTALL | re.MULTILINE)


@pytest.mark.slow
def test_the_examples_run(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    torch._dynamo.reset()
    contract, objects = blocks("One minute: a contract")
    (layout,) = blocks("One minute: a layout")
    backend, directly = blocks("One minute: the backend")
    # Annotations are resolved where the module is: a file, as the reader's.
    scope = {"__name__": "__main__"}
    exec(compile(contract, "README.md", "exec", dont_inherit=True), scope)
    exec(compile(objects, "README.md", "exec", dont_inherit=True), scope)
    q = torch.randn(5, 2, 8)
    documents = PackedLayout.from_lengths([2, 3]).attend().flash_attn()
    assert scope["checked"](q, q, q, **documents) is q
    with pytest.raises(ContractError, match="max_seqlen_q is 1"):
        scope["checked"](q, q, q, **{**documents, "max_seqlen_q": 1})
    with pytest.warns(ContractWarning, match=r"meta.cu_seqlens\[-1\] is 4"):
        scope["attend"](torch.randn(5, 8), {"cu_seqlens": torch.tensor([0, 4], dtype=torch.int32)})
    exec(compile(layout, "README.md", "exec", dont_inherit=True), scope)
    (picture,) = blocks("One minute: a layout", "text")
    assert capsys.readouterr().out == picture

    # Dynamo reads the source of what it compiles.
    path = tmp_path / "readme.py"
    path.write_text(backend, encoding="utf-8")
    exec(compile(backend, str(path), "exec", dont_inherit=True), scope)
    assert capsys.readouterr().out.startswith("shapecheck: 1 of 1 attention lowered")
    torch.testing.assert_close(scope["out"], scope["attend"](*(scope[name] for name in ("q", "k", "v", "cu_seqlens"))))
    exec(compile(directly, "README.md", "exec", dont_inherit=True), scope)
    assert scope["out"].shape == (1024, 8, 64)


def test_links_to_files_and_headings_resolve():
    def slug(heading):
        return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")

    root = Path(__file__).parents[2]
    for page in (root / "README.md", root / "CONTRIBUTING.md", root / "docs" / "backend.md"):
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            if target.startswith("http"):
                continue
            name, _, anchor = target.partition("#")
            other = page.parent / name if name else page
            assert other.exists(), (page.name, target)
            headings = re.findall(r"^#+ (.*)$", other.read_text(encoding="utf-8"), re.MULTILINE) if anchor else []
            assert not anchor or anchor in map(slug, headings), (page.name, target)
