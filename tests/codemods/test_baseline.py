import json

import pytest
from shapecheck.codemods.baseline import BaselineError, compare, write
from shapecheck.codemods.findings import Finding, Position, Span


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("x = f(a)\ny = f(a)\ny = f(a)\n")
    (tmp_path / "src/b.py").write_text("z = f(b)\n")
    return tmp_path


def finding(path, row, code="VL101", message="message"):
    return Finding(path, Span(Position(row, 1), Position(row, 2)), code, "some-rule", message)


def line_of(found):
    with open(found.path) as file:
        return file.read().split("\n")[found.span.start.row - 1]


def linted(project, *names):
    return frozenset(str(project / name) for name in names)


BOTH = ("src/a.py", "src/b.py")


def test_what_is_written_is_known(project):
    findings = [finding("src/a.py", 1), finding("src/a.py", 2), finding("src/a.py", 3), finding("src/b.py", 1)]
    path = project / "known.json"
    assert write(path, findings, linted(project, *BOTH), line_of) == 4
    compared = compare(path, findings, linted(project, *BOTH), line_of)
    assert (compared.new, compared.gone) == ((), 0)


def test_the_file_is_stable_and_has_a_row_per_entry(project):
    findings = [finding("src/a.py", row) for row in (1, 2, 3)]
    write(project / "one.json", findings, linted(project, *BOTH), line_of)
    write(project / "two.json", findings[::-1], linted(project, *BOTH), line_of)
    text = (project / "one.json").read_text()
    assert text == (project / "two.json").read_text()
    entries = json.loads(text)["findings"]
    assert sorted(entry["count"] for entry in entries) == [1, 2]
    assert {(entry["path"], entry["code"]) for entry in entries} == {("src/a.py", "VL101")}
    assert len(text.splitlines()) == len(entries) + 5


def test_findings_may_move_and_be_indented(project):
    path = project / "known.json"
    write(path, [finding("src/a.py", 1, message="made in row 7, see rows 3")], linted(project, *BOTH), line_of)
    (project / "src/a.py").write_text("\n\nif a:\n    x = f(a)\n")
    moved = finding("src/a.py", 4, message="made in row 9, see rows 5")
    assert compare(path, [moved], linted(project, *BOTH), line_of).new == ()


@pytest.mark.parametrize(
    "other",
    [
        finding("src/a.py", 2),
        finding("src/a.py", 1, code="VL102"),
        finding("src/a.py", 1, message="other"),
        finding("src/b.py", 1),
    ],
)
def test_other_findings_are_new(project, other):
    path = project / "known.json"
    write(path, [finding("src/a.py", 1)], linted(project, *BOTH), line_of)
    compared = compare(path, [finding("src/a.py", 1), other], linted(project, *BOTH), line_of)
    assert (compared.new, compared.gone) == ((other,), 0)


def test_one_more_of_the_same_is_new(project):
    path = project / "known.json"
    write(path, [finding("src/a.py", 2)], linted(project, *BOTH), line_of)
    more = [finding("src/a.py", 2), finding("src/a.py", 3)]
    assert compare(path, more, linted(project, *BOTH), line_of).new == (more[1],)


def test_entries_that_no_longer_occur_are_counted_for_the_files_of_the_run(project):
    path = project / "known.json"
    write(
        path, [finding("src/a.py", 2), finding("src/a.py", 3), finding("src/b.py", 1)], linted(project, *BOTH), line_of
    )
    assert compare(path, [], linted(project, *BOTH), line_of).gone == 3
    assert compare(path, [finding("src/a.py", 2)], linted(project, "src/a.py"), line_of).gone == 1
    assert compare(path, [], linted(project), line_of).gone == 0
    (project / "src/b.py").unlink()
    assert compare(path, [], linted(project), line_of).gone == 1


def test_writing_keeps_the_entries_of_files_outside_the_run(project):
    path = project / "known.json"
    write(path, [finding("src/a.py", 1), finding("src/b.py", 1)], linted(project, *BOTH), line_of)
    assert write(path, [], linted(project, "src/a.py"), line_of) == 1
    assert compare(path, [finding("src/b.py", 1)], linted(project, *BOTH), line_of).new == ()
    (project / "src/b.py").unlink()
    assert write(path, [], linted(project, "src/a.py"), line_of) == 0
    assert json.loads(path.read_text()) == {"version": 1, "findings": []}


def test_paths_are_relative_to_the_file(project, monkeypatch):
    (project / "conf").mkdir()
    write(project / "conf/known.json", [finding("src/a.py", 1)], linted(project, *BOTH), line_of)
    assert '"../src/a.py"' in (project / "conf/known.json").read_text()
    monkeypatch.chdir(project / "src")
    assert compare(project / "conf/known.json", [finding("a.py", 1)], linted(project, *BOTH), line_of).new == ()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"version": 1}', '{"version": 1, "findings": [{}]}', '{"version": 1, "findings": 3}', "\x00",
     '{"version": 1, "findings": [{"path": "a", "code": "b", "fingerprint": "c", "count": "1"}]}'],
)  # fmt: skip
def test_other_files_are_refused_and_never_overwritten(project, text):
    path = project / "known.json"
    path.write_text(text)
    with pytest.raises(BaselineError, match="not a baseline; delete it"):
        compare(path, [], linted(project), line_of)
    with pytest.raises(BaselineError, match="not a baseline; delete it"):
        write(path, [], linted(project), line_of)
    assert path.read_text() == text


def test_other_versions_missing_files_and_folders(project):
    path = project / "known.json"
    with pytest.raises(BaselineError, match="cannot be read: No such file or directory; --write-baseline makes it"):
        compare(path, [], linted(project), line_of)
    path.write_text('{"version": 2, "findings": []}')
    with pytest.raises(BaselineError, match="version 2"):
        compare(path, [], linted(project), line_of)
    with pytest.raises(BaselineError, match="cannot be written"):
        write(project / "nowhere/known.json", [], linted(project), line_of)
