'''The object store as pieces of a machine, so that a protocol's model says only what is its own.

    from fencepost.model import Each, Enum, Id, Machine, Size, Truth, action, invariant, may_end, pick
    from fencepost.model.store import CREATE, UNKNOWN, Budget, Key, Late

    class Election(Machine):
        """Whoever creates the key leads. Who was not told, or is told that it exists, looks whose it is."""

        candidates = Size(2)
        leader = Key(by=Id(candidates))             # absent, or an object with these parts
        late = Late(leader)                         # one request that may still land
        faults = Budget(2)                          # how much may go wrong in one run
        at = Each(candidates, Enum("asks", "leads", "follows", "unsure"))

        @action(c=candidates, answer=(*CREATE, *UNKNOWN))
        def ask(s, c: int, answer: str) -> None:
            s.require(s.at[c] == "asks")
            s.faults.spend(answer)
            told = s.leader.create(answer, by=c, late=s.late)
            s.at[c] = told.to(done="leads", exists="unsure", unknown="unsure")

        @action(c=candidates)
        def look(s, c: int) -> None:
            s.require(s.at[c] == "unsure")
            mine = s.leader.holds(by=c)
            s.at[c] = pick(mine, "leads", pick(s.leader.is_there, "follows", "asks"))

        @action
        def lands(s) -> None:
            s.late.land()

        @invariant
        def one_leads(s) -> Truth:
            """Never two candidates lead."""
            return s.at.count("leads") <= 1

        @may_end
        def decided(s) -> Truth:
            return ~s.at.any("asks") & ~s.at.any("unsure")

The pieces (each a field; put it into `Each` for many keys, or a late request for each process)

    Key(part=..., etag=...)   one key: absent, or an object of a few parts; create, replace, put, delete
    VersionedKey(n, part=...) the same in a versioned bucket: n versions, delete markers, version ids
    Late(key)                 a request whose sender has given up on it and that may still land
    Budget(n)                 how often something may go wrong in one run: keeps the space small
    Trouble()                 how long: any number of faults until it ends, and then recovery unaided
    restart(s, p, "at", ...)  a crash: these fields of process p begin anew, everything else stays

One step, or several? A request is issued, lands and is answered; between these, others act. Yet they
are one step here, and nothing is lost: only the landing touches anything that another process can see.
Issuing it any time before, and hearing the answer any time after, changes only what its own process
knows, so each can be moved next to the landing. What cannot be moved is said by the `answer`, a parameter
of the action, so that a counterexample tells what the store did:

    done                      took effect, and the sender is told
    exists changed missing    refused (412, 412, 404), and the sender is told; nothing happened
    conflict throttled        409, 503: did not take effect, and the sender is told so
    reply-lost                took effect, and the sender is not told
    lost                      never took effect, and the sender is not told
    late                      the sender has given up, the request has not: it may land at any later
                              step (`Late.land`), also after its sender crashed and restarted

A sender cannot tell the last three apart: it is told `unknown`. A refusal whose reply is lost leaves the
very same state as `lost`, and a late request that never lands the same as `lost`, so neither has a step of
its own. A crash with a request under way is `late` (or one of the others), and then the crash.

A read is a look at the key: it has no effect, so losing its answer is the same as not having asked. A
protocol that reads twice where it matters has two steps for it.

An ETag is a fingerprint of content (S3 answers A, B, A with the first ETag again): `etag` names the
part that stands for it, and whether that part can come back is the protocol's own business.

What this leaves out: lists (read the keys one by one, in as many steps as the list has pages), multipart
uploads (an upload that was overtaken is a flag of the protocol), stores that break their promises.
'''

from fencepost.model.store.answers import (
    CREATE,
    DELETE,
    FAULTS,
    NOT_NOW,
    PUT,
    REPLACE,
    UNKNOWN,
    Told,
)
from fencepost.model.store.faults import Budget, Trouble, restart
from fencepost.model.store.keys import Key, KeyView
from fencepost.model.store.late import Late, LateView
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
    "Told",
    "Trouble",
    "VersionedKey",
    "VersionedKeyView",
    "restart",
]
