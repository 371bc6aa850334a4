"""Observations of a run, by which promises judge: a row for each effect, look, note and end.

An audit makes observations of its steps, and the replay of a recorded trace makes them of its events. They
say what happened in the store and what the process learnt of it, whichever SDK sent the request. Bodies may
be missing in a recorded trace; a promise then decides by hashes, or not at all.

    write     an object got this content (a put, a completed upload, a copy). Both `body` and `digest` are of
              the new content.
    delete    an object went. Deleting what is not there is none.
    read      a process learnt the object's present content, or with `exists` false that there is none.
    look      a process learnt the ETag alone (head).
    list      a process learnt which of the keys with this prefix exist: `listed`.
    refused   a write or delete changed nothing; `outcome` says why.
    sent      a process gave up waiting; the request may land later, with the same `number`.
    note      a process noted `value` under the topic `key`.
    end       a process came to its end, with `failed` by an exception.
    crash     a process lost its memory.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

WRITE, DELETE, READ, LOOK, LIST, REFUSED, SENT = "write", "delete", "read", "look", "list", "refused", "sent"
NOTE, END, CRASH = "note", "end", "crash"
CHANGES = frozenset({WRITE, DELETE})


@dataclass(frozen=True, slots=True)
class Observation:
    """One row; fields that do not apply are empty."""

    kind: str
    process: str
    """The process; its threads have the same."""
    strand: str = ""
    """The process, or the thread of it."""
    incarnation: int = 0
    key: str = ""
    """Of the object; of a listing its prefix; of a note its topic."""
    number: int = -1
    """Ties a request that lands late to the moment when it was sent."""
    outcome: str = ""
    """The store's outcome, see `impl.store.requests`."""
    acknowledged: bool = True
    """True if the process received this outcome."""
    asked: str = ""
    """Of a write, a delete and a refusal: `write` or `delete`, whatever came of it."""
    condition: str = ""
    """`absent`, `matches` or `anything`."""
    exists: bool = True
    """Of a look: there is such an object."""
    body: bytes | None = None
    """Content written or read; None where it is not known."""
    digest: str = ""
    """Identifies the content, also where `body` is not known."""
    etag: str = ""
    listed: tuple[str, ...] = ()
    value: Any = None
    """The value of a note, or the result of a process."""
    failed: bool = False
    t_ns: int = 0
    """True time."""
    late: bool = False
    """The request landed after its sender gave up."""


def digest_of(body: bytes) -> str:
    """Return the short hash by which contents are compared."""
    return sha256(body).hexdigest()[:16]
