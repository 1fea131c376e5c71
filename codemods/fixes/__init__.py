"""Fixes: edits made in the text, kept only if the linter then has less to say, and files replaced as a whole.

A tree says where an edit belongs; what lies around it is copied, never printed anew, so it stays byte for byte.
"""

from shapecheck.codemods.fixes._diff import unified_diff
from shapecheck.codemods.fixes._edits import FixRefused, Patcher, apply
from shapecheck.codemods.fixes._fixpoint import Fixed, fix_text
from shapecheck.codemods.fixes._write import write_atomically

__all__ = ["FixRefused", "Fixed", "Patcher", "apply", "fix_text", "unified_diff", "write_atomically"]
