"""Which identity an event is about: what is followed is one identity, and a trace has thousands.

A key names it, or the trace fields do; an event on a blob that is deleted or completed in parts names only
the hash. The bytes of a frame name its identity, so a hash belongs to one identity, and whoever else speaks
of that hash
says which.

    runs, left_out = by_identity(events)        # a trace in memory
    names = Names()                             # a larger one, by its distinct pairs of key and trace fields
    for key, fields in pairs: names.learn(key, fields)
    run = names.of(key, fields)                 # "" for what is about no identity
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from fencepost.impl.store.events import Event
from fencepost.properties.ingest.refinement import IDENTITY

_IDENTITY = re.compile(IDENTITY)
_SHA = re.compile(r"(?:^|[/ =])([0-9a-f]{64})(?=[~./ ]|$)")


@dataclass
class Names:
    """What is known of hashes so far."""

    by_sha: dict[str, str] = field(default_factory=dict)

    def learn(self, key: str, trace_fields: str) -> None:
        identity = _identity(key, trace_fields)
        if identity:
            for sha in _hashes(key, trace_fields):
                self.by_sha.setdefault(sha, identity)

    def of(self, key: str, trace_fields: str) -> str:
        """The identity as it stands in keys; empty for an event that is about none, or about many."""
        found = _identity(key, trace_fields)
        return found or next(
            (self.by_sha[sha] for sha in _hashes(key, trace_fields) if sha in self.by_sha), ""
        )


def by_identity(events: Iterable[Event]) -> tuple[dict[str, list[Event]], int]:
    """The events of each identity, in their order, and how many are about none.

    Every process counts its requests by itself; in a run of several each has a number of its own.
    """
    trace, names = list(events), Names()
    for event in trace:
        names.learn(event.key, event.trace_fields)
    runs: dict[str, list[Event]] = {}
    numbers: dict[tuple[str, int, int], int] = {}
    for event in trace:
        if event.op >= 0:
            asked = (event.process, event.incarnation, event.op)
            event = replace(event, op=numbers.setdefault(asked, len(numbers)))
        runs.setdefault(names.of(event.key, event.trace_fields), []).append(event)
    return runs, len(runs.pop("", []))


def _identity(key: str, trace_fields: str) -> str:
    found = _IDENTITY.search(key) or _IDENTITY.search(trace_fields)
    return found[0] if found else ""


def _hashes(key: str, trace_fields: str) -> list[str]:
    return [*_SHA.findall(key), *_SHA.findall(trace_fields)]
