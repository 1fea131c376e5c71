"""`shapecheck rule`: explains the linter's rules."""

import json
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Literal

import click

from shapecheck.codemods.document import explanation
from shapecheck.codemods.report import rule_url
from shapecheck.codemods.rule import Rule
from shapecheck.codemods.rules import all_rules


def _find(name: str) -> Rule:
    rules = {key: rule for rule in all_rules() for key in (rule.code, rule.name)}
    found = rules.get(name.upper()) or rules.get(name.lower())
    if found is not None:
        return found
    close = get_close_matches(name.upper(), rules, 1, 0.6) or get_close_matches(name.lower(), rules, 1, 0.6)
    hint = f"did you mean {close[0]}?" if close else "`shapecheck rule --all` shows all of them."
    raise click.UsageError(f"There is no rule {name!r}; {hint}")


def _fields(rule: Rule) -> dict[str, Any]:
    return {
        "code": rule.code,
        "name": rule.name,
        "status": rule.status,
        "summary": rule.summary,
        "doc": rule.doc,
        "fixable": rule.fixable,
        "url": rule_url(rule.name),
    }


def _show(rules: Sequence[Rule]) -> None:
    text = "\n".join(explanation(rule) for rule in rules)
    if not sys.stdout.isatty():
        click.echo(text, nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))


@click.command()
@click.argument("name", required=False, metavar="[CODE|NAME]")
@click.option("--all", "every", is_flag=True, help="All rules instead of one.")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(name: str | None, every: bool, output_format: Literal["text", "json"]) -> None:
    """Explain a rule of the linter.

    \b
    Examples:
      shapecheck rule VL103
      shapecheck rule missing-leading-zero
      shapecheck rule --all --output-format json
    """
    if every == (name is not None):
        raise click.UsageError("Pass either a rule's code or name, or --all.")
    rules = all_rules() if name is None else (_find(name),)
    if output_format == "text":
        _show(rules)
        return
    fields = [_fields(rule) for rule in rules]
    click.echo(json.dumps(fields if every else fields[0], indent=2))
