"""Bring the listing index in line with the directory while requests are served.

Two passes find the keys whose rows differ: over the directory, then over the index. A difference is only a
hint. Each key is then recorded as a write records it, by a transaction that looks at the directory again, so
a concurrent request on the same key loses nothing. This also restores an event that a crash has lost: its
row was lost too, or the outbox still has it. Objects that are older than index and log get events too, whose
times are not those of the objects: then the log begins with this comparison.
"""

import itertools
from dataclasses import dataclass

from fencepost.impl.objects.buckets import Buckets


@dataclass(frozen=True, slots=True)
class Reconciled:
    buckets: int
    differences: int
    """Keys that were recorded again; requests that worked meanwhile may have caused some."""


def reconcile(buckets: Buckets, *, unless_since_ns: int | None = None) -> Reconciled | None:
    """One process at a time. None when another has begun and ended it after `unless_since_ns`."""
    index = buckets.index
    with index.exclusively("reconciling"):
        if unless_since_ns is not None and index.reconciled_ns() > unless_since_ns:
            return None
        began_ns, suspicions = buckets.env.now_ns(), index.suspicions()
        has_history = index.settled_ns() > 0
        if not index.reconciled_ns():
            newest_ns = buckets.log.newest_ns()
            index.advance(newest_ns)
            has_history = has_history or newest_ns > 0
        names = {name for name, _ in buckets.all()} | set(index.buckets())
        differences, older = 0, False
        for name in sorted(names):
            store = buckets.store(name)
            for key in buckets.safeguards.reconcile(store.differences()):
                found = None if has_history else store.stat(key)
                older = older or (found is not None and found.st_mtime_ns < began_ns)
                if not differences:  # there may be more, which listings must not miss meanwhile
                    index.suspect_until_compared()
                store.record(key)
                differences += 1
            for key, version in itertools.chain(store.version_differences(), store.upload_differences()):
                store.record(key, versions=frozenset({version}))
                differences += 1
        if older:
            buckets.log.begin(began_ns)
        index.trust(began_ns, suspicions)
        buckets.log.flush(index)
    return Reconciled(len(names), differences)
