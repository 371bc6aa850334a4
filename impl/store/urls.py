"""Stores by name: `memory://`, `file:///dir`, `s3://bucket/prefix?endpoint=...&region=...`."""

import os
import re
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, unquote_to_bytes, urlsplit

from fencepost.impl.environment import Environment
from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.interface import Store

_USER = re.compile(r"//[^/?#]*@")
SCHEMES = "memory://, file:///directory, s3://bucket/prefix?endpoint=...&region=..."


def open_store(url: str, env: Environment | None = None) -> Store:
    """Open the store that `url` names. Nothing is sent yet: `verify` checks that it exists.

    Options follow the question mark: `memory://?versioned=true`, `file:///dir?linger_ms=0`,
    `s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=us-east-1`; also `connect_timeout_s`,
    `read_timeout_s`, and `unquoted_etags=true` for stores that match ETags without quotes only.
    """
    given, url = url, without_user(url)  # a secret in it is refused below, and never repeated
    if given.lower().startswith("s3://arn:"):
        from fencepost.impl.store.s3.store import check_bucket

        check_bucket(url[len("s3://") :])  # an ARN cannot be split as a URL
    try:
        parts = urlsplit(given)
        port_is_sound = parts.port
    except ValueError as error:
        raise Misuse(f"store URL {url!r} cannot be read ({error}); known: {SCHEMES}") from None
    del port_is_sound
    options = _options(url, parts)
    match parts.scheme:
        case "memory":
            from fencepost.impl.store.memory import MemoryStore

            if parts.netloc or parts.path.strip("/"):
                raise Misuse(f"store URL {url!r}: memory:// has no name; every opening is a new, empty store")
            store: Store = MemoryStore(versioned=flag(url, options, "versioned"), env=env)
        case "file":
            store = _files(url, parts, options, env)
        case "s3":
            store = _s3(url, parts, options, env)
        case _:
            raise Misuse(f"store URL {url!r} has no scheme we know; known: {SCHEMES}")
    if options:
        raise Misuse(f"store URL {url!r}: unknown option {next(iter(options))!r} for {parts.scheme}://")
    return store


def without_user(url: str) -> str:
    """A URL that can be shown: a user and a password in it are replaced, also in a URL among its options."""
    return _USER.sub("//...@", url)


def _options(url: str, parts: SplitResult) -> dict[str, str]:
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    options = dict(pairs)
    if len(options) < len(pairs):
        raise Misuse(f"store URL {url!r} gives an option twice")
    if parts.fragment:
        raise Misuse(f"store URL {url!r} holds a '#'; write it as %23")
    return options


def _files(url: str, parts: SplitResult, options: dict[str, str], env: Environment | None) -> Store:
    if parts.netloc not in ("", "localhost"):
        host = parts.netloc.rpartition("@")[2]
        raise Misuse(f"store URL {url!r}: write file:///{host}{parts.path} with three slashes")
    try:
        # A path is bytes: names that are no UTF-8 appear in a URL as %FF, and in a str as surrogate escapes.
        path = os.fsdecode(unquote_to_bytes(os.fsencode(parts.path)))
    except UnicodeError:
        raise Misuse(f"store URL {url!r} names a directory that this system's locale cannot spell") from None
    if not path.startswith("/") or "\0" in path:
        raise Misuse(f"store URL {url!r} names no directory; write file:///absolute/path")
    from fencepost.impl.store.files import FileStore

    linger_ms = number(url, options, "linger_ms", default=None)
    return FileStore(path, env=env) if linger_ms is None else FileStore(path, linger_ms=linger_ms, env=env)


def _s3(url: str, parts: SplitResult, options: dict[str, str], env: Environment | None) -> Store:
    if parts.username or parts.password:
        raise Misuse("store URL: put no credentials in an s3:// URL; use the AWS environment or profile")
    if not parts.netloc:
        raise Misuse(f"store URL {url!r} names no bucket; write s3://bucket/prefix")
    from fencepost.impl.store.s3 import S3Store

    timeouts: dict[str, Any] = {
        name: seconds
        for name in ("connect_timeout_s", "read_timeout_s")
        if (seconds := number(url, options, name, default=None)) is not None
    }
    return S3Store(
        bucket=parts.netloc,
        prefix=unquote(parts.path.lstrip("/")),
        endpoint=options.pop("endpoint", None),
        region=options.pop("region", None),
        env=env,
        unquoted_etags=flag(url, options, "unquoted_etags"),
        **timeouts,
    )


def flag(url: str, options: dict[str, str], name: str) -> bool:
    """Take a yes-or-no option out of `options`."""
    text = options.pop(name, "false").lower()
    if text not in ("true", "false", "1", "0"):
        raise Misuse(f"store URL {url!r}: {name} is true or false, not {text!r}")
    return text in ("true", "1")


def number(url: str, options: dict[str, str], name: str, default: float | None) -> float | None:
    """Take a number that is not negative out of `options`."""
    if name not in options:
        return default
    text = options.pop(name)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise Misuse(f"store URL {url!r}: {name} is a number of at least 0, not {text!r}")
    return value
