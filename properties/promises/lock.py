"""Each object of the target is a lock while it exists: one holder, no holder robbed, released in the end.

The holder is the process that wrote the object, from then until it deletes it, replaces it by another
state, comes to its end, or crashes. A lease ends at the time that its body names in a field `expires`,
`until`, `deadline` or similar (seconds or nanoseconds since 1970), or `ttl` seconds after it was written. A
violation is

- a write or delete of another process while the holder is alive and its lease has not ended: it is robbed.
- a holder that has come to its end, without a crash, and has left its lock, which never expires.
- a lock that was requested and never held, when every process has ended.

`released=no` is for locks that are kept, as by an elected leader.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from fencepost.properties.promises.contents import parsed
from fencepost.properties.promises.observation import CHANGES, CRASH, END, REFUSED, WRITE, Observation
from fencepost.properties.promises.promise import Promise

EXPIRES = ("expires", "expiry", "expire", "until", "deadline", "valid_until", "lease_until")
"""Beginnings of the fields that name the end of a lease."""
FREE = ("", "free", "released", "unlocked", "none", "null", "{}")


@dataclass(frozen=True, slots=True)
class Held:
    process: str
    since_ns: int
    until_ns: int | None


class Lock(Promise):
    kind = "lock"
    meaning = "a lock has one holder, no holder is robbed, and it is released or expires in the end"
    options: ClassVar[Mapping[str, str]] = {
        "ttl": "seconds after which a lock may be taken from its holder",
        "released": "no: the holder keeps it when it ends, as a leader does (default: yes)",
    }

    def __init__(self, target: str, given: Mapping[str, str] | None = None) -> None:
        super().__init__(target, given)
        self._ttl_ns = self.seconds("ttl")
        self._kept = self.given.get("released", "yes") == "no"
        self.given.setdefault("released", "yes")
        self.flag("released")
        if not given or "released" not in given:
            del self.given["released"]
        self._held: dict[str, Held] = {}
        self._gone: set[str] = set()
        """Processes that have come to their end, or crashed."""
        self._left: dict[str, str] = {}
        """By key: the holder that ended without a crash and left its lock."""
        self._asked: dict[str, str] = {}
        """By key that was never held: a process whose request for it was refused."""
        self._ever: set[str] = set()

    def begin(self, objects: Mapping[str, tuple[bytes | None, str]]) -> None:
        self._ever.update(key for key in objects if self.target.holds(key))

    @property
    def uses_time(self) -> bool:
        return self._ttl_ns is not None or any(held.until_ns is not None for held in self._held.values())

    def orders(self, seen: Observation) -> bool:
        return seen.kind in (END, CRASH) or (bool(seen.asked) and self.target.holds(seen.key))

    def observe(self, seen: Observation) -> str | None:
        if seen.kind in (END, CRASH):
            return self._end(seen)
        if not self.target.holds(seen.key):
            return None
        if seen.kind == REFUSED:
            if seen.condition == "absent" and seen.outcome != "exists" and seen.key not in self._ever:
                self._asked.setdefault(seen.key, seen.process)
            return None
        return self._change(seen) if seen.kind in CHANGES else None

    def _change(self, seen: Observation) -> str | None:
        held = self._held.pop(seen.key, None)
        self._left.pop(seen.key, None)
        robbed = (
            held is not None
            and held.process != seen.process
            and held.process not in self._gone
            and (held.until_ns is None or seen.t_ns < held.until_ns)
        )
        if seen.kind == WRITE:
            self._ever.add(seen.key)
            self._asked.pop(seen.key, None)
            if not _is_free(seen.body):
                self._held[seen.key] = Held(seen.process, seen.t_ns, self._until(seen))
                self._gone.discard(seen.process)
        if not robbed or held is None:
            return None
        how = "wrote over" if seen.kind == WRITE else "deleted"
        left = ""
        if held.until_ns is not None:
            left = f", {(held.until_ns - seen.t_ns) / 1e9:.10g} s before its lease ends"
        return f"{seen.process} {how} the lock {seen.key} of {held.process}, which still runs{left}"

    def _until(self, seen: Observation) -> int | None:
        named = None if seen.body is None else expiry_in(seen.body)
        if named is not None:
            return named
        return None if self._ttl_ns is None else seen.t_ns + self._ttl_ns

    def _end(self, seen: Observation) -> str | None:
        if seen.strand != seen.process:
            return None
        self._gone.add(seen.process)
        for key, held in self._held.items():
            if held.process == seen.process and seen.kind == END:
                self._left[key] = seen.process
        return None

    def finish(self, *, whole: bool) -> str | None:
        for key, process in sorted(self._left.items()):
            held = self._held.get(key)
            if not self._kept and held is not None and held.until_ns is None:
                return f"{process} has come to its end, and the lock {key} is still its own"
        if whole:
            for key, process in sorted(self._asked.items()):
                if key not in self._ever:
                    return f"{process} went away without the lock {key}, which nobody ever held"
        return None

    def state(self) -> Hashable:
        return (
            tuple(sorted((key, one.process, one.until_ns or -1) for key, one in self._held.items())),
            tuple(sorted(self._gone)),
            tuple(sorted(self._left.items())),
            tuple(sorted(self._asked.items())),
            tuple(sorted(self._ever)),
        )


def expiry_in(body: bytes) -> int | None:
    """Return the end of a lease that a body names, in nanoseconds since 1970."""
    found = parsed(body)
    if not isinstance(found, dict):
        return None
    for name, value in found.items():
        is_time = isinstance(value, int | float) and not isinstance(value, bool)
        if is_time and str(name).lower().startswith(EXPIRES):
            for scale in (1, 10**3, 10**6, 10**9):
                if 10**17 < value * scale < 10**19:
                    ends: int = round(value * scale)
                    return ends
    return None


def _is_free(body: bytes | None) -> bool:
    """Return True if a body says that the lock is free."""
    if body is None:
        return False
    found = parsed(body)
    if isinstance(found, dict):
        words = [found.get(name) for name in ("state", "status", "owner", "holder", "held_by")]
        return any(isinstance(word, str) and word.lower() in FREE for word in words) or not found
    return found is None or str(found).strip().lower() in FREE
