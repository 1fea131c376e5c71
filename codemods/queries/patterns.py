"""The next item of a list whose items follow one pattern."""

import re
from collections.abc import Sequence

_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


def next_of(items: Sequence[str], names: Sequence[str], name: str) -> str | None:
    """The item that belongs to `name`, where item i is made for names[i] and all items differ by nothing but the name.

    `full(len(text), TEXT)` and `full(len(image), IMAGE)` give `full(len(audio), AUDIO)` for `audio`. None where the
    items follow no common pattern, or where nothing in them depends on the name.
    """
    if len(items) < 2 or len(items) != len(names) or not all(given.isidentifier() for given in (*names, name)):
        return None
    made = [_renamed(items[0], names[0], other) for other in (*names, name)]
    if list(items) != made[:-1] or made[-1] in items:
        return None
    return made[-1]


def words(code: str) -> set[str]:
    """The names in a piece of code."""
    return set(_WORD.findall(code))


def _renamed(text: str, old: str, new: str) -> str:
    spelled = {old: new, old.upper(): new.upper(), old.capitalize(): new.capitalize()}
    return _WORD.sub(lambda found: spelled.get(found.group(), found.group()), text)
