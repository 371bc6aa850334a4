"""Credentials: one root token, from which every other secret is derived.

    bucket token        HMAC-SHA256(root token, bucket) in hex: sees that bucket only; a bearer token
    secret key          HMAC-SHA256(root token, access key) in hex, for S3 clients
    access key          `root`, or the name of a bucket

Nothing is stored, so nothing leaks with the directory; changing the root token revokes everything. Tokens
are compared in constant time.
"""

import functools
import hmac
from dataclasses import dataclass

ROOT = "root"
TOKEN_CHARACTERS_MIN = 16


@dataclass(frozen=True)
class Caller:
    """The sender of a request. `bucket` is empty for root, and for one who did not sign."""

    name: str
    bucket: str = ""

    def may_use(self, bucket: str) -> bool:
        return self.name == ROOT or (self.bucket == bucket and bucket != "")


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

    def caller(self, access_key: str) -> Caller:
        return Caller(ROOT) if access_key == ROOT else Caller(access_key, bucket=access_key)

    def bearer(self, token: str, bucket: str) -> Caller | None:
        """Return the caller that a bearer token identifies, in a request about `bucket`."""
        given = token.encode(errors="replace")
        is_root = hmac.compare_digest(given, self._root)
        derived = hmac.digest(self._root, bucket.encode(), "sha256").hex()
        is_bucket = hmac.compare_digest(given, derived.encode()) and bucket != ""
        return Caller(ROOT) if is_root else Caller(bucket, bucket) if is_bucket else None

    def bucket_token(self, bucket: str) -> str:
        return hmac.digest(self._root, bucket.encode(), "sha256").hex()
