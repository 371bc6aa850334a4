"""The results in a folder, read as the types of `fencepost.results`.

A folder may hold anything. A file that is no result is passed over; one that should be a result and cannot be
read is named in the report, and hides none of the others.
"""

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fencepost.results import (
    COMMANDS,
    AuditResult,
    CheckResult,
    Provenance,
    Recorded,
    ZooResult,
    command_of,
    recorded,
    result_class,
)

BYTES_MAX = 64 << 20
"""Of one result. A trace belongs beside a result, not into it."""


@dataclass(frozen=True)
class Entry:
    """One result of one command."""

    file: str
    """Its path within the folder."""
    data: Any
    """One of the types of `fencepost.results`."""
    written: float = 0.0
    """When the file was last changed, in seconds since the epoch."""
    provenance: Provenance | None = None

    @property
    def command(self) -> str:
        return next(name for name, kind in COMMANDS.items() if type(self.data).__name__ == kind)

    @property
    def title(self) -> str:
        """The command and its subject, in a few words."""
        subjects = (getattr(self.data, name, "") for name in ("system", "model", "url", "scenario"))
        subject = next(filter(None, subjects), "")
        if isinstance(self.data, ZooResult):
            models = {str(row.model) for row in self.data.rows}
            subject = models.pop() if len(models) == 1 else ""
        return f"{self.command} {subject}{''.join(f' without {name}' for name in self.switched_off)}".strip()

    @property
    def verdict(self) -> str:
        """That of the result; `violated` where a mutant was searched for and not found."""
        return "violated" if self.missed else str(self.data.verdict)

    @property
    def missed(self) -> tuple[str, ...]:
        """The mutants of an audit that was to find them, and found nothing."""
        searched = isinstance(self.data, AuditResult) and self.data.token is None
        return self.switched_off if searched and self.data.verdict == "holds" else ()

    @property
    def switched_off(self) -> tuple[str, ...]:
        """The safeguards that were switched off on purpose: of a model, or by a mutant of the code."""
        if isinstance(self.data, CheckResult):
            return self.data.without
        if isinstance(self.data, AuditResult) and self.provenance:
            return tuple(_options(self.provenance.command, "--mutant"))
        return ()

    @property
    def expected(self) -> bool:
        """True for a violation that was provoked on purpose, to show the purpose of a safeguard."""
        return self.verdict == "violated" and bool(self.switched_off) and not self.missed


def _options(command: str, name: str) -> Iterator[str]:
    """The values of an option in a command line."""
    words = shlex.split(command)
    for at, word in enumerate(words):
        if word == name and at + 1 < len(words):
            yield words[at + 1]
        elif word.startswith(f"{name}="):
            yield word.partition("=")[2]


@dataclass
class Findings:
    """Everything that a folder holds for a report."""

    results: list[Entry] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    """Files that should be results, and why they could not be read."""
    changed: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """By file: the lines that a change touches, at which findings point where a step comes through one."""

    @property
    def verdict(self) -> str:
        """The worst of all, expected violations aside. A file that cannot be read counts as an error."""
        verdicts = {entry.verdict for entry in self.results if not entry.expected}
        if self.unread or "error" in verdicts:
            return "error"
        if verdicts & {"violated", "unsafe"}:
            return "violated"
        return "undecided" if verdicts & {"undecided", "unsupported"} else "holds"

    def of(self, kind: type[Any]) -> list[Entry]:
        return [entry for entry in self.results if type(entry.data) is kind]


def read_folder(folder: Path) -> Findings:
    """Every result below `folder`, by path, so that the same folder gives the same page."""
    found = Findings()
    for path in sorted(folder.rglob("*.json")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        try:
            data = _read_json(path)
            command = command_of(data)
            if command:
                read = _typed(command, data)
                found.results.append(Entry(name, read.result, path.stat().st_mtime, read.provenance))
        except ValueError as error:
            found.unread[name] = str(error)
    return found


def _typed(command: str, data: Mapping[str, Any]) -> Recorded[Any]:
    try:
        read: Recorded[Any] = recorded(result_class(command), data)
        shlex.split(read.provenance.command if read.provenance else "")
        return read
    except ValueError as error:
        raise ValueError(f"it looks like a result of fencepost {command}, but is not one: {error}") from error


def _read_json(path: Path) -> Mapping[str, Any]:
    """The JSON object in a file; an empty one where it is other JSON; ValueError when it cannot be read."""
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
    return data if isinstance(data, dict) else {}
