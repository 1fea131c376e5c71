"""Where a rule is documented."""


def rule_url(name: str) -> str:
    """The page of a rule, relative to the project's root."""
    return f"docs/rules/{name}.md"
