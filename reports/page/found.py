"""The results in a folder: which command each file is from, and which files are something else.

A folder may hold anything. A file that is no result is passed over; one that should be a result and cannot
be read is named on the page, and hides none of the others.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BYTES_MAX = 64 << 20
"""Of one result. A trace belongs beside a result, not into it."""

KEYS = {
    "compare": {"system", "base", "changes", "verdict"},
    "audit": {"system", "strategy", "schedules", "violations"},
    "check": {"model", "distinct", "properties"},
    "mutants": {"system", "rows", "verdict"},
    "zoo": {"rows", "verdict"},
    "probe": {"url", "verdict", "features"},
    "simulate": {"scenario", "runs"},
    "replay": {"model", "engine", "accepted", "rejected"},
}
"""What a result of each command has, and no other has."""


BROKEN = (KeyError, TypeError, ValueError, AttributeError, IndexError, ZeroDivisionError, AssertionError)
"""What is raised for a result that has not the shape of its command."""


@dataclass(frozen=True)
class Result:
    """One result of one command."""

    file: str
    """Its path within the folder."""
    command: str
    data: Mapping[str, Any]

    @property
    def title(self) -> str:
        """What it is about, in a few words."""
        data = self.data
        what = data.get("system") or data.get("model") or data.get("url") or data.get("scenario") or ""
        if self.command == "zoo":
            models = {str(row.get("model")) for row in data["rows"]}
            what = models.pop() if len(models) == 1 else ""
        less = "".join(f" without {name}" for name in data.get("without", ()))
        return f"{self.command} {what}{less}".strip()

    @property
    def verdict(self) -> str:
        """One word; a simulation whose checks or objectives fail is violated."""
        said = self.data.get("verdict")
        if isinstance(said, str):
            return said
        checks = self.data.get("checks", ())
        if self.command == "replay":
            return "violated" if self.data.get("rejected") else "holds"
        return "violated" if any(not check.get("ok", True) for check in checks) else "holds"


@dataclass
class Findings:
    """Everything a folder holds for a page."""

    results: list[Result] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    """Files that should be results, and why they could not be read."""

    def of(self, command: str) -> list[Result]:
        return [result for result in self.results if result.command == command]

    def provenances(self) -> list[tuple[Result, Mapping[str, Any]]]:
        return [(result, result.data.get("provenance", {})) for result in self.results]


def read_folder(folder: Path) -> Findings:
    """Every result below `folder`, by path, so that the same folder gives the same page."""
    found = Findings()
    for path in sorted(folder.rglob("*.json")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        try:
            result = read_file(path, name)
        except ValueError as error:
            found.unread[name] = str(error)
            continue
        if result is not None:
            found.results.append(result)
    return found


def shaped(found: Findings, makers: Iterable[Callable[[Findings], object]]) -> Findings:
    """Without the results of which one of the makers can make nothing: they are named instead. They have the
    keys of a command and not its shape."""
    whole = Findings(unread=dict(found.unread))
    forms = list(makers)
    for result in found.results:
        try:
            for make in forms:
                make(Findings([result]))
        except BROKEN as error:
            whole.unread[result.file] = (
                f"it looks like a result of fencepost {result.command}, but is not one "
                f"({type(error).__name__}: {error})"
            )
            continue
        whole.results.append(result)
    return whole


def read_file(path: Path, name: str) -> Result | None:
    """The result in a file; None when it is some other JSON; ValueError when it cannot be read."""
    try:
        size = path.stat().st_size
        if size > BYTES_MAX:
            raise ValueError(f"it has {size:,} bytes, more than the {BYTES_MAX:,} a result may have")
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not text: byte {error.start} is no UTF-8") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}: it is not whole JSON ({error.msg})") from error
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    if not isinstance(data, dict):
        return None
    command = command_of(data)
    return Result(name, command, data) if command else None


def command_of(data: Mapping[str, Any]) -> str:
    """The command that writes such results; empty when none does."""
    for command, keys in KEYS.items():
        if keys <= data.keys():
            return command
    return ""
