'''The object store as pieces of a machine, so that a protocol's model contains only the protocol.

    from fencepost.model import Each, Enum, Id, Machine, Size, Truth, action, case, invariant, may_end
    from fencepost.model.store import CREATE, UNKNOWN, Budget, Key, Late

    class Election(Machine):
        """The creator of the key leads. A loser, or a candidate without an answer, reads the key."""

        candidates = Size(2)
        leader = Key(by=Id(candidates))             # absent, or an object with these parts
        late = Late(leader)                         # one request that may still land
        faults = Budget(2)                          # how many faults one run may have
        at = Each(candidates, Enum("runs", "leads", "follows", "unsure"))

        @action(c=candidates, answer=(*CREATE, *UNKNOWN))
        def create(s, c: int, answer: str) -> None:
            s.require(s.at[c] == "runs")
            s.faults.spend(answer)
            reply = s.leader.create(answer, by=c, late=s.late)
            s.at[c] = reply.to(done="leads", exists="unsure", unknown="unsure")

        @action(c=candidates)
        def look(s, c: int) -> None:
            s.require(s.at[c] == "unsure")
            s.at[c] = case((s.leader.holds(by=c), "leads"), (s.leader.is_there, "follows"), otherwise="runs")

        @action
        def lands(s) -> None:
            s.late.land()

        @invariant
        def one_leads(s) -> Truth:
            """Never two candidates lead."""
            return s.at.count("leads") <= 1

        @may_end
        def decided(s) -> Truth:
            return ~s.at.any("runs") & ~s.at.any("unsure")

The pieces (each a field; put it into `Each` for many keys, or a late request for each process)

    Key(part=..., etag=...)   one key: absent, or an object of a few parts; create, replace, put, delete
    VersionedKey(n, part=...) the same in a versioned bucket: n versions, delete markers, version ids
    Late(key)                 a request whose sender has given up on it and that may still land
    Budget(n)                 how many faults one run may have: keeps the space small; None is no bound
    Trouble()                 any number of faults until it ends, and then recovery unaided
    restart(s, p, "at", ...)  a crash: these fields of process p begin anew, everything else stays

One step, or several? A request is issued, lands and is answered; between these, others act. Yet they are one
step here without loss: only the landing touches anything that another process can see. Issuing it earlier and
receiving the answer later change only what its own process knows, so each can be moved next to the landing.
The `answer`, a parameter of the action, carries what cannot be moved, and a counterexample shows it:

    done                      applied, and the sender knows it
    exists changed missing    refused (412, 412, 404), and the sender knows it; nothing happened
    conflict throttled        409, 503: not applied, and the sender knows it
    reply_lost                applied, and the sender gets no answer
    request_lost              never applied, and the sender gets no answer
    late                      the sender has given up, the request has not: it may land at any later
                              step (`Late.land`), also after its sender crashed and restarted

A sender cannot distinguish the last three: its reply is `unknown`. A refusal whose reply is lost leaves the
same state as `request_lost`, and so does a late request that never lands, so neither has a step of its own. A
crash with a request under way is `late` (or one of the others), and then the crash.

A read is a look at the key: it has no effect, so losing its answer equals not having sent it. A protocol
that reads twice where it matters has two steps for it.

An ETag is a fingerprint of content (S3 answers A, B, A with the first ETag again): `etag` names the part that
represents it, and the protocol decides if that part can come back.

Left out: lists (read the keys one by one, in as many steps as the list has pages), multipart uploads (an
upload that was overtaken is a flag of the protocol), stores that break their promises.
'''

from fencepost.model.store.keys import Key, KeyView
from fencepost.model.store.late import Late, LateView
from fencepost.model.store.requests import (
    CREATE,
    DELETE,
    FAULTS,
    NOT_NOW,
    PUT,
    REPLACE,
    UNKNOWN,
    Budget,
    Reply,
    Trouble,
    restart,
)
from fencepost.model.store.versions import VersionedKey, VersionedKeyView

__all__ = [
    "CREATE",
    "DELETE",
    "FAULTS",
    "NOT_NOW",
    "PUT",
    "REPLACE",
    "UNKNOWN",
    "Budget",
    "Key",
    "KeyView",
    "Late",
    "LateView",
    "Reply",
    "Trouble",
    "VersionedKey",
    "VersionedKeyView",
    "restart",
]
