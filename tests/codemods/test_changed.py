import subprocess

import pytest
from shapecheck.codemods.changed import ChangedError, check_revision, on_changed_rows
from shapecheck.codemods.findings import Finding, Note, Position, Span


def span(first, last=None):
    return Span(Position(first, 1), Position(last or first, 5))


def finding(path, row, last=None, *, notes=(), cell=None):
    return Finding(path, span(row, last), "VL101", "some-rule", "message", tuple(notes), cell=cell)


@pytest.fixture
def repo(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    (tmp_path / "config").write_text("[user]\nname = a\nemail = a@b\n[diff]\nnoprefix = true\ninterHunkContext = 9\n")
    (tmp_path / "sub").mkdir()
    for name in ("a.py", "sub/b é.py", "same.py"):
        (tmp_path / name).write_text("".join(f"row{row} = {row}\n" for row in range(1, 11)))
    git("init", "-q")
    git("add", "a.py", "sub", "same.py")
    git("commit", "-qm", "one")
    return tmp_path


def git(*arguments):
    subprocess.run(["git", *arguments], check=True, capture_output=True)


def change(path, row, text):
    rows = path.read_text().splitlines()
    rows[row - 1] = text
    path.write_text("\n".join(rows) + "\n")


def rows(findings, revision="HEAD"):
    return [(found.path, found.span.start.row) for found in on_changed_rows(findings, revision)]


def test_rows_that_changed(repo):
    change(repo / "a.py", 3, "new = 3\nnew = 4")
    change(repo / "a.py", 7, "diff --git a/x b/x\n@@ -1 +1,9 @@")
    change(repo / "sub/b é.py", 2, "new")
    findings = [finding(path, row) for path in ("a.py", "sub/b é.py", "same.py") for row in range(1, 12)]
    assert rows(findings) == [("a.py", 3), ("a.py", 4), ("a.py", 7), ("a.py", 8), ("sub/b é.py", 2)]


def test_spans_and_notes_that_touch_them(repo):
    change(repo / "a.py", 5, "new")
    note = Note(span(5), "here")
    findings = [
        finding("a.py", 3, 5),
        finding("a.py", 6, 9),
        finding("a.py", 9, notes=[note]),
        finding("same.py", 1, notes=[note]),
    ]
    assert rows(findings) == [("a.py", 3), ("a.py", 9)]
    assert rows([finding("same.py", 1, notes=[Note(span(5), "there", "a.py")])]) == [("same.py", 1)]


def test_removed_rows_are_no_changed_rows(repo):
    change(repo / "a.py", 5, "")
    (repo / "a.py").write_text((repo / "a.py").read_text().replace("\n\n", "\n"))
    assert rows([finding("a.py", row) for row in range(1, 10)]) == []


def test_untracked_files_count_throughout(repo):
    (repo / "new.py").write_text("x\n")
    (repo / "staged.py").write_text("x\n")
    git("add", "staged.py")
    assert rows([finding("new.py", 1), finding("staged.py", 1)]) == [("new.py", 1), ("staged.py", 1)]


def test_notebooks_count_when_anything_in_them_changed(repo):
    (repo / "n.ipynb").write_text("a\nb\n")
    git("add", "n.ipynb")
    git("commit", "-qm", "two")
    assert rows([finding("n.ipynb", 40, cell=2)]) == []
    (repo / "n.ipynb").write_text("a\nc\n")
    assert rows([finding("n.ipynb", 40, cell=2)]) == [("n.ipynb", 40)]


def test_revisions_and_folders(repo, monkeypatch):
    change(repo / "a.py", 5, "new")
    git("commit", "-qam", "two")
    monkeypatch.chdir(repo / "sub")
    assert rows([finding("../a.py", 5)]) == []
    assert rows([finding("../a.py", 5)], "HEAD~1") == [("../a.py", 5)]
    assert rows([finding(str(repo / "a.py"), 5)], "HEAD~1") == [(str(repo / "a.py"), 5)]


@pytest.mark.parametrize("revision", ["nowhere", "--output=stolen", "HEAD~9", ""])
def test_unknown_revisions_are_refused(repo, revision):
    with pytest.raises(ChangedError, match=r"--diff-base: git knows no revision .* fetch it first"):
        check_revision(".", revision)
    with pytest.raises(ChangedError, match=r"--diff-base: git knows no revision .* fetch it first"):
        on_changed_rows([finding("a.py", 1)], revision)
    assert not (repo / "stolen").exists()


def test_outside_of_a_repository(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.delenv("GIT_DIR", raising=False)
    with pytest.raises(ChangedError, match="not a git repository"):
        check_revision(str(tmp_path), "HEAD")


def test_without_git(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ChangedError, match="git is not installed"):
        check_revision(str(tmp_path), "HEAD")
