"""What a layout of keys promises, as far as an access log can show it broken.

    [promises]
    created_once = ['(?:.*/)?accepted/v1/.*']            # only ever created, never written over
    never_deleted = ['(?:.*/)?accepted/v1/.*']

    [[needs]]                                            # whoever is there needs somebody else to be
    key = '(?P<root>.*/)?manifest/(?P<id>[^/]+)[.]json'
    of = '{root}blob/{id}'

    [[fenced]]                                           # no commit of an epoch once a later one is claimed
    claim = '(?P<log>.*)/epoch/(?P<epoch>[0-9]+)'
    commit = '(?P<log>.*)/entry/(?P<epoch>[0-9]+)-[0-9]+'
    number = 'epoch'

    [[forward]]                                          # numbers that only rise
    key = '(?P<log>.*)/boundary/(?P<number>[0-9]+)'
    number = 'number'

Patterns match whole keys, and are written in the part of the language that Python and RE2 share. Groups
with the same name in `claim` and `commit` must agree; so must all groups but the number's in `forward`.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.sim.systems import SYSTEMS
from fencepost.sim.trace.schema import TraceError

_SECTIONS = {
    "promises": None,
    "needs": ("key", "of"),
    "fenced": ("claim", "commit", "number"),
    "forward": ("key", "number"),
}


@dataclass(frozen=True)
class Layout:
    """See the top of this module."""

    created_once: tuple[str, ...] = ()
    never_deleted: tuple[str, ...] = ()
    needs: tuple[tuple[str, str], ...] = ()
    fenced: tuple[tuple[str, str, str], ...] = ()
    """Pattern of claims, pattern of commits, name of the number."""
    forward: tuple[tuple[str, str], ...] = ()


def layout(name: str) -> Layout:
    """The layout of a system, or one from a file."""
    path = Path(name)
    if name in SYSTEMS:
        return _checked(SYSTEMS[name].trace_layout, path)
    if not path.is_file():
        raise TraceError(f"no layout is called {name!r}; there are {', '.join(SYSTEMS)}, or give a TOML file")
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as wrong:
        raise TraceError(f"{path}: is no TOML file: {wrong}") from wrong
    return _checked(told, path)


def _checked(told: Mapping[str, Any], path: Path) -> Layout:
    unknown = [name for name in told if name not in _SECTIONS]
    if unknown:
        raise TraceError(f"{path}: unknown section {unknown[0]!r}; there are {', '.join(_SECTIONS)}")
    promises = told.get("promises", {})
    once, never = (
        tuple(_pattern(text, path) for text in _texts(promises, name, path))
        for name in ("created_once", "never_deleted")
    )
    tables = {
        section: tuple(tuple(_entry(entry, section, names, path)) for entry in told.get(section, ()))
        for section, names in _SECTIONS.items()
        if names is not None
    }
    return Layout(once, never, **tables)  # type: ignore[arg-type]


def _texts(promises: Any, name: str, path: Path) -> list[str]:
    found = promises.get(name, []) if isinstance(promises, dict) else None
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise TraceError(f"{path}: {name} under [promises] must be a list of patterns")
    return found


def _entry(entry: Any, section: str, names: tuple[str, ...], path: Path) -> list[str]:
    if not isinstance(entry, dict) or set(entry) != set(names):
        raise TraceError(f"{path}: each [[{section}]] has exactly {', '.join(names)}")
    for name in names:
        if name in ("key", "claim", "commit"):
            _pattern(entry[name], path)
    number = entry.get("number")
    for name in ("key", "claim", "commit"):
        if number is not None and name in entry and f"(?P<{number}>" not in entry[name]:
            raise TraceError(f"{path}: {name} of [[{section}]] has no group named {number}")
    return [entry[name] for name in names]


def _pattern(text: str, path: Path) -> str:
    try:
        re.compile(text)
    except re.error as wrong:
        raise TraceError(f"{path}: {text!r} is no pattern: {wrong}") from wrong
    return text
