"""The rules, one module each. A module holds its documentation (the docstring), `check` and `RULE`."""

import importlib
import pkgutil
from functools import cache

from shapecheck.codemods.rule import Rule


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, sorted by code."""
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    rules: list[Rule] = [module.RULE for module in modules]
    return tuple(sorted(rules, key=lambda rule: rule.code))
