"""The collected faults, their mended twins, and right code that looks wrong."""

import json
from pathlib import Path

import pytest
from shapecheck.codemods.catalogue import Catalogue
from shapecheck.codemods.check import check
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.rules import all_rules

HERE = Path(__file__).parent
CORPORA = sorted(path.parent.parent for path in HERE.glob("corpus*/cases/cases.json"))
DEFAULT = tuple(rule for rule in all_rules() if rule.status == "stable" and not rule.code.startswith("VL9"))


def findings(path: Path) -> tuple[Finding, ...]:
    return check(path.read_text(encoding="utf-8"), path.name, DEFAULT, Catalogue.load()).findings


def right_files() -> list[object]:
    found = []
    for corpus in CORPORA:
        found += [corpus / "cases" / case["good"] for case in json.loads((corpus / "cases" / "cases.json").read_text())]
        listed = json.loads((corpus / "hard_negatives" / "hard_negatives.json").read_text())
        found += [corpus / "hard_negatives" / case["file"] for case in listed]
    return [pytest.param(path, id=f"{path.parent.parent.name}-{path.stem}") for path in found]


@pytest.mark.parametrize("path", right_files())
def test_right_code_is_left_alone(path: Path) -> None:
    assert findings(path) == ()


def caught(corpus: Path) -> dict[str, bool]:
    cases = json.loads((corpus / "cases" / "cases.json").read_text())
    return {
        case["id"]: any(f.span.start.row in case["bad_lines"] for f in findings(corpus / "cases" / case["bad"]))
        for case in cases
    }


@pytest.mark.parametrize("corpus", CORPORA, ids=lambda corpus: corpus.name)
def test_faults_that_are_caught_stay_caught(corpus: Path) -> None:
    """`missed.txt` lists what the rules do not catch yet; a case leaves it when a rule learns it, and never comes back."""
    listed = (corpus / "missed.txt").read_text().split()
    assert sorted(case for case, hit in caught(corpus).items() if not hit) == sorted(listed)


def test_recall() -> None:
    """Tier 1 is visible inside a function; tier 2 needs more."""
    corpus = HERE / "corpus"
    tiers = {case["id"]: case["tier"] for case in json.loads((corpus / "cases" / "cases.json").read_text())}
    hits = caught(corpus)
    for tier, bar in ((1, 0.9), (2, 0.4)):
        of_tier = [hits[case] for case in hits if tiers[case] == tier]
        assert sum(of_tier) / len(of_tier) >= bar
