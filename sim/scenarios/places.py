"""On which line of a TOML file each key stands, so that a complaint can name its place.

The standard library's parser tells no positions, so the lines are read once more, as loosely as possible: the
text is known to be valid TOML by then. Tables in an array are numbered: `case.0.name`.
"""

import re
from collections import Counter

_HEADER = re.compile(r"\s*(\[\[?)([^\[\]]+)\]\]?\s*(#.*)?")
_KEY = re.compile(
    r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=(.*)"""
)
_INNER = re.compile(r"""[{,]\s*([A-Za-z0-9_-]+|"[^"]*"|'[^']*')\s*=""")


def places(text: str) -> dict[str, int]:
    """Dotted path to line number, tables included. Parts that hold dots or so keep them, without quotes."""
    found: dict[str, int] = {}
    table = ""
    arrays: Counter[str] = Counter()
    inside = ""
    last = ""
    for line_number, line in enumerate(text.splitlines(), 1):
        if inside:
            if inside in line:
                inside = ""
            continue
        header = _HEADER.fullmatch(line)
        if header is not None:
            table = _dotted(header[2])
            if header[1] == "[[":
                arrays[table] += 1
                table = f"{table}.{arrays[table] - 1}"
            found.setdefault(table, line_number)
            continue
        key = _KEY.match(line)
        if key is not None:
            last = ".".join(part for part in (table, _dotted(key[1])) if part)
            found.setdefault(last, line_number)
            for quotes in ('"""', "'''"):
                if key[2].count(quotes) == 1:
                    inside = quotes
        for inner in _INNER.finditer(line if key is None else key[2]) if last else ():
            found.setdefault(f"{last}.{_dotted(inner[1])}", line_number)
    return found


def line_of(found: dict[str, int], path: str) -> int:
    """The line of `path`, or of the nearest thing around it."""
    while path:
        if path in found:
            return found[path]
        path = path.rpartition(".")[0]
    return 1


def _dotted(name: str) -> str:
    parts = re.findall(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""", name)
    return ".".join(part.strip("\"'") for part in parts)
