"""Every rule against the cases that stand in its own file."""

import ast

import pytest
from shapecheck.codemods.catalogue import Catalogue
from shapecheck.codemods.check import check
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.fixes import fix_text
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.rules import all_rules

RULES = all_rules()
CHECKED = [rule for rule in RULES if rule.check is not None]
SECTIONS = (
    "### What it does",
    "### Why is this bad?",
    "### Example",
    "### Use instead",
    "### Fix safety",
    "### References",
)


def cases(kind: str) -> list[object]:
    return [
        pytest.param(rule, case, id=f"{rule.code}-{at}")
        for rule in CHECKED
        for at, case in enumerate(getattr(rule, kind))
    ]


def findings(rule: Rule, text: str) -> tuple[Finding, ...]:
    return check(text, "case.py", (rule,), Catalogue.load()).findings


@pytest.mark.parametrize(("rule", "text"), cases("valid"))
def test_valid_code_is_left_alone(rule: Rule, text: str) -> None:
    ast.parse(text)
    assert findings(rule, text) == ()


@pytest.mark.parametrize(("rule", "case"), cases("invalid"))
def test_faults_are_found_where_they_are(rule: Rule, case: Invalid) -> None:
    found = findings(rule, case.code)
    assert tuple(finding.span.start.row for finding in found) == case.rows
    assert {finding.code for finding in found} == {rule.code}
    assert {finding.name for finding in found} == {rule.name}


@pytest.mark.parametrize(("rule", "case"), [param for param in cases("invalid") if param.values[1].fixed is not None])
def test_fixes(rule: Rule, case: Invalid) -> None:
    def again(text: str) -> tuple[Finding, ...]:
        return findings(rule, text)

    fixed = fix_text(case.code, again, unsafe=True, protected_rows=frozenset())
    assert fixed.text == case.fixed
    assert fix_text(fixed.text, again, unsafe=True, protected_rows=frozenset()).text == fixed.text


@pytest.mark.parametrize(("rule", "case"), cases("invalid"))
def test_safe_fixes_only_when_asked_for_no_more(rule: Rule, case: Invalid) -> None:
    unsafe = [finding for finding in findings(rule, case.code) if finding.fix is not None and not finding.fix.safe]
    if unsafe and len(unsafe) == len(case.rows):
        fixed = fix_text(case.code, lambda text: findings(rule, text), unsafe=False, protected_rows=frozenset())
        assert fixed.text == case.code


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
class TestDocumentation:
    def test_all_sections_in_order(self, rule: Rule) -> None:
        places = [rule.doc.find(section) for section in SECTIONS]
        assert -1 not in places
        assert places == sorted(places)

    def test_has_cases(self, rule: Rule) -> None:
        if rule.check is not None:
            assert len(rule.valid) >= 2
            assert len(rule.invalid) >= 2

    def test_fixable_is_true_exactly_when_a_case_is_fixed(self, rule: Rule) -> None:
        assert rule.fixable == any(case.fixed is not None for case in rule.invalid)


def test_codes_and_names_are_distinct() -> None:
    assert len({rule.code for rule in RULES}) == len(RULES)
    assert len({rule.name for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("rule", CHECKED, ids=lambda rule: rule.code)
def test_an_example_of_one_rule_is_no_finding_of_another(rule: Rule) -> None:
    """One fault, one finding: the cases of a rule raise no stable rule but it."""
    stable = tuple(o for o in CHECKED if o.status == "stable" and o is not rule and not o.code.startswith("VL9"))
    for text in rule.valid:
        assert check(text, "case.py", stable, Catalogue.load()).findings == ()
