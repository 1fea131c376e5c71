import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shapecheck.codemods.findings import AddKeyword, Finding, Fix, InsertItem, Note, Position, Replace, Span
from shapecheck.codemods.report import FORMATS, render, render_statistics

SOURCE = """\
import torch


def f(q, k, lens):
    cu = torch.cumsum(lens, 0)
    n = lens.max()

    k = k[:-1]
    a = 1
    b = 2
    c = 3
    return attn(q, k, cu, max_seqlen=n)
"""


def place(row, column, end_column, end_row=None):
    return Span(Position(row, column), Position(end_row or row, end_column))


def finding(row=5, column=10, end=31, **fields):
    given = {"path": "m.py", "code": "VL103", "name": "missing-leading-zero", "message": "no zero", **fields}
    return Finding(span=place(row, column, end), **given)


def show(name, findings, text=SOURCE, color=False):
    return render(name, findings, sources=lambda _: text, color=color, version="1.2.3")


def missing(path):
    raise FileNotFoundError(path)


def test_formats():
    assert FORMATS == ("full", "concise", "json", "sarif", "github", "gitlab", "junit")


def test_full():
    fix = Fix("Prepend the zero", True, (Replace(place(5, 10, 31), "pad(torch.cumsum(lens, 0), (1, 0))"),))
    notes = (Note(place(6, 9, 19), "longest measured here"), Note(place(12, 23, 25), "expects 0 first"))
    assert show("full", [finding(notes=notes, fix=fix)]) == (
        "m.py:5:10: VL103 [*] no zero\n"
        "   |\n"
        " 5 |     cu = torch.cumsum(lens, 0)\n"
        "   |          ^^^^^^^^^^^^^^^^^^^^^\n"
        " 6 |     n = lens.max()\n"
        "   |         ---------- longest measured here\n"
        "   |\n"
        "note: expects 0 first\n"
        "  --> m.py:12:23\n"
        "    |\n"
        " 12 |     return attn(q, k, cu, max_seqlen=n)\n"
        "    |                       --\n"
        "    |\n"
        "help: Prepend the zero [*]\n"
        "\n"
        "1 finding in 1 file.\n"
        "[*] 1 fixable with `--fix`.\n"
    )


def test_full_shows_rows_between_marks_and_other_files():
    notes = (Note(place(8, 9, 15), "cut here"), Note(place(1, 1, 7), "made there", "other.py"))
    text = show("full", [finding(row=12, column=23, end=25, notes=notes)])
    assert "  8 |     k = k[:-1]\n    |         ------ cut here\n  9 |     a = 1\n 10 |     b = 2\n" in text
    assert "note: made there\n  --> other.py:1:1\n   |\n 1 | import torch\n   | ------\n" in text


@pytest.mark.parametrize("sources", [missing, lambda _: ""])
def test_full_without_a_source(sources):
    found = finding(notes=(Note(place(6, 9, 19), "longest"),))
    text = render("full", [found], sources=sources, color=False, version="1")
    assert text == "m.py:5:10: VL103 no zero\nnote: longest\n  --> m.py:6:9\n\n1 finding in 1 file.\n"


def test_notebooks_have_no_frames_and_name_the_cell():
    found = finding(path="n.ipynb", cell=3, notes=(Note(place(6, 9, 19), "longest"),))
    text = render("full", [found], sources=missing, color=False, version="1")
    assert text.startswith("n.ipynb:cell 3:5:10: VL103 no zero\nnote: longest\n  --> n.ipynb:cell 3:6:9\n")


def test_colours_only_if_asked():
    assert "\x1b[" in show("full", [finding()], color=True)
    assert "\x1b[" not in show("full", [finding()])
    assert re.sub(r"\x1b\[\d+m", "", show("full", [finding()], color=True)) == show("full", [finding()])


@pytest.mark.parametrize(
    ("row", "column", "end", "shown", "marks"),
    [
        ("\tx = f(a)", 6, 10, "    x = f(a)", "        ^^^^"),
        ("s = '你好' + a", 12, 13, "s = '你好' + a", "             ^"),
        ("s = 'é\u0301' + a", 12, 13, "s = 'é\u0301' + a", "          ^"),
        ("s = '\u202e\x1b[2J' + a", 15, 16, "s = '\ufffd\ufffd[2J' + a", "              ^"),
        ("x = a", 6, 6, "x = a", "     ^"),
    ],
)
def test_carets_stand_under_what_they_mark(row, column, end, shown, marks):
    lines = show("full", [finding(row=1, column=column, end=end)], text=row).splitlines()
    assert lines[2:4] == [f" 1 | {shown}", f"   | {marks}"]


def test_long_rows_are_cut():
    row = f"x = [{'0, ' * 300_000}bad]"
    lines = show("full", [finding(row=1, column=len(row) - 3, end=len(row))], text=row).splitlines()
    assert max(map(len, lines)) < 250
    assert lines[2].startswith(" 1 | …")
    column = lines[3].index("^^^")
    assert lines[2][column : column + 3] == "bad"


def test_spans_of_several_rows_are_marked_in_the_first():
    found = Finding("m.py", place(1, 5, 2, end_row=3), "VL101", "n", "m")
    assert " 1 | x = [\n   |     ^\n   |\n" in show("full", [found], text="x = [\n  a,\n]\n")


def test_concise_and_summary():
    safe, unsafe = (Fix("t", is_safe, ()) for is_safe in (True, False))
    found = [finding(), finding(row=6, fix=safe), finding(row=7, path="n.py", fix=unsafe)]
    assert show("concise", found) == (
        "m.py:5:10: VL103 no zero\n"
        "m.py:6:10: VL103 [*] no zero\n"
        "n.py:7:10: VL103 no zero\n"
        "3 findings in 2 files.\n"
        "[*] 1 fixable with `--fix`, 1 more with `--unsafe-fixes`.\n"
    )
    assert show("concise", [found[2]]).endswith("1 fixable with `--fix --unsafe-fixes`.\n")


def test_json():
    edits = (AddKeyword(place(12, 12, 40), "causal", "True"), InsertItem(place(8, 9, 15), 0, "x"))
    found = [
        finding(notes=(Note(place(6, 9, 19), "longest"), Note(place(1, 1, 7), "made", "o.py"))),
        finding(row=12, fix=Fix("Say causal", False, edits[:1])),
        finding(row=12, fix=Fix("Cannot be done", True, edits)),
        finding(path="n.ipynb", cell=2, fix=Fix("t", True, ())),
    ]
    plain, fixed, impossible, in_cell = json.loads(show("json", found))
    assert plain == {
        "filename": "m.py",
        "location": {"row": 5, "column": 10},
        "end_location": {"row": 5, "column": 31},
        "code": "VL103",
        "name": "missing-leading-zero",
        "message": "no zero",
        "fix": None,
        "url": "docs/rules/missing-leading-zero.md",
        "cell": None,
        "notes": [
            {
                "filename": "m.py",
                "location": {"row": 6, "column": 9},
                "end_location": {"row": 6, "column": 19},
                "message": "longest",
            },
            {
                "filename": "o.py",
                "location": {"row": 1, "column": 1},
                "end_location": {"row": 1, "column": 7},
                "message": "made",
            },
        ],
    }
    at = {"row": 12, "column": 39}
    assert fixed["fix"] == {
        "applicability": "unsafe",
        "message": "Say causal",
        "edits": [{"content": ", causal=True", "location": at, "end_location": at}],
    }
    assert impossible["fix"] is None
    assert (in_cell["cell"], in_cell["fix"]) == (2, None)


def test_sarif():
    notes = (Note(place(6, 9, 19), "longest"),)
    found = [finding(notes=notes), finding(path=str(Path("/elsewhere/a b.py"))), finding(code="VL999", path="a b/ü.py")]
    log = json.loads(show("sarif", found))
    assert (log["version"], log["$schema"]) == ("2.1.0", "https://json.schemastore.org/sarif-2.1.0.json")
    [run] = log["runs"]
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"], run["columnKind"]) == ("shapecheck", "1.2.3", "unicodeCodePoints")
    assert [rule["id"] for rule in driver["rules"]] == ["VL103", "VL999"]
    assert driver["rules"][0]["shortDescription"]["text"].startswith("Boundaries reach a consumer")
    assert "### Why is this bad?" in driver["rules"][0]["help"]["markdown"]
    first, second, third = run["results"]
    region = {"startLine": 5, "startColumn": 10, "endLine": 5, "endColumn": 31}
    location = {"artifactLocation": {"uri": "m.py", "uriBaseId": "SRCROOT"}, "region": region}
    assert first["locations"] == [{"physicalLocation": location}]
    assert (first["ruleId"], first["ruleIndex"], third["ruleIndex"]) == ("VL103", 0, 1)
    [related] = first["relatedLocations"]
    assert (related["id"], related["message"]) == (1, {"text": "longest"})
    uris = [result["locations"][0]["physicalLocation"]["artifactLocation"] for result in (second, third)]
    assert uris == [{"uri": "file:///elsewhere/a%20b.py"}, {"uri": "a%20b/%C3%BC.py", "uriBaseId": "SRCROOT"}]
    assert len({result["partialFingerprints"]["shapecheck/v1"] for result in run["results"]}) == 3


def test_github_escapes():
    found = finding(path="a,b:c%.py", message="50% of\nrows", notes=(Note(place(6, 9, 19), "longest"),))
    assert show("github", [found]) == (
        "::error title=shapecheck (VL103),file=a%2Cb%3Ac%25.py,line=5,col=10,endLine=5,endColumn=31"
        "::a,b:c%25.py:5:10: VL103 50%25 of%0Arows%0A  a,b:c%25.py:6:9: longest\n"
    )
    assert ",line=1::" in show("github", [finding(path="n.ipynb", cell=2)])


def test_gitlab():
    [issue] = json.loads(show("gitlab", [finding()]))
    fingerprint = issue.pop("fingerprint")
    assert re.fullmatch("[0-9a-f]{32}", fingerprint)
    assert issue == {
        "check_name": "VL103",
        "description": "VL103: no zero",
        "severity": "major",
        "location": {
            "path": "m.py",
            "positions": {"begin": {"line": 5, "column": 10}, "end": {"line": 5, "column": 31}},
        },
    }


def test_fingerprints_are_unique_and_outlive_edits_above():
    def fingerprints(rows, text=SOURCE):
        return [issue["fingerprint"] for issue in json.loads(show("gitlab", [finding(row=row) for row in rows], text))]

    before = fingerprints([5, 5, 6])
    assert len(set(before)) == 3
    assert fingerprints([7, 7, 8], f"# new\n\n{SOURCE}") == before
    assert fingerprints([5], SOURCE.replace("cumsum", "cumprod"))[0] not in before


def test_paths_are_relative_to_the_current_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    [issue] = json.loads(show("gitlab", [finding(path=str(tmp_path / "a" / "m.py"))]))
    assert issue["location"]["path"] == "a/m.py"


def test_junit():
    found = [
        finding(message='<b> & "c" \x1b \ud800', notes=(Note(place(6, 9, 19), "longest"),)),
        finding(row=6),
        finding(path="n.py"),
    ]
    root = ET.fromstring(show("junit", found))
    assert root.attrib == {"name": "shapecheck", "tests": "3", "failures": "3", "errors": "0"}
    assert [(suite.get("name"), suite.get("failures")) for suite in root] == [("m.py", "2"), ("n.py", "1")]
    case = root[0][0]
    assert (case.get("name"), case.get("line")) == ("VL103 missing-leading-zero", "5")
    assert case[0].get("message") == '<b> & "c" \ufffd \ufffd'
    assert case[0].text.endswith("\nm.py:6:9: longest")


def test_nothing_found():
    shown = {name: show(name, []) for name in FORMATS}
    assert shown["full"] == shown["concise"] == "No findings.\n"
    assert shown["json"] == shown["gitlab"] == "[]\n"
    assert shown["github"] == ""
    assert json.loads(shown["sarif"])["runs"][0]["results"] == []
    suites = ET.fromstring(shown["junit"])
    assert (suites.get("tests"), suites.get("failures"), len(suites[0])) == ("1", "0", 1)


@given(st.text(max_size=30), st.text(max_size=60), st.integers(1, 5), st.integers(1, 70), st.integers(0, 9))
def test_any_text_gives_valid_documents(message, source, row, column, width):
    found = finding(path=message or "m.py", row=row, column=column, end=column + width, message=message)
    for name in FORMATS:
        text = show(name, [found], text=source)
        assert text.endswith("\n")
        if name in {"json", "sarif", "gitlab"}:
            json.loads(text)
        elif name == "junit":
            ET.fromstring(text)
        elif name in {"github", "concise"}:
            assert len(text.split("\n")) == {"github": 2, "concise": 3}[name]


def test_statistics():
    safe = Fix("t", True, ())
    found = [finding(), finding(code="VL101", name="a", fix=safe), *[finding(code="VL401", name="b", fix=safe)] * 9]
    found.append(finding(code="VL401", name="b"))
    assert render_statistics(found, "full") == (
        "10  VL401  [-] b\n 1  VL101  [*] a\n 1  VL103      missing-leading-zero\n"
    )
    assert render_statistics([finding()], "concise") == "1  VL103  missing-leading-zero\n"
    assert json.loads(render_statistics(found, "json"))[0] == {
        "code": "VL401",
        "name": "b",
        "count": 10,
        "fixable": False,
        "fixable_count": 9,
    }
    assert (render_statistics([], "full"), render_statistics([], "json")) == ("", "[]\n")


def test_text_formats_import_neither_rich_nor_libcst():
    code = (
        "import sys; from shapecheck.codemods.report import render\n"
        "for name in ('full', 'concise', 'json', 'github', 'gitlab', 'junit'):\n"
        "    render(name, [], sources=str, color=True, version='1')\n"
        "assert not {'rich', 'libcst', 'difflib', 'shapecheck.codemods.rules'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
