"""The prefilter: which files and which functions are worth a look. Cheap to import: no catalogue, no rules.

A name of packed metadata opens a function by itself. Names of per-token data that every model has (`labels`,
`attention_mask`)
do not: they need rows that visibly change, on two lines or more.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

_STRONG = (
    "cu_seq",
    "cuseq",
    "cu_len",
    "max_seqlen",
    "seq_idx",
    "segment_id",
    "unpad",
    "varlen",
    "indptr",
    "actual_seq",
    "query_start_loc",
    "packed_seq",
    "token_tags",
    "document_id",
    "doc_id",
    "from_seqlens",
    "block_mask",
    "from_jagged",
    "seq_lens",
    "seqlens",
    "seqstart",
    "select_idxs(",
    "modality_id",
    "modality_tag",
    "token_type_ids = [",
    "_mask = [",
    "jaxtyping",
    "argsort(",
    "sorted(range(",
    "pad_sequence(",
    "cumsum(0) - 1",
    "lens) - 1]",
    "img_ids=",
    "reverse_idx(",
    "lens - 1]",
    "lengths - 1]",
    "sizes - 1]",
    "searchsorted(",
    "bucketize(",
    "offset +=",
    "ends.append(",
    "head, 1, 1)",
    "heads, 1, 1)",
    "**flash",
)
# Calls that build, cut or reorder rows.
_CALLS = (
    "cat(",
    "concatenate(",
    "concat(",
    "pad(",
    "roll(",
    "cumsum(",
    "interleave(",
    "sorted(",
    "accumulate(",
    "sort(",
    "chunk(",
    "searchsorted(",
    "full(",
    "arange(",
    "nonzero(",
    "extend(",
    "index_select(",
    "full_like(",
    "split(",
    "len(",
    ".sum(",
    "for key in (",
    "for name in (",
    "replace(",
    "masked_select(",
    "] * len(",
    "= range(",
    "list(range(",
    "append(",
    " += ",
)
_NAME = re.compile(
    r"(?:_ids|\bids|_mask|\bmask|labels?|lens|lengths?|_len|tokens|positions|_tags|rows|weights|order|offset|scale|values|freqs|_types|embeds|sequence|hidden|hidden_states|advantages|log_?probs|\btags|modality|bounds|boundaries|edges|\bends|\bstarts|\bx)\b"
)
# What is done to such a name in brackets, or to the entries of a batch; anchored on literals, which are found fastest.
_BRACKETS = re.compile(
    r"\[(?<=(?:_ids|mask|bels|lens|ngth|gths|_len|kens|ions|rows|tags|cale|\Wids)\[)[^\]\n]*(?::|\bin?\b|\b0\b|span|keep|order|perm|idx|index|window|mine)"
    r"|\](?<=(?:ids|ask|els|ens|gth|ths|ion|ons|ale|pes).\])(?:\[[^\]\n]|\s*=\s[^\n]*[\[(])"
    r"|\[:, ?(?:-?\w+ ?:|: ?-?[a-z])"
)
# Padding to a multiple: `-x.shape[0] % n`, `(n - x % n) % n`.
_TO_MULTIPLE = re.compile(r"-\s?[\w.\[\]()]+ % |% [\w.()]+\) %")
# Boundaries of a dense batch.
_DENSE = re.compile(r"arange\(\s*0,\s*\(\w+ \+ 1\) \* \w")
# Fields of a dataclass or named tuple given anew.
_REPLACED = re.compile(r"\breplace\(\s*\w+,\s*\w+=|\._?replace\(\s*\w+=")
_INVERTED = re.compile(r"~[\w.()]+\.nonzero\(")
# Boundaries that are built under any name: a cumulative sum beside a zero that goes in front; and pieces of ranks.
_ZEROS = ("[0, *", "[0] +", "(1, 0)", "zeros(1")
_RANKS = ("rank]", "rank()]", "rank * ", "rank() * ")
# So many such lines open a text of this many rows: a long function has some anyway.
_NEEDED = ((20, 2), (40, 3), (80, 4))
_MOST_NEEDED = 6


def words_of(extra: Mapping[str, Any]) -> Iterator[str]:
    """Literals of which any text that the user's part of the catalogue is about holds one; of a pattern the longest
    part."""
    for entry in (*extra.get("sinks", ()), *extra.get("sources", ())):
        yield str(entry["callee"])
        yield from entry.get("keywords", {})
    for names in extra.get("names", {}).values():
        yield from (max(name.split("*"), key=len) for name in names)


class Screen:
    """Looks for literals: `in` is an order of magnitude faster than any regular expression over all of a file."""

    def __init__(self, words: tuple[str, ...] = ()) -> None:
        self._strong = (*_STRONG, *words)
        self._calls: tuple[str, ...] = _CALLS

    @classmethod
    @cache
    def default(cls) -> "Screen":
        """The screen of the built-in catalogue."""
        return cls()

    def may_matter(self, data: bytes) -> bool:
        """Whether a file can hold anything that a rule is about."""
        return self.opens(data.decode("latin-1"))

    def within(self, text: str) -> "Screen":
        """The same for parts of `text`: what it lacks need not be looked for in them."""
        screen = Screen()
        screen._strong = tuple(word for word in self._strong if word in text)
        screen._calls = tuple(call for call in self._calls if call in text)
        return screen

    def opens(self, text: str) -> bool:
        """Whether a function can."""
        return (
            any(word in text for word in self._strong)
            or self._changes_rows(text)
            or self._inverts(text)
            or self._cuts_all(text)
            or self._builds(text)
        )

    def _builds(self, text: str) -> bool:
        """Whether boundaries are built, or values are cut for the ranks."""
        if "cumsum(" in text and any(zero in text for zero in _ZEROS):
            return True
        return ("chunk(" in text or "arange(" in text) and any(rank in text for rank in _RANKS)

    def _inverts(self, text: str) -> bool:
        return "nonzero(" in text and _INVERTED.search(text) is not None

    def _cuts_all(self, text: str) -> bool:
        """Whether rows are padded to a multiple, all entries of a batch are cut, or a dense batch gets boundaries."""
        if "pad(" in text and " % " in text and _TO_MULTIPLE.search(text) is not None:
            return True
        if "arange(" in text and " + 1) * " in text and _DENSE.search(text) is not None:
            return True
        if "replace(" in text and _REPLACED.search(text) is not None:
            return True
        if "slice(" in text and ("_ids" in text or "mask" in text):
            return True
        return (".items()" in text and "[:, :" in text) or text.count("pad_sequence(") > 1

    def _changes_rows(self, text: str) -> bool:
        lines: set[int] = set()
        rows = text.count("\n")
        needed = next((count for most, count in _NEEDED if rows <= most), _MOST_NEEDED)
        for call in self._calls:
            at = text.find(call)
            while at >= 0:
                end = text.find("\n", at)
                end = len(text) if end < 0 else end
                if end not in lines and _NAME.search(text, text.rfind("\n", 0, at) + 1, end):
                    lines.add(end)
                    if len(lines) >= needed:
                        return True
                at = text.find(call, at + 1)
        for match in _BRACKETS.finditer(text):
            end = text.find("\n", match.end())
            lines.add(len(text) if end < 0 else end)
            if len(lines) >= needed:
                return True
        return False
