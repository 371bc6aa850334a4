"""The plan of a proxy: the faults of the requests that pass through it.

Kinds of requests are recognised by method and address, as S3 spells them:

    get head put delete       one object
    list                      a listing (GET of a bucket)
    upload                    a step of a multipart upload: creating, a part, completing, listing
    other                     everything else

Buckets are expected in the path (`/bucket/key`), not in the host name.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from fencepost.impl.store.faults import KINDS, Effect, Script

NORMAL_99 = 2.3263478740408408
"""The standard normal's 99th percentile."""
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s)")


SCRIPTED = frozenset(Effect) - {Effect.REORDERED, Effect.TRUNCATED, Effect.DUPLICATED}
"""Effects that a script may have here: the others need the store."""


class BadPlan(ValueError):
    """The options make no sense; the message names the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Delay:
    """Seconds: always the same, or lognormal given the median and the 99th percentile."""

    p50_s: float = 0.0
    p99_s: float = 0.0

    def draw(self, chance: Any) -> float:
        """The next one, by a stream of random numbers."""
        if self.p99_s <= self.p50_s:
            return self.p50_s
        sigma = math.log(self.p99_s / self.p50_s) / NORMAL_99
        return float(self.p50_s * math.exp(sigma * chance.gauss(0.0, 1.0)))

    def __str__(self) -> str:
        shown = f"{self.p50_s * 1e3:g} ms"
        return f"{shown} (p99 {self.p99_s * 1e3:g} ms)" if self.p99_s > self.p50_s else shown


NONE = Delay()


def read_delay(text: str) -> Delay:
    """`20ms` is constant, `20ms/80ms` lognormal with this median and 99th percentile."""
    parts = [_DURATION.fullmatch(part.strip()) for part in text.split("/")]
    if not 1 <= len(parts) <= 2 or None in parts:
        raise BadPlan(f"{text!r} is no delay; say 20ms, or 20ms/80ms for median and 99th percentile")
    seconds = [float(part[1]) * _UNITS[part[2]] for part in parts if part is not None]
    if len(seconds) == 2 and not 0 < seconds[0] <= seconds[1]:
        raise BadPlan(f"{text!r}: the median must be above 0 and the 99th percentile no less than it")
    return Delay(seconds[0], seconds[-1])


def by_kind(words: Sequence[str], what: str) -> dict[str, str]:
    """`20ms`, `put=80ms`: the text for every kind that is named, and for "" what holds of the others."""
    found: dict[str, str] = {}
    for word in words:
        kind, equals, text = word.rpartition("=")
        if equals and kind not in KINDS:
            raise BadPlan(f"{what} {word}: no kind of request is called {kind!r}; known: {', '.join(KINDS)}")
        if kind in found:
            raise BadPlan(f"{what} is given twice{f' for {kind}' if kind else ''}")
        found[kind] = text
    return found


def read_delays(words: Sequence[str], what: str) -> dict[str, Delay]:
    try:
        return {kind: read_delay(text) for kind, text in by_kind(words, what).items()}
    except BadPlan as error:
        raise BadPlan(str(error) if str(error).startswith(what) else f"{what}: {error}") from None


def read_chances(words: Sequence[str], what: str) -> dict[str, float]:
    """`0.01`, `put=1%`: how likely, from 0 to 1."""
    found = {}
    for kind, text in by_kind(words, what).items():
        number, percent = text.removesuffix("%"), text.endswith("%")
        try:
            chance = float(number) / (100 if percent else 1)
        except ValueError:
            raise BadPlan(f"{what} {text!r} is no chance; say 0.01 or 1%") from None
        if not 0 <= chance <= 1:
            raise BadPlan(f"{what} {text}: a chance is from 0 to 1, or to 100%")
        found[kind] = chance
    return found


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where the requests go."""

    host: str
    port: int
    tls: bool

    @classmethod
    def of(cls, url: str) -> "Upstream":
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise BadPlan(f"the upstream cannot be read ({error}); say http://host:port") from None
        if parts.username is not None or parts.password is not None:
            raise BadPlan(
                "put no credentials into the upstream: clients sign for themselves; say http://host:port"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadPlan(f"upstream {url!r} is no address; say http://host:port or https://host")
        if parts.path.strip("/") or parts.query or parts.fragment:
            raise BadPlan(f"upstream {url!r}: say only http://host:port; buckets stay with the client")
        return cls(parts.hostname, port or (443 if parts.scheme == "https" else 80), parts.scheme == "https")

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"


@dataclass(frozen=True)
class Plan:
    """All options of a proxy. Maps are by kind, with "" for the kinds not named."""

    upstream: Upstream
    latency: Mapping[str, Delay] = field(default_factory=dict)
    """On the way there."""
    reply_latency: Mapping[str, Delay] = field(default_factory=dict)
    """On the way back."""
    cap: int | None = None
    """Requests in flight at once; the others wait their turn."""
    throttled: Mapping[str, float] = field(default_factory=dict)
    """Answered 503 SlowDown, and never forwarded."""
    reply_lost: Mapping[str, float] = field(default_factory=dict)
    """Forwarded, and then the connection is closed without a reply."""
    late: Mapping[str, float] = field(default_factory=dict)
    """The connection is closed at once; the request is forwarded later."""
    late_after: Delay = Delay(1.0, 1.0)
    seed: int = 0
    listen: str = "127.0.0.1"
    port: int = 0
    body_bytes_max: int = 64 << 20
    script: Script = field(default_factory=Script)
    """Faults of requests that it names; the chances are for all others."""

    def __post_init__(self) -> None:
        if self.cap is not None and self.cap < 1:
            raise BadPlan(f"a cap of {self.cap} lets nothing through; give at least 1")
        unable = {fault.effect for fault in self.script.faults} - SCRIPTED
        if unable:
            raise BadPlan(f"a proxy has no {min(unable)}; it is for the object server for tests")
        for kind in ("", *KINDS):
            total = sum(self.of(way, kind, 0.0) for way in ("throttled", "reply_lost", "late"))
            if total > 1:
                raise BadPlan(f"the chances of {kind or 'a request'} add up to {total:g}; at most 1")

    def of(self, way: str, kind: str, default: Any) -> Any:
        """Return the value of a kind in the map called `way`."""
        known: Mapping[str, Any] = getattr(self, way)
        return known.get(kind, known.get("", default))

    def describe(self) -> str:
        """In words, on one line."""
        words = []
        for name, delays in (("there", self.latency), ("back", self.reply_latency)):
            words += [f"{kind + ' ' if kind else ''}{delay} {name}" for kind, delay in delays.items()]
        if self.cap is not None:
            words.append(f"{self.cap} at once")
        if self.script.faults:
            words.append(f"{len(self.script.faults)} faults of a script")
        for name, chances in (("503", self.throttled), ("reply lost", self.reply_lost), ("late", self.late)):
            words += [f"{chance:g} {kind + ' ' if kind else ''}{name}" for kind, chance in chances.items()]
        return ", ".join(words) or "changing nothing"
