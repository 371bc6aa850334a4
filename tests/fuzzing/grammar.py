"""Requests made from the description of a server: the parameters of an operation, mostly with fitting values.

An operation lists the names that it reads. A request takes some of them, each with a value that fits or a
nasty one; a path of few names, so that requests meet each other's objects; and a body of its kind. A small
part of the requests is then changed byte by byte, head and all.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

NUMBERS = (
    *("0", "1", "2", "-1", "+1", "01", " 1", "1 ", "1_0", "0x10", "1e3", "1e999", "1.5", ".5", "inf", "NaN"),
    *(
        "9" * 15,
        "9" * 18,
        "9" * 19,
        "9" * 30,
        "9" * 400,
        "9" * 4300,
        "9" * 5000,
        "0" * 5000,
        "-" + "9" * 5000,
    ),
    *("18446744073709551615", "18446744073709551616", "9007199254740992", "2147483648", "999999999999"),
    *("\u0663", "\u0661\u0662", "\uff11", "\u00b2", "\u2460", "\u4e09", "\U0001d7d9", "1\u0662"),
)
TEXTS = (
    *(
        "",
        " ",
        "a",
        "A",
        "*",
        '"',
        '"e"',
        'W/"e"',
        "'",
        "\\",
        "/",
        "//",
        "..",
        "../..",
        "%",
        "%zz",
        "&",
        "=",
        "+",
    ),
    *(
        "a" * 300,
        "b" * 3000,
        "null",
        "true",
        "false",
        "None",
        "[]",
        "{}",
        "-",
        "_",
        "now",
        "\u00e9",
        "e\u0301",
    ),
    *("\U0001f984", "\u202e", "\ufeff", "\ufffd", "\u0000", "\n", "\r\nX: y", "\t", "\x7f", "\x1b[2J", "<b>"),
    *("bytes=0-0", "bytes=-0", "bytes=\u0661-", "bytes=" + "9" * 5000 + "-", "bytes=0-1,2-3", "bytes=5-1"),
    *(
        "2026-01-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "0000-00-00",
        "9999-12-31T23:59:59-12:00",
        "+99999-01-01",
    ),
    *(
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "Mon, 99 Jan 2024 00:00:00 GMT",
        "Mon, 01 Jan 0000 00:00:00 GMT",
        "Mon,",
    ),
    *(
        "Mon, 01 Jan 2024 00:00:00 +99999999",
        "0_0",
        "0000000000000000_0000000000000000",
        "-1",
        "AAAA",
        "AAAA==",
    ),
)
RAW = (
    b"%ED%A0%80",
    b"%FF",
    b"%C0%AF",
    b"%00",
    b"%0a",
    b"%0D%0A",
    b"%",
    b"%2",
    b"%E2%82",
    b"%2e%2e%2f",
    b"%252F",
)
"""Of a target: not UTF-8, half characters, surrogates, and what is a slash only after a second decoding."""
METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE", "get", "PROPFIND")
BODIES = (
    *(
        b"",
        b"x",
        b"\x00" * 50,
        b"\xff\xfe",
        b"{",
        b"[]",
        b"{}",
        b"null",
        b"[[[[",
        b"[" * 5000,
        b'{"a":' * 5000,
    ),
    *(b'"\\ud800"', b'{"\\ud800": "\\udfff"}', b"1e999", b"NaN", b"-" + b"9" * 5000, b"9" * 5000, b'"\xff"'),
    *(
        b'{"a": 1, "a": 2}',
        b"[1,2,3]",
        b'"' + b"a" * 5000 + b'"',
        b"<a>&b;</a>",
        b"<a><a><a>",
        b"<?xml?>",
        b"a" * 20000,
    ),
    *(b"5\r\nhello\r\n0\r\n\r\n", b"0\r\n\r\n", b"\xef\xbb\xbf{}", b"{}" * 100),
)


@dataclass(frozen=True)
class Operation:
    """The description of one operation. `{name}` in `path` is one of the `names`."""

    method: str
    path: str
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Parameters with values that fit."""
    headers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    always: Mapping[str, str] = field(default_factory=dict)
    """Headers of every request, as credentials are."""
    bodies: Sequence[bytes] = ()


@dataclass
class Request:
    method: bytes
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    is_chunked: bool = False

    @property
    def raw(self) -> bytes:
        headers = list(self.headers)
        names = {name.lower() for name, _ in headers}
        body = self.body
        if b"host" not in names:
            headers.append((b"host", b"h"))
        if self.is_chunked:
            headers.append((b"transfer-encoding", b"chunked"))
            middle = len(body) // 2
            parts = [part for part in (body[:middle], body[middle:]) if part]
            body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
        elif body or self.method in (b"PUT", b"POST", b"PATCH"):
            headers.append((b"content-length", b"%d" % len(body)))
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        return self.method + b" " + self.target + b" HTTP/1.1\r\n" + lines + b"\r\n" + body


class Maker:
    """Makes requests of these operations, each from its own seed."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = list(operations)

    def request(self, seed: int) -> Request:
        chance = random.Random(seed)
        one = chance.choice(self.operations)
        path = one.path.encode()
        for name, known in one.names.items():
            path = path.replace(b"{%s}" % name.encode(), self._segment(chance, known))
        pairs = [
            quote(name).encode() + b"=" + self._in_query(chance, known)
            for name, known in self._some(chance, one.query)
        ]
        if chance.random() < 0.05:
            pairs.append(self._in_query(chance, ()))
        headers = [(name.encode(), value.encode()) for name, value in one.always.items()]
        headers += [
            (name.encode(), self._in_header(chance, known)) for name, known in self._some(chance, one.headers)
        ]
        fits = one.bodies and chance.random() < 0.6
        body = chance.choice(one.bodies) if fits else chance.choice(BODIES) if chance.random() < 0.5 else b""
        if body and chance.random() < 0.2:
            body = _changed(chance, body)
        method = one.method if chance.random() < 0.95 else chance.choice(METHODS)
        mark = b"&" if b"?" in path else b"?"
        target = path + (mark + b"&".join(pairs) if pairs else b"")
        return Request(method.encode(), target, headers, body, chance.random() < 0.1)

    def _some(
        self, chance: random.Random, known: Mapping[str, Sequence[str]]
    ) -> list[tuple[str, Sequence[str]]]:
        few = [one for one in known.items() if chance.random() < min(0.5, 3 / (1 + len(known)))]
        if few and chance.random() < 0.03:
            few.append(few[0])
        return few

    def _segment(self, chance: random.Random, known: Sequence[str]) -> bytes:
        if chance.random() < 0.85:
            return quote(chance.choice(known)).encode()
        if chance.random() < 0.4:
            return chance.choice(RAW)
        return quote(chance.choice(TEXTS + NUMBERS), safe="/" if chance.random() < 0.3 else "").encode()

    def _value(self, chance: random.Random, known: Sequence[str]) -> str:
        if known and chance.random() < 0.5:
            return chance.choice(known)
        return chance.choice(NUMBERS if chance.random() < 0.6 else TEXTS)

    def _in_query(self, chance: random.Random, known: Sequence[str]) -> bytes:
        if chance.random() < 0.08:
            return chance.choice(RAW)
        return quote(self._value(chance, known), safe="").encode()

    def _in_header(self, chance: random.Random, known: Sequence[str]) -> bytes:
        value = self._value(chance, known).encode(*(("latin-1", "replace") if chance.random() < 0.2 else ()))
        # The parser refuses the rest, which the changed heads try.
        return bytes(byte for byte in value if byte >= 32 and byte != 127)


def changed(request: Request, seed: int) -> bytes:
    """The bytes of a request with some of them changed, its head included."""
    return _changed(random.Random(seed), request.raw)


def _changed(chance: random.Random, data: bytes) -> bytes:
    made = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(made)) if made else 0
        match chance.randrange(5):
            case 0 if made:
                made[at] = chance.randrange(256)
            case 1:
                made[at:at] = chance.choice(
                    (b"\r", b"\n", b"\r\n", b"\0", b" ", b":", b"9" * 5000, b"\xff", b"%")
                )
            case 2:
                del made[at : at + chance.randint(1, 8)]
            case 3:
                made[at:at] = made[at : at + chance.randint(1, 200)]
            case _:
                del made[at:]
    return bytes(made)


# Descriptions.


def from_openapi(
    document: Mapping[str, Any],
    names: Mapping[str, Sequence[str]],
    always: Mapping[str, str],
    known: Mapping[str, Sequence[str]],
    bodies: Sequence[bytes] = (),
) -> list[Operation]:
    """The operations of an OpenAPI document; `known` are values that fit a parameter."""
    found = []
    for path, methods in document["paths"].items():
        shared = methods.get("parameters", [])
        for method, operation in methods.items():
            if method == "parameters":
                continue
            parameters = [*shared, *operation.get("parameters", [])]
            query = {one["name"]: known.get(one["name"], ()) for one in parameters if one["in"] == "query"}
            headers = {one["name"]: known.get(one["name"], ()) for one in parameters if one["in"] == "header"}
            content = operation.get("requestBody", {}).get("content", {})
            made = [json.dumps(example(one.get("schema", {}), document, number)).encode()
                    for kind, one in content.items() if "json" in kind for number in range(6)]  # fmt: skip
            extra = {"content-type": next(iter(content))} if content else {}
            found.append(
                Operation(
                    method.upper(),
                    path,
                    names,
                    query,
                    {**headers, **COMMON},
                    {**always, **extra},
                    [*made, *bodies],
                )
            )
    return found


COMMON: Mapping[str, Sequence[str]] = {
    "if-match": ("*", '"e"'),
    "if-none-match": ("*", '"e"'),
    "range": ("bytes=0-0", "bytes=-1"),
    "accept": ("*/*", "text/event-stream"),
    "expect": ("100-continue",),
    "content-encoding": ("gzip",),
    "origin": ("http://example.org",),
    "x-forwarded-for": ("1.2.3.4",),
}


def example(schema: Mapping[str, Any], document: Mapping[str, Any], number: int, depth: int = 0) -> Any:
    """A value that fits a JSON schema, or nearly."""
    if "$ref" in schema:
        at: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            at = at[part]
        return example(at, document, number, depth)
    if "enum" in schema:
        return schema["enum"][number % len(schema["enum"])]
    for word in ("oneOf", "anyOf", "allOf"):
        if word in schema:
            return example(schema[word][number % len(schema[word])], document, number, depth)
    kind = schema.get("type", "string")
    kind = kind[0] if isinstance(kind, list) else kind
    chance = random.Random(f"{number} {depth} {sorted(schema)}")
    if kind == "object":
        known = schema.get("properties", {})
        return {name: example(one, document, number, depth + 1) for name, one in known.items()}
    if kind == "array":
        return [example(schema.get("items", {}), document, number, depth + 1)] * (number % 3)
    if kind in ("integer", "number"):
        return chance.choice((0, 1, -1, 2**53, 2**64, 10**30, 10**400, 1.5))
    if kind == "boolean":
        return bool(number % 2)
    return chance.choice((*TEXTS, *NUMBERS, "\ud800"))
