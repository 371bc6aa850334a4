"""A TOML file whose every value knows its line, so that an error names file and line.

The standard library's parser reports no positions. The lines are therefore read once more, as loosely as
possible: the text is known to be valid TOML by then. Tables in an array are numbered: `case.0.name`.
"""

import difflib
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from fencepost.sim.des.expressions import BadExpression, Expression, expression
from fencepost.sim.whole_files import read_text

BYTES_MAX = 1_000_000
"""A longer file is not a scenario."""


class Source:
    """The text of one file, as tables, and how to complain about it."""

    def __init__(self, path: Path, text: str | None = None) -> None:
        self.path = path
        self.name = str(path)
        text = _text(path) if text is None else text
        try:
            self.tables: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise BadScenario(_syntax(self.name, error, text)) from None
        except RecursionError:
            raise BadScenario(f"{self.name}: is nested too deep for a scenario") from None
        except ValueError:  # the parser's own errors are above
            raise BadScenario(f"{self.name}: has a number of too many digits") from None
        self.lines = places(text)

    def fail(self, path: str, why: str) -> NoReturn:
        """Complain about the key or table at `path`."""
        raise BadScenario(f"{self.name}:{line_of(self.lines, path)}: {path}: {why}")

    def parse(self, path: str, parse: Callable[[Any], Any], value: Any) -> Any:
        try:
            return parse(value)
        except BadValue as error:
            self.fail(path, str(error))

    def table(self, path: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.fail(path, "is a table of its own, with keys of its own")
        return value

    def tables_of(self, path: str, value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each table of an array of tables, with its own path; none where there is no value."""
        if value is not None and (not isinstance(value, list) or not value):
            self.fail(path, f"is a list of tables, written [[{path}]]")
        for number, table in enumerate(value or ()):
            yield f"{path}.{number}", self.table(f"{path}.{number}", table)

    def needs(self, path: str, found: Iterable[str], wanted: Iterable[str], who: str = "") -> None:
        for name in wanted:
            if name not in found:
                self.fail(path, f"{who}needs {name}")

    def only(self, path: str, found: Iterable[str], known: Iterable[str]) -> None:
        """Refuse an unknown key, and name the nearest known one."""
        known = list(known)
        for key in found:
            if key not in known:
                where = f"{path}.{key}" if path else key
                self.fail(where, f"there is no such key; {suggestion(key, known)}")

    def expression(self, path: str, value: Any, names: Iterable[str]) -> Expression:
        """Arithmetic over these names."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            self.fail(path, f"{value!r} is no arithmetic")
        try:
            found = expression(value)
        except BadExpression as error:
            self.fail(path, str(error))
        unknown = sorted(found.names() - set(names))
        if unknown:
            self.fail(
                path,
                f"{value!r} uses {unknown[0]!r}, which is no counter and no parameter; "
                f"{suggestion(unknown[0], sorted(names))}",
            )
        return found


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return the known names that are similar, or else all of them."""
    known = list(known)
    ends = {name.rpartition(".")[2]: name for name in known}
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    near = near or [ends[end] for end in difflib.get_close_matches(word, ends, n=1, cutoff=0.6)]
    return f"perhaps {near[0]!r} is meant" if near else f"there are {', '.join(known) or 'none'}"


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > BYTES_MAX:
            raise BadScenario(f"{path}: larger than {BYTES_MAX} bytes, which no scenario is")
        return read_text(path)
    except OSError as error:
        raise BadScenario(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadScenario(f"{path}: is not text in UTF-8, as TOML is") from None


def _syntax(name: str, error: tomllib.TOMLDecodeError, text: str) -> str:
    at = re.search(r"\(at line (\d+), column \d+\)", str(error))
    line = int(at[1]) if at else len(text.splitlines()) or 1
    what = re.sub(r"\s*\(at [^)]*\)", "", str(error))
    return f"{name}:{line}: is not valid TOML: {what}"


class BadScenario(Exception):
    """One sentence that begins with the place: file and line."""


class BadValue(Exception):
    """An error in one value, as a clause; the caller that knows its place raises a `BadScenario`."""


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
