"""A suppression comment suppresses nothing.

### What it does
Reports `# noqa: VL101` and `# shapecheck: ignore[VL101]` on lines where that rule finds nothing. A bare `# noqa` is left alone,
as are codes of other tools.

### Why is this bad?
It hides the next real fault on that line.

### Example
```python
cu_seqlens = F.pad(lens.cumsum(0), (1, 0))  # noqa: VL103
```

### Use instead
```python
cu_seqlens = F.pad(lens.cumsum(0), (1, 0))
```

### Fix safety
No fix.

### References
- [ruff: unused-noqa](https://docs.astral.sh/ruff/rules/unused-noqa/)
"""

from shapecheck.codemods.rule import Rule

RULE = Rule("VL901", "unused-suppression", "stable", __doc__, None)
