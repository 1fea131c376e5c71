import json
import os
import time

import pytest
from shapecheck.codemods.cache import Cache, stamp_of
from shapecheck.codemods.findings import (
    AddKeyword,
    Finding,
    Fix,
    InsertItem,
    Note,
    Position,
    ReorderItems,
    Replace,
    Span,
)

SPAN = Span(Position(1, 2), Position(3, 4))
FULL = Finding(
    "a.py",
    SPAN,
    "VL101",
    "some-rule",
    "message é",
    (Note(SPAN, "here"), Note(SPAN, "there", "b.py")),
    Fix(
        "title",
        True,
        (Replace(SPAN, "x"), InsertItem(SPAN, 1, "y"), ReorderItems(SPAN, (1, 0)), AddKeyword(SPAN, "name", "z")),
    ),
    cell=3,
)
STAMP = (1_000, 20)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / ".shapecheck_cache"


def saved(folder, *findings):
    cache = Cache(folder)
    cache.put("/a.py", STAMP, "digest", findings)
    cache.save({"/a.py"})
    return folder / "findings.json"


@pytest.mark.parametrize("findings", [(), (FULL,), (FULL, FULL)])
def test_remembers_findings(folder, findings):
    saved(folder, *findings)
    assert Cache(folder).get("/a.py", STAMP, "digest") == findings


@pytest.mark.parametrize(
    ("path", "stamp", "digest"),
    [
        ("/b.py", STAMP, "digest"),
        ("/a.py", (1_001, 20), "digest"),
        ("/a.py", (1_000, 21), "digest"),
        ("/a.py", STAMP, "other"),
    ],
)
def test_forgets_what_changed(folder, path, stamp, digest):
    saved(folder, FULL)
    assert Cache(folder).get(path, stamp, digest) is None


def test_the_folder_keeps_itself_out_of_git_and_backups(folder):
    saved(folder)
    assert (folder / ".gitignore").read_text() == "*\n"
    assert (folder / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55\n")
    assert sorted(os.listdir(folder)) == [".gitignore", "CACHEDIR.TAG", "findings.json"]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\x00", b"[]", b"null", b"1", b'{"format": 0, "files": {}}', b'{"format": 1}', b'{"format": 1, "files": []}',
     b'{"format": 1, "files": {"/a.py": 3}}', b'{"format": 1, "files": {"/a.py": [1000, 20, "digest", 3]}}',
     b'{"format": 1, "files": {"/a.py": [1000, 20, "digest", [{"Path": ["x"]}]]}}',
     b'{"format": 1, "files": {"/a.py": [1000, 20, "digest", [{"Finding": ["x"]}]]}}',
     b'{"format": 1, "files": {"/a.py": [1000, 20, "digest", [{"Position": [1, 2]}]]}}',
     b'{"format": 1, "files": {"/a.py": [1000, 20, "digest", ["x"]]}}', b"[" * 100_000],
)  # fmt: skip
def test_foreign_files_are_ignored_and_replaced(folder, content):
    folder.mkdir()
    (folder / "findings.json").write_bytes(content)
    assert Cache(folder).get("/a.py", STAMP, "digest") is None
    saved(folder, FULL)
    assert Cache(folder).get("/a.py", STAMP, "digest") == (FULL,)


def test_nothing_is_written_if_nothing_changed(folder):
    path = saved(folder)
    os.utime(path, ns=(5, 5))
    cache = Cache(folder)
    cache.get("/a.py", STAMP, "digest")
    cache.save({"/a.py"})
    assert path.stat().st_mtime_ns == 5


def test_files_that_are_gone_are_dropped_and_others_kept(folder, tmp_path):
    (tmp_path / "other.py").touch()
    cache = Cache(folder)
    for path in ("/gone.py", str(tmp_path / "other.py"), "/a.py"):
        cache.put(path, STAMP, "digest", ())
    cache.save({"/a.py"})
    assert set(json.loads((folder / "findings.json").read_bytes())["files"]) == {str(tmp_path / "other.py"), "/a.py"}


def test_files_that_just_changed_are_not_remembered(folder):
    cache = Cache(folder)
    cache.put("/a.py", (time.time_ns(), 20), "digest", ())
    assert cache.get("/a.py", (time.time_ns(), 20), "digest") is None


@pytest.mark.parametrize("failing", ["mkdir", "write_text"])
def test_a_disk_that_takes_nothing_means_no_cache(folder, monkeypatch, failing):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(f"pathlib.Path.{failing}", full)
        saved(folder, FULL)
    assert Cache(folder).get("/a.py", STAMP, "digest") is None
    assert not list(folder.glob("*.tmp"))


def test_a_failed_write_leaves_the_old_file(folder, monkeypatch):
    saved(folder, FULL)

    def failing(*arguments):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "replace", failing)
    saved(folder)
    assert Cache(folder).get("/a.py", STAMP, "digest") == (FULL,)
    assert not list(folder.glob("*.tmp"))


def test_a_file_in_place_of_the_folder(folder):
    folder.write_text("mine")
    cache = Cache(folder)
    cache.put("/a.py", STAMP, "digest", ())
    cache.save(set())
    assert folder.read_text() == "mine"


def test_stamps(tmp_path):
    (tmp_path / "a.py").write_text("12345")
    os.utime(tmp_path / "a.py", ns=(7, 8))
    assert stamp_of(str(tmp_path / "a.py")) == (8, 5)
    with pytest.raises(FileNotFoundError):
        stamp_of(str(tmp_path / "b.py"))
