"""A lock that is an object: the client that creates the key holds the lock, and deletes it to give it back.

Small, and flawed in most first versions. The hard part is not the race for the key, which the store decides,
but the missing reply. A client without an answer may hold the lock. A request that it has given up on may
still create the lock, or delete it, later.

The lock names its owner and carries the number of the take. The owner is how a client finds out what happened
after a missing reply. The number is the condition of a delete: an ETag is a fingerprint of content, so
without it two takes look the same, and giving back the one gives back the other.

A client that returns after a crash and finds a lock of its own does not go on as if it held it: before the
crash it may have sent a delete, and that request may still land. It gives the lock back (the same delete
once more harms no client) and takes it anew, under a number that no request names yet.
"""

from fencepost.model import *
from fencepost.model.store import CREATE, REPLACE, UNKNOWN, Key, Late, Reply, Trouble, restart


class CreateOnlyLock(Machine):
    """Clients that take turns at a lock, lose replies, crash, and come back knowing only their name."""

    clients = Size(2, most=6)
    takes = Size(3, most=30, doc="numbers for takes in one run: keeps the space finite")

    safeguards = {
        "create-only": "the lock is created only where no object stands, instead of looking first",
        "read-back": "a client without an answer, or whose create finds a lock, reads whose it is",
        "give-back-strays": "a lock of its own that a client finds, without a request pending, is given back",
        "conflict-proves-nothing": "409 is retried; it does not mean that a client holds the lock",
        "number-the-takes": "each take has a number of its own in the lock, and only that one is given back",
    }
    assumptions = {
        "honest-create": "the store never creates over an object, not even of two requests at once",
    }
    symmetric = ("clients",)

    lock = Key(owner=Id(clients), take=Int(0, takes - 1), etag="take")
    late = Late(lock, only=("create", "delete-match"))
    trouble = Trouble()  # what is lost, and who crashes, until it is over
    drawn = Int(0, takes)
    at = Each(clients, Enum("outside", "clear", "exists", "unsure", "refused", "holds", "leaving"))
    mine = Each(clients, Int(0, takes - 1))  # the number of the take that it requested, or found

    @action(c=clients, answer=(*CREATE, "conflict", *UNKNOWN))
    def acquire(s, c: int, answer: str) -> None:
        s.require(s.at[c] == s.before_create())
        s.trouble.may(answer)
        take = s.new_take()
        if answer not in ("exists", "conflict"):
            # A request that is refused for good has used up no number.
            s.require(s.drawn < s.takes)
            s.drawn = s.drawn + 1
        reply = s.create(c, answer, take)
        if reply in ("done", "unknown"):
            s.mine[c] = take
        s.at[c] = reply.to(
            done="holds",
            exists=s.after_exists(),
            unknown=s.after_unknown(),
            conflict=s.after_conflict(),
        )

    def before_create(s) -> str:
        return "outside"

    def new_take(s) -> Number | int:
        return s.drawn

    def create(s, c: int, answer: str, take: Number | int) -> Reply:
        return s.lock.create(answer, owner=c, take=take, late=s.late)

    @without("create-only", "honest-create", replaces=create)
    def overwrite(s, c: int, answer: str, take: Number | int) -> Reply:
        if answer not in CREATE:
            return CreateOnlyLock.create(s, c, answer, take)
        s.require(answer == "done")
        return s.lock.put(owner=c, take=take)

    def after_exists(s) -> str:
        return "exists"

    def after_unknown(s) -> str:
        return "unsure"

    def after_conflict(s) -> str:
        return "outside"

    after_look = without("create-only", replaces=before_create)(lambda s: "clear")
    same_take = without("number-the-takes", replaces=new_take)(lambda s: 0)
    exists_is_refusal = without("read-back", replaces=after_exists)(lambda s: "refused")
    unknown_is_failure = without("read-back", replaces=after_unknown)(lambda s: "outside")
    conflict_is_refusal = without("conflict-proves-nothing", replaces=after_conflict)(lambda s: "refused")

    @action(c=clients)
    def look(s, c: int) -> None:
        s.require(s.at[c].is_in("exists", "unsure"))
        s.read(c, "outside")

    @without("create-only", replaces=look)
    def look_before_put(s, c: int) -> None:
        s.require(s.at[c].is_in("exists", "unsure", "outside"))
        s.read(c, "clear")

    def read(s, c: int, absent: str) -> None:
        own = s.lock.holds(owner=c)
        may_use = own & s.may_use(c)
        s.at[c] = case((may_use, "holds"), (own, "leaving"), (s.lock.is_there, "refused"), otherwise=absent)
        s.mine[c] = pick(own, s.lock.take, 0)

    def may_use(s, c: int) -> Truth:
        """The lock is the one that the client has just requested."""
        return (s.at[c] == "unsure") & s.lock.holds(take=s.mine[c])

    @without("give-back-strays", replaces=may_use)
    def may_use_strays(s, c: int) -> bool:
        return True

    @action(c=clients)
    def try_again(s, c: int) -> None:
        s.require(s.at[c] == "refused")
        s.at[c] = "outside"

    @action(c=clients, answer=(*REPLACE, *UNKNOWN))
    def give_back(s, c: int, answer: str) -> None:
        s.require(s.at[c].is_in("holds", "leaving"))
        s.trouble.may(answer)
        reply = s.lock.delete(answer, match=s.mine[c], late=s.late)
        s.at[c] = reply.to(done="outside", refused="outside", unknown="leaving")
        if reply != "unknown":
            s.mine[c] = 0

    @action(c=clients)
    def crash(s, c: int) -> None:
        s.require(s.at[c] != "outside")
        s.trouble.may()
        restart(s, c, "at", "mine")

    @action
    def lands(s) -> None:
        s.late.land()

    @action
    def trouble_ends(s) -> None:
        s.trouble.end()

    @invariant
    def exclusion(s) -> Truth:
        """Never two clients hold the lock."""
        return s.at.count("holds") <= 1

    @step
    def refusal_is_true(before, after: "CreateOnlyLock") -> Truth:
        """A client takes the lock for another's only when it is."""
        refused = [(before.at[c] != "refused") & (after.at[c] == "refused") for c in range(before.clients)]
        return all_of(implies(refused[c], before.theirs(c)) for c in range(before.clients))

    def theirs(s, c: int) -> Truth:
        """True where the lock is there, and not c's."""
        return s.lock.is_there & ~s.lock.holds(owner=c)

    @reachable
    def adopted(s) -> Truth:
        """A lock can be created by a request that its sender, crashed since, knows nothing of."""
        return s.lock.is_there & s.at.all("outside")

    @always_recoverable
    def free(s) -> Truth:
        """Whatever was lost, the lock can be given back once nothing more is."""
        return ~s.lock.is_there & s.at.all("outside")

    @may_end
    def numbers_used_up(s) -> Truth:
        return (s.drawn == s.takes) & ~s.lock.is_there & s.at.all("outside")
