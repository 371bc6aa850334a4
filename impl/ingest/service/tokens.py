"""Who may speak: bearer tokens, of which the file keeps hashes only.

    {"schema": "fencepost.ingest_tokens.v1",
     "tokens": {"01M7QE312RRDRANSFNKGH0N21Z": {"role": "agent", "name": "agent-a", "sha256": "..."}}}

A token is `<key>.<secret>`. The key is public: it names the line to compare with, so that one comparison is
made however many agents there are, and it salts the hash, which is taken over the whole token. The secret has
256 random bits: no dictionary holds it, and a slow hash would add nothing.

An agent may have several tokens, so that one can be replaced without a pause. The file is read again when it
changed; one that cannot be read leaves the tokens as they were, and is complained about once.
"""

import contextlib
import fcntl
import hashlib
import hmac
import json
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.impl.environment import Environment

SCHEMA = "fencepost.ingest_tokens.v1"
ROLES = ("agent", "operator")
SECRET_BITS = 256

_LOG = logging.getLogger("fencepost.ingest")
_NOBODY = "0" * 64


class BadTokens(Exception):
    """The file cannot be used; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Who:
    """Whom a token belongs to."""

    role: str
    name: str


@dataclass(frozen=True, slots=True)
class _Line:
    who: Who
    sha256: str


class Tokens:
    """The tokens of a file, as it is now."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._seen = _signature(self._path)
        self._lines = _parsed(self._path)

    def who(self, token: str) -> Who | None:
        """Whom `token` belongs to; none for one that is unknown."""
        self._refresh()
        line = self._lines.get(token.partition(".")[0])
        # Compared also when there is no such key, so that the time tells nothing about which keys there are.
        same = hmac.compare_digest(hashed(token), line.sha256 if line else _NOBODY)
        return line.who if line and same else None

    def _refresh(self) -> None:
        seen = _signature(self._path)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._lines = _parsed(self._path)
        except BadTokens as wrong:
            _LOG.error("%s; the tokens stay as they were", wrong)
        else:
            _LOG.info("the token file changed: %d tokens", len(self._lines))


def hashed(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def enrol(path: str | os.PathLike[str], who: Who, env: Environment) -> str:
    """Add a new token of `who` to the file, which is made when it is missing, and answer the token."""
    key = env.new_id()
    token = f"{key}.{env.stream('tokens').getrandbits(SECRET_BITS):064x}"
    with _changing(Path(path)) as lines:
        lines[key] = _Line(who, hashed(token))
    return token


def revoke(path: str | os.PathLike[str], name: str) -> int:
    """Remove the token with the key `name`, or all tokens of whoever is called `name`; answer how many."""
    with _changing(Path(path)) as lines:
        gone = [key for key, line in lines.items() if name in (key, line.who.name)]
        for key in gone:
            del lines[key]
    return len(gone)


def listed(path: str | os.PathLike[str]) -> list[tuple[str, Who]]:
    """Every key and whom it belongs to."""
    return [(key, line.who) for key, line in _parsed(Path(path)).items()]


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _parsed(path: Path) -> dict[str, _Line]:
    try:
        found = json.loads(path.read_bytes())
    except OSError as wrong:
        raise BadTokens(
            f"cannot read the token file {path} ({wrong.strerror}); make one with fencepost ingest enrol"
        ) from None
    except ValueError as wrong:
        raise BadTokens(f"the token file {path} is no JSON ({wrong})") from None
    if (
        not isinstance(found, dict)
        or found.get("schema") != SCHEMA
        or not isinstance(found.get("tokens"), dict)
    ):
        raise BadTokens(f'the token file {path} is no object with "schema": "{SCHEMA}" and "tokens"')
    return {key: _line(path, key, value) for key, value in found["tokens"].items()}


def _line(path: Path, key: str, value: Any) -> _Line:
    match value:
        case {"role": "agent" | "operator" as role, "name": str(name), "sha256": str(digest)} if (
            name and len(digest) == 64 and not digest.strip("0123456789abcdef")
        ):
            return _Line(Who(role, name), digest)
    raise BadTokens(
        f"the token file {path} has no sound line at {key!r}: role (agent or operator), name, and sha256 in "
        "64 hexadecimal digits are needed"
    )


@contextlib.contextmanager
def _changing(path: Path) -> Iterator[dict[str, _Line]]:
    """The lines of the file, written back whole when the block ends well, by one writer at a time."""
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as wrong:
        raise BadTokens(f"cannot write the token file {path}: {wrong.strerror}") from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        lines = _parsed(path) if path.exists() else {}
        yield lines
        _write(path, lines)
        os.fsync(folder)
    finally:
        os.close(folder)


def _write(path: Path, lines: Mapping[str, _Line]) -> None:
    found = {
        key: {"role": line.who.role, "name": line.who.name, "sha256": line.sha256}
        for key, line in lines.items()
    }
    try:
        handle, draft = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name}."
        )  # readable by its owner only
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(json.dumps({"schema": SCHEMA, "tokens": found}, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        Path(draft).replace(path)
    except OSError as wrong:
        raise BadTokens(f"cannot write the token file {path}: {wrong.strerror}") from None
