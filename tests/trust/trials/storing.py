"""Requests that the programs of this folder share: repeat reads, write once, and give up on a lost reply."""

import json

from fencepost.impl.store import ANYTHING, Outcome


class Lost(Exception):
    """The reply to a write was lost and the program gives up."""


def known(ask, *args, **options):
    """Repeat a read or an unconditional write until its reply arrives."""
    while (reply := ask(*args, **options)).outcome is Outcome.UNKNOWN:
        pass
    return reply


def load(store, key, default=None):
    reply = known(store.get, key)
    return (json.loads(reply.body), reply.info.etag) if reply.done else (default, None)


def dump(value):
    return json.dumps(value, sort_keys=True).encode()


def put(store, key, value, when):
    """Return True when the write was applied, False when it was refused; raise `Lost` without a reply."""
    outcome = store.put(key, dump(value), when=when).outcome
    if outcome is Outcome.UNKNOWN:
        raise Lost
    return outcome is Outcome.DONE


def keys(store, prefix):
    return [found.key for found in known(store.list, prefix).objects]


def drop(store, key):
    known(store.delete, key, when=ANYTHING)
