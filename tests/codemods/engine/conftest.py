"""Interprets small sources and says in a few words what the engine made of them."""

import ast
import builtins
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from shapecheck.codemods.catalogue import Catalogue
from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import lens_of
from shapecheck.codemods.engine.describe.maxima import max_of
from shapecheck.codemods.engine.describe.rows import Part, rows_of
from shapecheck.codemods.engine.describe.tags import per_row_of
from shapecheck.codemods.engine.module import Function, Module
from shapecheck.codemods.engine.terms import Term

IMPORTS = """\
import copy
import itertools
from collections import defaultdict
from itertools import accumulate, chain
import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn
from flash_attn.bert_padding import index_first_axis, pad_input, unpad_input
from fla.ops.utils import prepare_cu_seqlens_from_lens, prepare_cu_seqlens_from_mask, prepare_lens, prepare_position_ids
from fla.ops.utils import prepare_lens_from_mask, prepare_sequence_ids
from transformers.modeling_flash_attention_utils import _get_unpad_data
"""


def show(term: Term | None) -> str:
    """A term in short: names of parameters, `source*` for an item of a collection, the operation for all else."""
    if term is None:
        return "?"
    match term.op:
        case "parameter" | "global":
            return str(term.args[0])
        case "self":
            return "self"
        case "const":
            return repr(term.value)
        case "elem":
            return f"{show(term.args[0])}*"
        case "attr":
            return f"{show(term.args[0])}.{term.args[1]}"
        case "item":
            return f"{show(term.args[0])}[{show(term.args[1])}]"
        case "slice":
            return ":".join("" if end.is_const(None) else show(end) for end in term.args[:2])
        case "shape" | "len" | "Add" | "Sub" | "Mult" | "phi" | "not" | "sum" | "max" | "list" | "tuple" | "each":
            return f"{term.op}({', '.join(map(show, term.args))})"
    return term.op


def show_part(part: Part) -> str:
    """`x`, `each samples*.ids`, `x slice pad`."""
    return " ".join([*(["each"] if part.each else []), show(part.root), *(change.kind for change in part.changes)])


@dataclass(frozen=True)
class Reading:
    """A function that was run, and what its values are."""

    function: Function

    def term(self, name: str) -> Term:
        """The value of a name at the end; `return` for the returned value."""
        return self.function.returned[0] if name == "return" else self.function.final.names[name]

    def show(self, name: str) -> str:
        """The value in short."""
        return show(self.term(name))

    def rows(self, name: str) -> list[str] | None:
        """The parts of its rows; None if some are unknown."""
        rows = rows_of(self.term(name))
        together = "".join(f" {change.kind}" for change in rows.changes) if len(rows.parts) > 1 else ""
        return [show_part(part) + together for part in rows.flat] if rows.known else None

    def lens(self, name: str) -> tuple[str, list[str]] | None:
        """Kind and measured parts (or source) of a list of lengths."""
        found = lens_of(self.term(name))
        if found is None:
            return None
        return found.kind, [show_part(part) for part in found.parts] or [show(found.source)]

    def bounds(self, name: str) -> tuple[str, str, bool | None, str | None] | None:
        """Kind, source, whether they start with zero, and dtype of boundaries."""
        found = bounds_of(self.term(name))
        return None if found is None else (found.kind, show(found.source), found.zero, found.dtype)

    def longest(self, name: str) -> tuple[str, str] | None:
        """Kind and source of a maximum."""
        found = max_of(self.term(name))
        return None if found is None else (found.kind, show(found.source))

    def per_row(self, name: str) -> tuple[str, list[str]] | None:
        """Kind and counted parts of tags or positions."""
        found = per_row_of(self.term(name))
        return None if found is None else (found.kind, [show_part(part) for part in found.parts])


def _free_names(body: str) -> list[str]:
    """The names that a body uses and nothing defines: its parameters."""
    tree = ast.parse(IMPORTS + body)
    bound = {
        alias.asname or alias.name.split(".")[0]
        for node in ast.walk(tree)
        for alias in getattr(node, "names", ())
        if isinstance(alias, ast.alias)
    }
    bound |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    bound |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    used = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    return [name for name in dict.fromkeys(used) if name not in bound and not hasattr(builtins, name)]


@pytest.fixture
def read() -> Callable[..., Reading]:
    """Runs the body of a function; the names that it uses without binding them are its parameters."""

    def run(body: str, *parameters: str) -> Reading:
        body = textwrap.dedent(body).strip("\n")
        names = [*parameters, *(name for name in _free_names(body) if name not in parameters)]
        return run_module(f"def f({', '.join(names)}):\n{textwrap.indent(body, '    ')}\n", "f")

    return run


@pytest.fixture
def read_module() -> Callable[[str, str], Reading]:
    """Runs a function (`name`) or method (`Class.name`) of a module."""
    return run_module


def run_module(text: str, name: str) -> Reading:
    module = Module(IMPORTS + textwrap.dedent(text), helpers=Catalogue.load().helpers)
    owner, _, last = name.rpartition(".")
    if owner:
        found = module.class_of(owner)
        assert found is not None
        node = module.method(found, last)
    else:
        node = module.function(last)
    assert node is not None
    return Reading(module.interpret(node))
