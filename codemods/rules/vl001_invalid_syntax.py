"""A file does not parse.

### What it does
Reports files that cannot be read as Python: syntax errors, Python 2, bytes that are not in the declared encoding, notebooks that
are no JSON.

Files named on the command line, and folders with up to 200 files, are parsed in full; in larger runs only the functions that may
hold packed metadata are, and faults elsewhere in a file stay unseen.

### Why is this bad?
Nothing in such a file is checked. Silence would look like approval.

### Example
```python
print "hello"
```

### Use instead
```python
print("hello")
```

### Fix safety
No fix.

### References
- [Python: errors and exceptions](https://docs.python.org/3/tutorial/errors.html#syntax-errors)
"""

from shapecheck.codemods.rule import Rule

RULE = Rule("VL001", "invalid-syntax", "stable", __doc__, None)
