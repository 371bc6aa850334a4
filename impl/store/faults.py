"""Faults by script: which requests fail, how, and when. One description for every place that injects them.

The object server for tests, the proxy and the store layer (`layers.faulty`) have the same words and fields.
The server and the proxy read scripts, in TOML or JSON:

    seed = 7

    [[fault]]                       # the second PUT of a manifest is applied, and its reply is lost
    effect = "reply_lost"
    operation = "put"               # a kind of request, or S3's name of an operation; or a list of them
    keys = "manifests/*"
    first = 2
    count = 1

    [[fault]]                       # one in ten of all other requests is refused
    effect = "throttled"
    chance = 0.1

The first fault that fits a request, and whose draw succeeds, is applied. The effects (words of `sim.faults`),
in the order of a request's life:

    delayed        answered `seconds` later; by its phase, applied at once or at the end
    reordered      held until `requests` later ones that the fault fits were answered, at most `seconds`
    throttled      answered 503
    conflict       answered 409. Reads are exempt: no store answers a read with a conflict
    failed         answered 500
    request_lost   not applied; the connection ends without a reply
    reply_lost     applied, and its reply is lost, even when the reply was a refusal
    truncated      applied, and the connection ends in the middle of the reply
    late           the connection ends without a reply, and it is applied `seconds` later
    duplicated     applied, its reply lost, and applied again: the sender receives the second reply

An answer of `phase = "after"` comes after the request was applied: a 503 that is no refusal. A script and its
seed decide the fate of the n-th request that a fault fits. A draw depends on the seed, the fault, the key and
the number of the request among those of its key, so requests of other keys change nothing.
"""

import enum
import hashlib
import json
import threading
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import parse_qsl

from fencepost.impl.store.errors import Misuse

KINDS = ("get", "head", "put", "delete", "list", "upload", "other")
"""Kinds of requests; `upload` is every step of a multipart upload."""
FAULTS_MAX = 10_000
"""The largest number of faults in a script, and of strikes that are kept."""
SECONDS_MAX = 3600.0
_UPLOADS = frozenset({"uploads", "uploadId", "partNumber"})


class Effect(enum.StrEnum):
    DELAYED = "delayed"
    REORDERED = "reordered"
    THROTTLED = "throttled"
    CONFLICT = "conflict"
    FAILED = "failed"
    REQUEST_LOST = "request_lost"
    REPLY_LOST = "reply_lost"
    TRUNCATED = "truncated"
    LATE = "late"
    DUPLICATED = "duplicated"


class Phase(enum.StrEnum):
    """The moment of a fault: before the store applies the request, or after."""

    BEFORE = "before"
    AFTER = "after"


PHASED = frozenset({Effect.DELAYED, Effect.THROTTLED, Effect.CONFLICT, Effect.FAILED})
"""Effects whose phase can be chosen; that of the others is in their name."""


class BadScript(Misuse):
    """The script makes no sense; the message names the fault and the field."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One row of a script."""

    effect: Effect
    kinds: frozenset[str] | set[str] = frozenset()
    """Kinds of requests, or names of operations, that it fits; empty: all."""
    prefix: str = ""
    chance: float = 1.0
    times: int | None = None
    """The number of times it may strike; None: without limit."""
    delay: int = 1
    """The number of further requests before a reordered one goes on; in a store layer, before a late one."""
    keys: str = ""
    """A pattern of shells, as `manifests/*`, of the whole key; empty: all."""
    key: str | None = None
    """The one key that it fits."""
    bucket: str = ""
    first: int = 1
    """The number of the first request that it may strike, among those that it fits."""
    per_key: bool = False
    """Count `first` and `times` for each key by itself."""
    phase: Phase = Phase.BEFORE
    seconds: float = 0.0

    def fits(self, names: frozenset[str], bucket: str, key: str, *, reads: bool) -> bool:
        """Return True for a request with one of these names, whatever its number."""
        if self.effect is Effect.CONFLICT and reads:
            return False
        return (
            (not self.kinds or not names.isdisjoint(self.kinds))
            and self.bucket in ("", bucket)
            and self.key in (None, key)
            and key.startswith(self.prefix)
            and (not self.keys or fnmatchcase(key, self.keys))
        )


@dataclass(frozen=True)
class Script:
    faults: tuple[Fault, ...] = ()
    seed: int = 0

    def as_json(self) -> dict[str, Any]:
        return {"seed": self.seed, "fault": [_row_of(fault) for fault in self.faults]}


# Scripts as text.

_WORDS = {"kinds": "operation", "times": "count", "delay": "requests"}
"""Fields whose name in a script is another."""
_FIELDS = {_WORDS.get(one.name, one.name): one.name for one in fields(Fault)}
_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("effect", "phase", "prefix", "keys", "key", "bucket"), (str,)),
    **dict.fromkeys(("count", "first", "requests"), (int,)),
    **dict.fromkeys(("chance", "seconds"), (int, float)),
    "operation": (str, list),
    "per_key": (bool,),
}
_RANGES: Mapping[str, tuple[float, float]] = {
    "chance": (0, 1),
    "count": (0, 10**9),
    "first": (1, 10**9),
    "requests": (1, 10**9),
    "seconds": (0, SECONDS_MAX),
}


def read_script(text: str, is_operation: Callable[[str], bool]) -> Script:
    """Return the script in a text, TOML or JSON; `is_operation` tells S3's names of operations.

    Raises `BadScript`.
    """
    try:
        found = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadScript(f"the script is neither TOML nor JSON: {error}") from None
    unknown = found.keys() - {"seed", "fault"}
    if unknown:
        raise BadScript(
            f"a script has a seed and faults, and no {min(unknown)!r}; write [[fault]] above each"
        )
    seed, rows = found.get("seed", 0), found.get("fault", [])
    if type(seed) is not int or seed < 0:
        raise BadScript(f"seed {seed!r} is no whole number from 0")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows) or len(rows) > FAULTS_MAX:
        raise BadScript(f"fault must be a list of at most {FAULTS_MAX:,} tables; write [[fault]] above each")
    return Script(tuple(_fault(number, row, is_operation) for number, row in enumerate(rows, 1)), seed)


def _fault(number: int, row: Mapping[str, Any], is_operation: Callable[[str], bool]) -> Fault:
    def bad(text: str) -> BadScript:
        return BadScript(f"fault {number}: {text}")

    unknown = row.keys() - _FIELDS.keys()
    if unknown:
        raise bad(f"no field is called {min(unknown)!r}; known: {', '.join(_FIELDS)}")
    for name, value in row.items():
        if not isinstance(value, _TYPES[name]) or (isinstance(value, bool) and name != "per_key"):
            raise bad(f"{name} = {value!r} is of the wrong type")
        least, most = _RANGES.get(name, (0, 0))
        if name in _RANGES and not least <= row[name] <= most:
            raise bad(f"{name} = {value}; give {least:g} to {most:g}")
    known = [effect.value for effect in Effect]
    if row.get("effect") not in known:
        raise bad(f"effect = {row.get('effect')!r}; choose from {', '.join(known)}")
    effect, phase, names = Effect(row["effect"]), row.get("phase", "before"), row.get("operation", [])
    names = [names] if isinstance(names, str) else names
    for name in names:
        if name not in KINDS and not (isinstance(name, str) and is_operation(name)):
            raise bad(f"no operation is called {name!r}; kinds are {', '.join(KINDS)}, names as PutObject")
    if phase not in [*Phase]:
        raise bad(f"phase = {phase!r}; choose from before, after")
    if "phase" in row and effect not in PHASED:
        raise bad(
            f"{effect} has a phase of its own; leave it out, or choose from {', '.join(sorted(PHASED))}"
        )
    values = {_FIELDS[name]: value for name, value in row.items()}
    return Fault(**{**values, "effect": effect, "kinds": frozenset(names), "phase": Phase(phase)})


def _row_of(fault: Fault) -> dict[str, Any]:
    """Return the fields that are not the usual ones, as a script has them."""
    usual = asdict(Fault(fault.effect))
    row = {_WORDS.get(name, name): value for name, value in asdict(fault).items() if value != usual[name]}
    row = {"effect": fault.effect.value, **row}
    return row | ({"operation": sorted(fault.kinds)} if fault.kinds else {})


def as_toml(fault: Fault) -> str:
    """Return the table of a fault in a script."""
    lines = (f"{name} = {json.dumps(value)}\n" for name, value in _row_of(fault).items())
    return "".join(["\n[[fault]]\n", *lines])  # a text or a list of texts in JSON is one in TOML


# Deciding.


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault that was applied to a request."""

    number: int
    """Among all strikes, from 1."""
    at: int
    """The number of the fault in its script, from 1."""
    fault: Fault = field(compare=False)
    operation: str
    bucket: str
    key: str
    nth: int
    """The number of the request among those of this operation and key, since the script was loaded."""

    def as_json(self) -> dict[str, Any]:
        where = {"operation": self.operation, "bucket": self.bucket, "key": self.key, "nth": self.nth}
        return {"number": self.number, "fault": self.at, "effect": self.fault.effect.value, **where}

    def alone(self) -> Fault:
        """Return the fault that strikes this request again and no other, whatever the order of the keys."""
        return replace(
            self.fault, kinds=frozenset({self.operation}), bucket=self.bucket, key=self.key, keys="",
            prefix="", chance=1.0, first=self.nth, times=1, per_key=True,
        )  # fmt: skip


class Injector:
    """Decides which fault strikes which request, by one script. Any number of threads may ask."""

    def __init__(self, script: Script = Script()) -> None:
        self._lock = threading.Lock()
        self.load(script)

    def load(self, script: Script) -> None:
        """Begin anew with a script: all counts are 0."""
        with self._lock:
            self.script = script
            self.strikes: list[Strike] = []
            self._fitted: Counter[tuple[int, str]] = Counter()
            """Requests that a fault fitted, by its number and, if it counts so, bucket and key."""
            self._struck: Counter[tuple[int, str]] = Counter()
            self._seen: Counter[tuple[str, str, str]] = Counter()

    @property
    def is_active(self) -> bool:
        return bool(self.script.faults)

    def strike(self, kind: str, operation: str, bucket: str, key: str, *, reads: bool) -> Strike | None:
        """Return the fault that strikes the next request of this kind, operation and key, if one does."""
        names = frozenset({kind, operation})
        with self._lock:
            every = enumerate(self.script.faults)
            fitting = [(at, one) for at, one in every if one.fits(names, bucket, key, reads=reads)]
            if not fitting:
                return None
            self._seen[operation, bucket, key] += 1
            nth = self._seen[operation, bucket, key]
            due = [(at, fault) for at, fault in fitting if self._is_due(at, fault, bucket, key, nth)]
            if not due:
                return None
            at, fault = due[0]
            self._struck[at, _counted(fault, bucket, key)] += 1
            found = Strike(self._struck.total(), at + 1, fault, operation, bucket, key, nth)
            if len(self.strikes) < FAULTS_MAX:
                self.strikes.append(found)
            return found

    def _is_due(self, at: int, fault: Fault, bucket: str, key: str, nth: int) -> bool:
        counted = at, _counted(fault, bucket, key)
        self._fitted[counted] += 1
        if self._fitted[counted] < fault.first:
            return False
        if fault.times is not None and self._struck[counted] >= fault.times:
            return False
        return fault.chance >= 1 or self._drawn(at, bucket, key, nth) < fault.chance

    def _drawn(self, at: int, bucket: str, key: str, nth: int) -> float:
        """Return a number below 1 that the seed, the fault, the key and the number of its request decide."""
        text = json.dumps([self.script.seed, at, bucket, key, nth]).encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:6], "big") / (1 << 48)

    def trace(self) -> Script:
        """Return the script that repeats the strikes so far, each on its request and no other."""
        with self._lock:
            return Script(tuple(strike.alone() for strike in self.strikes), self.script.seed)


def _counted(fault: Fault, bucket: str, key: str) -> str:
    return f"{bucket}/{key}" if fault.per_key else ""


def kind_of(method: str, target: str) -> str:
    """Return the kind of a request, by its first line; the bucket is in the path."""
    path, _, query = target.partition("?")
    named = {name for name, _ in parse_qsl(query, keep_blank_values=True)} if query else set()
    if named & _UPLOADS:
        return "upload"
    inside = "/" in path.strip("/")
    if method == "GET":
        return "get" if inside else "list"
    known = method.lower()
    return known if inside and known in KINDS else "head" if method == "HEAD" else "other"
