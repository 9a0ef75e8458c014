"""Patterns of keys, as ``glob`` has them."""

from __future__ import annotations

import re
from typing import Iterator


class Pattern:
    """What a pattern fits, and what everything that it fits begins with."""

    def __init__(self, pattern: str) -> None:
        plain = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
        self.prefix = plain if plain == pattern else plain[: plain.rfind("/") + 1]
        self._fits = re.compile("".join(_parts(pattern)), re.DOTALL).fullmatch

    def fits(self, key: str) -> bool:
        """Whether it fits a key."""
        return self._fits(key) is not None


def _parts(pattern: str) -> Iterator[str]:
    at = 0
    while at < len(pattern):
        rest = pattern[at:]
        if found := re.match(r"\*\*/", rest):
            yield "(?:.*/)?"
        elif found := re.match(r"\*\*", rest):
            yield ".*"
        elif found := re.match(r"\*", rest):
            yield "[^/]*"
        elif found := re.match(r"\?", rest):
            yield "[^/]"
        elif found := re.match(r"\[(!?)(\]?[^\]]*)\]", rest):
            inside = found[2].replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^")
            yield f"[{'^/' if found[1] else ''}{inside}]"
        else:
            yield re.escape(rest[0])
        at += found.end() if found else 1
