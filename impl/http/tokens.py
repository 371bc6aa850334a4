"""Bearer tokens, of which the file keeps hashes only.

    {"schema": "fencepost.tokens.v1",
     "tokens": {"01M7QE312RRDRANSFNKGH0N21Z": {"name": "till-7", "grants": {"/orders": ["read", "append"]},
                                               "sha256": "..."}}}

Each schema has owners of its own kind: ingest tells agents from operators (`Roles`), streams and objects
grant rights below prefixes (`Grants`).

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
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from fencepost.impl.environment import Environment
from fencepost.impl.http.refusals import COMMON, Kind, Refusal

Headers = Iterable[tuple[bytes, bytes]]

SECRET_BITS = 256
TOKEN_BYTES_MAX = 512
TOKEN_CHARACTERS_MIN = 16
"""Of a token that an operator chooses."""

_LOG = logging.getLogger("fencepost.http")
_NOBODY = "0" * 64


RIGHTS = ("read", "append", "create", "delete")
"""`append` changes what exists: it adds to a stream, closes it, or replaces an object."""


class BadTokens(Exception):
    """The token file cannot be used; the message has the reason."""


@dataclass(frozen=True, slots=True)
class Principal:
    role: str
    name: str


@dataclass(frozen=True, slots=True)
class Holder:
    """The rights below each prefix. A prefix is whole segments: /a covers /a and /a/b, and not /ab."""

    name: str
    grants: tuple[tuple[str, frozenset[str]], ...]

    def may(self, right: str, path: str) -> bool:
        return any(right in rights and f"{path}/".startswith(below(prefix)) for prefix, rights in self.grants)

    def may_list(self, start: str) -> bool:
        """True if all paths that begin like this may be read."""
        return any("read" in rights and start.startswith(below(prefix)) for prefix, rights in self.grants)

    def check(self, right: str, path: str) -> None:
        if not self.may(right, path):
            raise Forbidden(
                "forbidden", f"the token of {self.name!a} does not allow to {right} {path[:200]!a}"
            )


class Forbidden(Refusal):
    kinds: ClassVar[Mapping[str, Kind]] = {
        **COMMON, "forbidden": Kind(403, "stop", "The token does not allow this."),
    }  # fmt: skip


def below(prefix: str) -> str:
    return prefix.rstrip("/") + "/"


class Named(Protocol):
    @property
    def name(self) -> str: ...


Owner = TypeVar("Owner", bound=Named)


class Owners(Protocol[Owner]):
    """The kind of owners of a file: how its lines describe them."""

    needs: str
    """The fields of a line beside its hash, for messages."""

    def read(self, line: Mapping[str, Any]) -> Owner | None:
        """None if the line is not valid."""

    def write(self, owner: Owner) -> dict[str, Any]: ...


class Roles:
    def __init__(self, *roles: str) -> None:
        self._roles = roles
        self.needs = f"role ({' or '.join(roles)}) and name"

    def read(self, line: Mapping[str, Any]) -> Principal | None:
        match line:
            case {"role": str(role), "name": str(name)} if role in self._roles and name:
                return Principal(role, name)
        return None

    def write(self, owner: Principal) -> dict[str, Any]:
        return {"role": owner.role, "name": owner.name}


class Grants:
    needs = f"name, and grants of {', '.join(RIGHTS)} by prefix"

    def read(self, line: Mapping[str, Any]) -> Holder | None:
        match line:
            case {"name": str(name), "grants": dict(grants)} if name and grants:
                try:
                    return Holder(name, tuple((prefix, self._rights(grants[prefix])) for prefix in grants))
                except (TypeError, ValueError):
                    return None
        return None

    def _rights(self, given: Any) -> frozenset[str]:
        rights = frozenset(given)
        if not isinstance(given, list) or not rights <= {*RIGHTS}:
            raise ValueError(given)
        return rights

    def write(self, owner: Holder) -> dict[str, Any]:
        grants = {prefix: [one for one in RIGHTS if one in rights] for prefix, rights in owner.grants}
        return {"name": owner.name, "grants": grants}


def grants_file(path: Path, maker: str) -> "TokenFile[Holder]":
    return TokenFile(path, "fencepost.tokens.v1", Grants(), maker)


@dataclass(frozen=True, slots=True)
class _Line(Generic[Owner]):
    owner: Owner
    sha256: str


@dataclass(frozen=True)
class TokenFile(Generic[Owner]):
    """A file of one `schema`, whose lines describe `owners`. `maker` is the command that makes one."""

    path: Path
    schema: str
    owners_of: Owners[Owner]
    maker: str

    def enrol(self, owner: Owner, env: Environment) -> str:
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

    def owners(self) -> list[tuple[str, Owner]]:
        return [(key, line.owner) for key, line in self.read().items()]

    def read(self) -> dict[str, _Line[Owner]]:
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

    def _line(self, key: str, line: Any) -> _Line[Owner]:
        match line:
            case {"sha256": str(digest)} if len(digest) == 64 and not digest.strip("0123456789abcdef"):
                owner = self.owners_of.read(line)
                if owner is not None:
                    return _Line(owner, digest)
        raise BadTokens(
            f"the token file {self.path} has an invalid line at {key!r}: it needs {self.owners_of.needs}, "
            "and sha256 in 64 hexadecimal digits"
        )

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, _Line[Owner]]]:
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

    def _write(self, lines: Mapping[str, _Line[Owner]]) -> None:
        tokens = {
            key: {**self.owners_of.write(line.owner), "sha256": line.sha256} for key, line in lines.items()
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


class Tokens(Generic[Owner]):
    def __init__(self, file: TokenFile[Owner]) -> None:
        self._file = file
        self._seen = _signature(file.path)
        self._lines = file.read()

    def owner(self, token: str) -> Owner | None:
        """The owner of `token`; None for an unknown token."""
        self._refresh()
        line = self._lines.get(token.partition(".")[0])
        # Compared also when there is no such key, so that the time does not reveal which keys exist.
        same = hmac.compare_digest(hash_token(token), line.sha256 if line else _NOBODY)
        return line.owner if line and same else None

    def holder(self, key: str) -> Owner | None:
        """The owner of the token with a key, for callers who have proven in another way that they hold it."""
        self._refresh()
        line = self._lines.get(key)
        return line.owner if line else None

    def authenticate(self, headers: Headers) -> Owner:
        """The owner of the bearer token in the headers; raises `Refusal`."""
        values = [value for name, value in headers if name.lower() == b"authorization"]
        if len(values) != 1:
            raise Refusal("unauthenticated", "send one Authorization header: Bearer <token>")
        scheme, _, token = values[0].decode("latin-1").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not 0 < len(token) <= TOKEN_BYTES_MAX:
            raise Refusal("unauthenticated", "the Authorization header is not of the form: Bearer <token>")
        return self.known(token)

    def known(self, token: str) -> Owner:
        """The owner of a token; raises `Refusal`."""
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
