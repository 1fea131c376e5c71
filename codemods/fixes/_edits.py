"""From edits, which name a node by its span, to patches of the text."""

import ast
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from shapecheck.codemods.findings import AddKeyword, Edit, InsertItem, ReorderItems, Replace, Span
from shapecheck.codemods.fixes._layout import Patch
from shapecheck.codemods.fixes._parse import parsed
from shapecheck.codemods.fixes._rows import ROW_END, Rows
from shapecheck.codemods.fixes._tree import Tree, UnreadableError

if TYPE_CHECKING:
    from libcst import BaseExpression


class FixRefused(Exception):  # noqa: N818 (a decision, no failure)
    """An edit that cannot be made as it is meant; the text says why."""


def apply(text: str, edits: Sequence[Edit]) -> str:
    """The text with the edits made; all that they do not name stays byte for byte.

    Raises:
        FixRefused: an edit names no node, does not suit its node, or overlaps another.
    """
    return splice(text, Patcher(text).patches(edits))


def splice(text: str, patches: Sequence[Patch]) -> str:
    """The text with the patches made; they are sorted and do not overlap."""
    pieces, done = [], 0
    for patch in patches:
        pieces += [text[done : patch.start], patch.code]
        done = patch.end
    return "".join(pieces) + text[done:]


class Patcher:
    """Turns edits of one text into patches. Only the top-level statements that hold an edit are read with libcst."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.rows = Rows(text)
        row_end = ROW_END.search(text)
        self._row_end = row_end.group() if row_end else "\n"
        self._statements = _statements(text)
        self._trees: dict[tuple[int, int], Tree] = {}

    def patches(self, edits: Sequence[Edit]) -> tuple[Patch, ...]:
        """The patches of one fix, sorted.

        Raises:
            FixRefused: an edit names no node, does not suit its node, or overlaps another.
        """
        groups: dict[Span, list[Edit]] = {}
        for edit in edits:
            groups.setdefault(edit.span, []).append(edit)
        try:
            made = [self._group(span, group) for span, group in groups.items()]
        except RecursionError:
            raise FixRefused("the code is nested too deeply") from None
        found = sorted(((patch, number) for number, group in enumerate(made) for patch in group), key=_place)
        for (before, one), (after, other) in pairwise(found):
            same_place = before.start == before.end == after.start == after.end
            if after.start < before.end or (same_place and one != other):
                raise FixRefused(f"two edits overlap in row {self.rows.position(after.start).row}")
        return tuple(patch for patch, _ in found)

    def _group(self, span: Span, edits: Sequence[Edit]) -> list[Patch]:
        """The patches of the edits of one node."""
        first, last = self._region(span)
        try:
            tree = self._trees.get((first, last)) or Tree(self.text[first:last])
        except UnreadableError:
            raise FixRefused(f"libcst cannot reproduce the statement in row {span.start.row}") from None
        self._trees[first, last] = tree
        start, end = self.rows.offset(span.start), self.rows.offset(span.end)
        at = start - first, end - first
        node = tree.find(*at)
        if node is None or Span(self.rows.position(start), self.rows.position(end)) != span:
            raise FixRefused(f"no expression spans {_words(span)}")
        return [
            Patch(patch.start + first, patch.end + first, patch.code) for patch in self._node(tree, node, at, edits)
        ]

    def _node(self, tree: Tree, node: "BaseExpression", at: tuple[int, int], edits: Sequence[Edit]) -> list[Patch]:
        keywords = [edit for edit in edits if isinstance(edit, AddKeyword)]
        if len(keywords) == len(edits):
            return self._add_keywords(tree, node, keywords)
        if len(edits) > 1:
            raise FixRefused(f"two edits overlap in row {edits[0].span.start.row}")
        match edits[0]:
            case Replace(code=code):
                return self._replace(tree, at, code)
            case InsertItem(index=index, code=code):
                return self._insert(tree, node, index, code)
            case ReorderItems(order=order):
                return _reorder(tree, node, order)
        raise AssertionError(edits)

    def _replace(self, tree: Tree, at: tuple[int, int], code: str) -> list[Patch]:
        code = self._expression(code)
        return [Patch(*at, _fitted(code, lambda fitted: splice(tree.text, [Patch(*at, fitted)])))]

    def _insert(self, tree: Tree, node: "BaseExpression", index: int, code: str) -> list[Patch]:
        series = tree.display(node)
        if series is None:
            raise FixRefused("an item can only be inserted into a list, tuple or set display")
        if not 0 <= index <= len(series.items):
            raise FixRefused(f"item {index} cannot be inserted: the display has {len(series.items)} items")
        code = self._expression(code)
        return series.insert(index, [_fitted(code, lambda fitted: splice(tree.text, series.insert(index, [fitted])))])

    def _add_keywords(self, tree: Tree, node: "BaseExpression", edits: Sequence[AddKeyword]) -> list[Patch]:
        from libcst import Call, GeneratorExp

        if not isinstance(node, Call):
            raise FixRefused("a keyword can only be added to a call")
        taken = {argument.keyword.value for argument in node.args if argument.keyword is not None}
        arguments = []
        for edit in edits:
            if edit.name in taken:
                raise FixRefused(f"the call has a {edit.name}= already")
            taken.add(edit.name)
            code = _fitted(self._expression(edit.code), f"_({edit.name}={{}})".format)
            arguments.append(f"{edit.name}={code}")
        if any(argument.star == "**" for argument in node.args):
            raise FixRefused(f"the call's ** argument may hold {edits[0].name} already")
        if any(isinstance(argument.value, GeneratorExp) and not argument.value.lpar for argument in node.args):
            raise FixRefused("the call's generator has no parentheses of its own")
        return tree.arguments(node).insert(len(node.args), arguments)

    def _expression(self, code: str) -> str:
        """The code with the row ends of the text; refused if it is no expression."""
        if parsed(f"[{code}\n]") is None or not code.strip():
            raise FixRefused(f"{code!r} is no expression")
        return code.strip().replace("\n", self._row_end)

    def _region(self, span: Span) -> tuple[int, int]:
        """Start and end of the top-level statements around a span."""
        for first, last in self._statements:
            if first <= span.start.row and span.end.row <= last:
                starts = self.rows.starts
                return starts[first - 1], starts[last] if last < len(starts) else len(self.text)
        raise FixRefused(f"no statement spans {_words(span)}")


def _statements(text: str) -> list[tuple[int, int]]:
    """First and last row of each top-level statement; statements that share a row count as one."""
    module = parsed(text)
    if module is None:
        raise FixRefused("the text does not parse")
    found: list[tuple[int, int]] = []
    for statement in module.body:
        decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
        first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
        last = statement.end_lineno or first
        if found and first <= found[-1][1]:
            first = found.pop()[0]
        found.append((first, last))
    return found


def _reorder(tree: Tree, node: "BaseExpression", order: tuple[int, ...]) -> list[Patch]:
    from libcst import Set

    series = tree.display(node)
    if series is None or isinstance(node, Set):
        raise FixRefused("only the items of a list or tuple display can be reordered")
    if sorted(order) != list(range(len(series.items))):
        raise FixRefused(f"{order} is no order of {len(series.items)} items")
    moves = zip(series.items, (series.items[source] for source in order), strict=True)
    return [Patch(start, end, tree.text[slice(*source)]) for (start, end), source in moves if source != (start, end)]


def _fitted(code: str, build: Callable[[str], str]) -> str:
    """The code, in parentheses unless `build` gives a text of the same meaning without."""
    plain, wrapped = (parsed(build(form)) for form in (code, f"({code})"))
    if plain is None and wrapped is None:
        raise FixRefused(f"{code!r} does not fit where it should go")
    if plain is not None and (wrapped is None or ast.dump(plain) == ast.dump(wrapped)):
        return code
    return f"({code})"


def _place(found: tuple[Patch, int]) -> tuple[int, int, int]:
    patch, number = found
    return patch.start, patch.end, number


def _words(span: Span) -> str:
    return f"{span.start.row}:{span.start.column} to {span.end.row}:{span.end.column}"
