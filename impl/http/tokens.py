"""Bearer tokens, of which the file keeps hashes only.

    {"schema": "fencepost.ingest_tokens.v1",
     "tokens": {"01M7QE312RRDRANSFNKGH0N21Z": {"role": "agent", "name": "agent-a", "sha256": "..."}}}

A token is `<key>.<secret>`. The key is public: it names the line to compare with, so that one comparison
suffices for any number of clients, and it salts the hash, which is taken over the whole token. The secret has
256 random bits: no dictionary holds it, and a slow hash would add nothing.

A client may have several tokens, so that one can be replaced without a pause. A change of the file takes
effect at the next request; a file that cannot be read leaves the tokens as they were, and is logged once.
"""

import contextlib
import fcntl
import hashlib
import hmac
import json
import logging
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.impl.environment import Environment
from fencepost.impl.http.refusals import Refusal

Headers = Iterable[tuple[bytes, bytes]]

SECRET_BITS = 256
TOKEN_BYTES_MAX = 512

_LOG = logging.getLogger("fencepost.http")
_NOBODY = "0" * 64


class BadTokens(Exception):
    """The token file cannot be used; the message has the reason."""


@dataclass(frozen=True, slots=True)
class Principal:
    role: str
    name: str


@dataclass(frozen=True, slots=True)
class _Line:
    owner: Principal
    sha256: str


@dataclass(frozen=True)
class TokenFile:
    """A file of one `schema` whose owners have one of the `roles`. `maker` is the command that makes one."""

    path: Path
    schema: str
    roles: tuple[str, ...]
    maker: str

    def enrol(self, owner: Principal, env: Environment) -> str:
        """Add and return a new token of `owner`. A missing file is created."""
        key = env.new_id()
        token = f"{key}.{env.stream('tokens').getrandbits(SECRET_BITS):064x}"
        with self._changing() as lines:
            lines[key] = _Line(owner, hash_token(token))
        return token

    def revoke(self, name: str) -> int:
        """Remove the token with the key `name`, or all tokens of the owner `name`; returns how many."""
        with self._changing() as lines:
            revoked = [key for key, line in lines.items() if name in (key, line.owner.name)]
            for key in revoked:
                del lines[key]
        return len(revoked)

    def owners(self) -> list[tuple[str, Principal]]:
        return [(key, line.owner) for key, line in self.read().items()]

    def read(self) -> dict[str, _Line]:
        try:
            content = json.loads(self.path.read_bytes())
        except OSError as error:
            raise BadTokens(
                f"cannot read the token file {self.path} ({error.strerror}); make one with {self.maker}"
            ) from None
        except (ValueError, RecursionError) as error:
            raise BadTokens(f"the token file {self.path} is not JSON ({error})") from None
        tokens = content.get("tokens") if isinstance(content, dict) else None
        if not isinstance(tokens, dict) or content.get("schema") != self.schema:
            raise BadTokens(
                f'the token file {self.path} is not an object with "schema": "{self.schema}" and "tokens"'
            )
        return {key: self._line(key, value) for key, value in tokens.items()}

    def _line(self, key: str, value: Any) -> _Line:
        match value:
            case {"role": str(role), "name": str(name), "sha256": str(digest)} if (
                role in self.roles and name and len(digest) == 64 and not digest.strip("0123456789abcdef")
            ):
                return _Line(Principal(role, name), digest)
        raise BadTokens(
            f"the token file {self.path} has an invalid line at {key!r}: it needs role "
            f"({' or '.join(self.roles)}), name, and sha256 in 64 hexadecimal digits"
        )

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, _Line]]:
        """The lines of the file; written back whole when the block succeeds, by one writer at a time."""
        try:
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise BadTokens(f"cannot write the token file {self.path}: {error.strerror}") from None
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            lines = self.read() if self.path.exists() else {}
            yield lines
            self._write(lines)
            os.fsync(folder)
        finally:
            os.close(folder)

    def _write(self, lines: Mapping[str, _Line]) -> None:
        tokens = {
            key: {"role": line.owner.role, "name": line.owner.name, "sha256": line.sha256}
            for key, line in lines.items()
        }
        try:
            # mkstemp makes a file that only its owner can read.
            handle, draft = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(json.dumps({"schema": self.schema, "tokens": tokens}, indent=1) + "\n")
                file.flush()
                os.fsync(file.fileno())
            Path(draft).replace(self.path)
        except OSError as error:
            raise BadTokens(f"cannot write the token file {self.path}: {error.strerror}") from None


class Tokens:
    def __init__(self, file: TokenFile) -> None:
        self._file = file
        self._seen = _signature(file.path)
        self._lines = file.read()

    def owner(self, token: str) -> Principal | None:
        """The owner of `token`; None for an unknown token."""
        self._refresh()
        line = self._lines.get(token.partition(".")[0])
        # Compared also when there is no such key, so that the time does not reveal which keys exist.
        same = hmac.compare_digest(hash_token(token), line.sha256 if line else _NOBODY)
        return line.owner if line and same else None

    def authenticate(self, headers: Headers) -> Principal:
        """The owner of the bearer token in the headers; raises `Refusal`."""
        values = [value for name, value in headers if name.lower() == b"authorization"]
        if len(values) != 1:
            raise Refusal("unauthenticated", "send one Authorization header: Bearer <token>")
        scheme, _, token = values[0].decode("latin-1").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not 0 < len(token) <= TOKEN_BYTES_MAX:
            raise Refusal("unauthenticated", "the Authorization header is not of the form: Bearer <token>")
        owner = self.owner(token)
        if owner is None:
            raise Refusal("unauthenticated", "the bearer token is unknown here; it may have been revoked")
        return owner

    def _refresh(self) -> None:
        seen = _signature(self._file.path)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._lines = self._file.read()
        except BadTokens as error:
            _LOG.error("%s; the tokens stay as they were", error)
        else:
            _LOG.info("the token file changed: %d tokens", len(self._lines))


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
