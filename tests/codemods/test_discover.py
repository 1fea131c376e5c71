import os

import pytest
from shapecheck.codemods.config import Resolver
from shapecheck.codemods.discover import DiscoverError, Discovery


def tree(root, *paths):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()


@pytest.fixture
def found(tmp_path, monkeypatch):
    """found("a", ...) -> relative paths of the files at and below `a`."""
    monkeypatch.chdir(tmp_path)
    warnings = []

    def call(*paths, force_exclude=False):
        files = Discovery(Resolver(tmp_path).of_folder, force_exclude, warnings.append).files(paths or (".",))
        return [os.path.relpath(file, tmp_path) for file in files]

    call.warnings = warnings
    return call


def test_walks_folders_in_order(tmp_path, found):
    tree(tmp_path, "b.py", "a/z.py", "a/c.ipynb", "a/d.pyi", "a/e.txt", "a.py", "B/x.py", "a/.hidden.py")
    assert found() == ["B/x.py", "a.py", "a/.hidden.py", "a/c.ipynb", "a/z.py", "b.py"]
    assert found("b.py", "a", "a/z.py", "./b.py") == ["a/.hidden.py", "a/c.ipynb", "a/z.py", "b.py"]


def test_default_excludes_hold_below_the_walk_only(tmp_path, found):
    tree(
        tmp_path, ".venv/a.py", "x/node_modules/b.py", "build/c.py", "x/lib/site-packages/d/e.py", "x/f.py", ".git/g.py"
    )
    assert found() == ["x/f.py"]
    assert found("build") == ["build/c.py"]
    assert found("x/lib/site-packages") == ["x/lib/site-packages/d/e.py"]


def test_named_files_are_linted_whatever_they_are(tmp_path, found):
    tree(tmp_path, "script", "build/c.py")
    assert found("script", "build/c.py") == ["build/c.py", "script"]
    assert found("script", "build/c.py", "build", force_exclude=True) == ["script"]


def test_exclude_replaces_the_defaults_and_extend_exclude_adds(tmp_path, found):
    tree(tmp_path, "build/a.py", "old/b.py", "gen/x_pb2.py", "gen/y.py", "a/gen/z.py")
    (tmp_path / "shapecheck.toml").write_text('exclude = ["old/"]\nextend-exclude = ["*_pb2.py", "/gen/y.py"]\n')
    assert found() == ["a/gen/z.py", "build/a.py"]
    assert found("old", "gen") == []
    assert found("old/b.py", "gen/y.py") == ["gen/y.py", "old/b.py"]
    assert found("old", "old/b.py", "gen/y.py", "build/a.py", force_exclude=True) == ["build/a.py"]


def test_nearer_settings_decide(tmp_path, found):
    tree(tmp_path, "a/old.py", "old.py")
    (tmp_path / "shapecheck.toml").write_text('extend-exclude = ["old.py"]\n')
    (tmp_path / "a/shapecheck.toml").write_text("")
    assert found() == ["a/old.py"]


def test_gitignore(tmp_path, found):
    tree(tmp_path, "a.py", "b.py", "x/a.py", "x/c.py", "x/keep.py", "tmp/d.py", "x/y/c.py")
    (tmp_path / ".gitignore").write_text("/a.py\ntmp/\nkeep.py\n# comment\n")
    (tmp_path / "x/.gitignore").write_text("c.py\n!keep.py\n")
    (tmp_path / "x/y/.gitignore").write_text("!c.py\n")
    assert found() == ["b.py", "x/a.py", "x/keep.py", "x/y/c.py"]
    assert found("a.py") == ["a.py"]
    (tmp_path / "shapecheck.toml").write_text("respect-gitignore = false\n")
    assert len(found()) == 7


def test_gitignore_above_the_walk_holds_within_the_repository(tmp_path, found):
    tree(tmp_path, "repo/x/a.py", "repo/x/b.py")
    (tmp_path / ".gitignore").write_text("b.py\n")
    (tmp_path / "repo/.gitignore").write_text("a.py\n")
    assert found("repo/x") == ["repo/x/a.py", "repo/x/b.py"]
    (tmp_path / "repo/.git").mkdir()
    assert found("repo/x") == ["repo/x/b.py"]


def test_a_gitignore_that_cannot_be_read_is_left_aside(tmp_path, found):
    tree(tmp_path, "a.py", "b.py")
    (tmp_path / ".gitignore").write_text("a.py\n!\n")
    assert found() == ["a.py", "b.py"]
    assert ".gitignore: left aside: a pattern of" in found.warnings[0]


def test_links_are_followed_once(tmp_path, found):
    tree(tmp_path, "root/z/a.py", "outside/b.py", "lone.py")
    (tmp_path / "root/z/loop").symlink_to(tmp_path / "root")
    (tmp_path / "root/a_link").symlink_to(tmp_path / "root/z")
    (tmp_path / "root/more").symlink_to(tmp_path / "outside")
    (tmp_path / "root/self").symlink_to(tmp_path / "root/self")
    (tmp_path / "root/dangling.py").symlink_to(tmp_path / "nowhere.py")
    (tmp_path / "root/copy.py").symlink_to(tmp_path / "root/z/a.py")
    (tmp_path / "root/lone.py").symlink_to(tmp_path / "lone.py")
    assert found("root") == ["root/lone.py", "root/more/b.py", "root/z/a.py"]


def test_missing_paths_are_errors(found):
    with pytest.raises(DiscoverError, match="nowhere: no such file or folder"):
        found("nowhere")


def test_unreadable_folders_are_warned_about(tmp_path, found, monkeypatch):
    tree(tmp_path, "a/b.py", "c.py")
    scandir = os.scandir

    def denied(path):
        if str(path).endswith("/a"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)
    assert found() == ["c.py"]
    (warning,) = found.warnings
    assert warning.endswith("/a: cannot be read: Permission denied")


def test_nothing_to_lint(found):
    assert found() == []
