"""A request line taken apart: the bucket and the key, the query."""

from urllib.parse import unquote


def bucket_of_host(host: str, domain: str) -> str | None:
    """Return the bucket in front of `domain` (virtual-host style), or None where the path names it."""
    name, dot, rest = host.partition(f".{domain}")
    return name if dot and not rest else None


def place(path: str, bucket: str | None) -> tuple[str, str]:
    """Return the bucket and the key of a decoded path; both are empty for the service itself."""
    if bucket is not None:
        return bucket, path[1:]
    name, _, key = path[1:].partition("/")
    return name, key


def parse_query(query: str) -> list[tuple[str, str]]:
    """Return what `parse_qsl` returns with blank values, in a fraction of its time.

    Raises `UnicodeDecodeError` for a text that is not UTF-8.
    """
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    return [(_unescaped(name), _unescaped(value)) for name, _, value in pairs]


def _unescaped(text: str) -> str:
    return unquote(text.replace("+", " "), errors="strict") if "%" in text or "+" in text else text
