"""Credentials: one root token, from which every other secret is derived.

    bucket token        HMAC-SHA256(root token, bucket) in hex: sees that bucket only; a bearer token
    secret key          HMAC-SHA256(root token, access key) in hex, for S3 clients
    access key          `root`, the name of a bucket, or the key of a token in the tokens file

Nothing is stored, so nothing leaks with the directory; changing the root token revokes everything, and
removing a token from its file revokes its key. The key of a token is in upper case: no bucket has its name.
Tokens are compared in constant time.
"""

import functools
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from fencepost.impl.http.tokens import TOKEN_CHARACTERS_MIN, Holder

ROOT = "root"


_OF_TOKEN = re.compile("[0-9A-Z]{16,64}")
"""Access keys of tokens; names of buckets are in lower case."""


@dataclass(frozen=True)
class Origin:
    """What a request tells of its sender; conditions of policies read it."""

    address: str = ""
    secure: bool = False
    referer: str | None = None
    agent: str | None = None


@dataclass(frozen=True)
class Caller:
    """The sender of a request. `bucket` is empty for root, for a holder, and for one who did not sign."""

    name: str
    bucket: str = ""
    holder: Holder | None = None
    access_key: str = ""
    only_public: bool = False
    """True if only objects that are public may be read."""
    origin: Origin = field(default=Origin(), compare=False)

    def may_use(self, bucket: str) -> bool:
        return self.name == ROOT or (self.bucket == bucket and bucket != "")

    @property
    def is_anonymous(self) -> bool:
        return not self.name

    @property
    def names(self) -> frozenset[str]:
        """The names by which a policy may mean this caller."""
        own = self.name if self.holder is None else self.holder.name
        return frozenset({own, self.access_key} - {""})


def holder_of(holder: Holder, access_key: str) -> Caller:
    """Return the caller that a named key stands for; it is never taken for root, whatever its name."""
    return Caller(f"token {holder.name}", holder=holder, access_key=access_key)


ANONYMOUS = Caller("")
"""Reads public objects, and nothing else."""


class Credentials:
    def __init__(self, root_token: str) -> None:
        if len(root_token) < TOKEN_CHARACTERS_MIN:
            raise ValueError(
                f"the root token has fewer than {TOKEN_CHARACTERS_MIN} characters; use a longer one"
            )
        self._root = root_token.encode()
        self._secret = functools.lru_cache(maxsize=256)(self.bucket_token)

    def secret(self, access_key: str) -> str | None:
        """The secret key of any access key: whether its bucket exists is decided after the signature."""
        return self._secret(access_key)

    def caller(
        self, access_key: str, holder: Callable[[str], Holder | None] = lambda _: None
    ) -> Caller | None:
        """Return the caller with an access key whose signature was verified; None for a key that was revoked,
        or never was. `holder` finds the holder of a token."""
        if access_key == ROOT:
            return Caller(ROOT)
        if not _OF_TOKEN.fullmatch(access_key):
            return Caller(access_key, bucket=access_key)
        found = holder(access_key)
        return None if found is None else holder_of(found, access_key)

    def bearer(self, token: str, bucket: str) -> Caller | None:
        """Return the caller that a bearer token identifies, in a request about `bucket`."""
        given = token.encode(errors="replace")
        is_root = hmac.compare_digest(given, self._root)
        derived = hmac.digest(self._root, bucket.encode(), "sha256").hex()
        is_bucket = hmac.compare_digest(given, derived.encode()) and bucket != ""
        return Caller(ROOT) if is_root else Caller(bucket, bucket) if is_bucket else None

    def bucket_token(self, bucket: str) -> str:
        return hmac.digest(self._root, bucket.encode(), "sha256").hex()
