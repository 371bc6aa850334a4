"""Objects: a directory as an object store; conditional writes of one key, on system calls.

Each writer executes one request on one key: it writes a temporary file, makes it durable, publishes it under
the name of the key, flushes the directory, updates the listing index, appends to the change log, and
answers. The content of a file never changes once it is published, so a *version* is the writer that made it.

What a system call does to the directory is visible to every process at once; what it does to the disk is
not. Two pairs of fields show this: `entry` is the version that the name of the key leads to, `durable` the
one that a flush has made permanent; `synced` says whether the disk holds a writer's bytes and attributes.
`kill` ends one process, whose system calls stand; after `power_loss` the name leads to any version since
`durable`, and a file that was not synced is torn. (Strict POSIX permits any of these, ext4 as well: the
entries of a directory need not reach the disk before the directory is flushed.)

- Publishing a create is one step, because `link` fails where the name exists. Other writes evaluate their
  condition and rename under a lock of the key, which the system releases when its owner ends.
- Reading a version is one step: the open file stays, whatever is renamed over it.
- Updating the index is one step, a transaction that looks at the directory after it has begun. So the last
  of two transactions records the newer state, whichever process runs it.
- The change log is buffered by its process. `reconcile` runs at every start, beside processes at work.
"""

from fencepost.model import *
from fencepost.model.objects_observed import ObjectsObserved
from fencepost.model.store import Budget

NOBODY = -1
KINDS = ("create", "replace", "put", "delete")
AT_WORK = ("staged", "locked", "checked", "published", "flushed", "indexed")
SHOWN = ("new", "staged", "locked", "published", "flushed", "indexed", "acknowledged", "refused")


class Objects(Machine):
    """Writers of one key of an object store that is a directory, with kills and power losses."""

    # Constants.

    writers = Size(3, least=2, most=4, doc="requests in one run, each in its own process")
    crashes = Size(1, least=0, most=3, doc="kills and power losses in one run")

    safeguards = {
        "atomic-create": "a create publishes with link, which fails where the name exists",
        "key-lock": "other writes hold a lock of the key from the condition to the rename",
        "condition-under-lock": "the condition is evaluated after the lock is taken, not before",
        "fsync-before-publish": "the body is durable before the name leads to it",
        "attributes-before-publish": "ETag, type and metadata are set before the name leads to the file",
        "directory-flush": "the directory is flushed before the answer",
        "index-after-publish": "the index records what the directory shows, after the rename",
        "event-after-publish": "the event is appended after the change is durable",
        "reconcile": "a start brings index and change log into line with the directory",
        "flush-before-reconcile": "reconcile flushes the directory before it appends events of what it finds",
    }
    assumptions = {
        "atomic-rename": "a crash leaves the old or the new entry of a name, never none and never both",
    }
    symmetric = ("writers",)

    # State.

    crash = Budget(crashes)
    entry = Id(writers, nobody=True)  # the version that the name of the key leads to
    durable = Id(writers, nobody=True)  # the version whose entry is on disk for certain
    lock = Id(writers, nobody=True)
    index = Id(writers, nobody=True)  # the version that listings show
    unreconciled = Bool()  # since a crash
    last = Int(0, writers)  # how many versions were published
    rank = Each(writers, Int(0, writers))  # in the order of publication; 0 for none
    kind = Each(writers, Enum(*KINDS))
    base = Each(writers, Id(writers, nobody=True))  # the version that a replace names
    over = Each(writers, Id(writers, nobody=True))  # ghost: the version that was replaced
    synced = Each(writers, Bool())  # bytes and attributes are on disk
    complete = Each(writers, Bool())  # a reader finds all bytes and all attributes
    event = Each(writers, Enum("none", "buffered", "durable"))
    at = Each(writers, Enum("new", *AT_WORK, "acknowledged", "refused", "ended"))

    # Definitions.

    def everyone(s) -> range:
        return range(s.writers)

    def rank_of(s, version: Number) -> Number:
        return case(*((version == w, s.rank[w]) for w in s.everyone()), otherwise=0)

    def is_absent(s, version: Number) -> Truth:
        """A reader answers 404: nothing was ever published, or the newest version is a delete."""
        return (version == NOBODY) | any_of((version == w) & (s.kind[w] == "delete") for w in s.everyone())

    def is_met(s, w: int) -> Truth:
        """The condition of the request, as the directory stands now."""
        is_there = ~s.is_absent(s.entry)
        return case(
            (s.kind[w] == "create", ~is_there),
            (s.kind[w] == "replace", is_there & (s.entry == s.base[w])),
            otherwise=True,
        )

    def put_entry(s, w: int) -> None:
        s.over[w], s.entry = s.entry, w
        s.last += 1
        s.rank[w] = s.last
        s.lock = pick(s.lock == w, NOBODY, s.lock)
        s.at[w] = "published"

    def syncs(s) -> bool:
        return True

    def completes(s) -> bool:
        return True

    def takes_lock(s) -> bool:
        return True

    def may_append(s, w: int) -> Truth:
        return s.at[w] == "indexed"

    def flushed_entry(s) -> Number:
        return s.entry

    def reconciled_entry(s) -> Number:
        return s.entry

    never_syncs = without("fsync-before-publish", replaces=syncs)(lambda s: False)
    completes_later = without("attributes-before-publish", replaces=completes)(lambda s: False)
    never_locks = without("key-lock", replaces=takes_lock)(lambda s: False)
    appends_early = without("event-after-publish", replaces=may_append)(
        lambda s, w: s.at[w].is_in("staged", "checked")
    )
    reconciles_at_once = without("flush-before-reconcile", replaces=reconciled_entry)(lambda s: s.durable)
    never_flushed = without("directory-flush", replaces=flushed_entry)(lambda s: s.durable)

    # Actions: a request.

    @action(w=writers, kind=KINDS)
    def stage(s, w: int, kind: str) -> None:
        """Write the temporary file, which nobody else sees. A replace names the version that was read."""
        s.require(s.at[w] == "new")
        if kind == "replace":
            s.require(~s.is_absent(s.entry))
            s.base[w] = s.entry
        s.kind[w], s.at[w] = kind, "staged"
        s.synced[w], s.complete[w] = s.syncs(), s.completes()

    @action(w=writers)
    def create(s, w: int) -> None:
        """`link`: publishes, or fails because the name exists. After a delete the name is free."""
        s.require((s.at[w] == "staged") & (s.kind[w] == "create"))
        s.require(s.is_met(w))
        s.put_entry(w)

    @without("atomic-create", replaces=create)
    def look_before_create(s, w: int) -> None:
        s.require((s.at[w] == "staged") & (s.kind[w] == "create"))
        s.require(s.is_met(w))
        s.at[w] = "checked"

    @action(w=writers)
    def refuse_create(s, w: int) -> None:
        s.require((s.at[w] == "staged") & (s.kind[w] == "create"))
        s.require(~s.is_met(w))
        s.at[w] = "refused"

    @action(w=writers)
    def take_lock(s, w: int) -> None:
        s.require((s.at[w] == "staged") & (s.kind[w] != "create"))
        s.at[w] = "locked"
        if s.takes_lock():
            s.require(s.lock == NOBODY)
            s.lock = w

    @without("condition-under-lock", replaces=take_lock)
    def look_before_lock(s, w: int) -> None:
        """Evaluates the condition, then waits for the lock; `check_condition` is this second step."""
        s.require((s.at[w] == "staged") & (s.kind[w] != "create"))
        s.at[w] = pick(s.is_met(w), "locked", "refused")

    @action(w=writers)
    def check_condition(s, w: int) -> None:
        s.require(s.at[w] == "locked")
        met = s.is_met(w)
        s.at[w] = pick(met, "checked", "refused")
        s.lock = pick(~met & (s.lock == w), NOBODY, s.lock)

    @without("condition-under-lock", replaces=check_condition)
    def only_lock(s, w: int) -> None:
        s.require((s.at[w] == "locked") & (s.lock == NOBODY))
        s.lock, s.at[w] = w, "checked"

    @action(w=writers)
    def rename(s, w: int) -> None:
        """Publish over what stands; a delete removes the entry in the same way."""
        s.require(s.at[w] == "checked")
        s.put_entry(w)

    @action(w=writers)
    def flush_directory(s, w: int) -> None:
        s.require(s.at[w] == "published")
        s.durable, s.complete[w], s.at[w] = s.flushed_entry(), True, "flushed"

    @action(w=writers)
    def update_index(s, w: int) -> None:
        s.require(s.at[w] == "flushed")
        s.index, s.at[w] = s.entry, "indexed"

    @without("index-after-publish", replaces=update_index)
    def record_own_version(s, w: int) -> None:
        s.require(s.at[w] == "flushed")
        s.index, s.at[w] = w, "indexed"

    @action(w=writers)
    def append_event(s, w: int) -> None:
        s.require(s.may_append(w) & (s.event[w] == "none"))
        s.event[w] = "buffered"

    @action(w=writers)
    def answer(s, w: int) -> None:
        s.require((s.at[w] == "indexed") & (s.event[w] != "none"))
        s.at[w] = "acknowledged"

    @action
    def flush_log(s) -> None:
        s.require(s.event.any("buffered"))
        for w in s.everyone():
            s.event[w] = pick(s.event[w] == "buffered", "durable", s.event[w])

    # Actions: crashes, and the start after one.

    @action(w=writers)
    def kill(s, w: int) -> None:
        """The page cache survives; the lock and the buffer of the change log do not."""
        s.require(s.at[w].is_in(*AT_WORK) | (s.event[w] == "buffered"))
        s.crash.spend()
        s.end_process(w)
        s.unreconciled = True

    def end_process(s, w: int) -> None:
        s.at[w] = pick(s.at[w].is_in(*AT_WORK), "ended", s.at[w])
        s.event[w] = pick(s.event[w] == "buffered", "none", s.event[w])
        s.lock = pick(s.lock == w, NOBODY, s.lock)

    @action
    def power_loss(s) -> None:
        """Every process ends, and the name leads to what the last flush has made permanent."""
        s.entry = s.entry_on_disk()
        s.lose_power()

    def entry_on_disk(s) -> Number:
        return s.durable

    no_entry = without("atomic-rename", replaces=entry_on_disk)(
        lambda s: pick(s.durable == s.entry, s.durable, NOBODY)
    )

    @action(w=writers)
    def power_loss_after(s, w: int) -> None:
        """The same, but a rename or link that nothing has flushed was on disk."""
        s.require(s.rank[w] > s.rank_of(s.durable))
        s.entry = w
        s.lose_power()

    def lose_power(s) -> None:
        s.crash.spend()
        s.durable, s.unreconciled = s.entry, True
        for w in s.everyone():
            s.end_process(w)
            s.complete[w] = s.complete[w] & s.synced[w]

    @action
    def reconcile(s) -> None:
        s.require(s.unreconciled)
        s.repair()
        s.unreconciled = False

    def repair(s) -> None:
        """In one transaction of the index; an event that a crash has lost is appended again. The version that
        reconcile finds may be one whose writer has not flushed it yet.
        """
        s.durable = s.reconciled_entry()
        s.index = s.entry
        for w in s.everyone():
            s.event[w] = pick((s.entry == w) & (s.event[w] == "none"), "durable", s.event[w])

    no_repair = without("reconcile", replaces=repair)(lambda s: None)

    # Properties: never bad.

    @invariant
    def one_winner(s) -> Truth:
        """A create succeeds only where nothing stands: of concurrent creates exactly one."""
        created = [(s.rank[w] > 0) & (s.kind[w] == "create") for w in s.everyone()]
        return all_of(implies(created[w], s.is_absent(s.over[w])) for w in s.everyone())

    @invariant
    def cas_exact(s) -> Truth:
        """A conditional write replaces exactly the version that it names."""
        replaced = [(s.rank[w] > 0) & (s.kind[w] == "replace") for w in s.everyone()]
        return all_of(implies(replaced[w], s.over[w] == s.base[w]) for w in s.everyone())

    @invariant
    def untorn(s) -> Truth:
        """What a reader finds has all its bytes and all its attributes."""
        return all_of(implies((s.entry == w) & (s.kind[w] != "delete"), s.complete[w]) for w in s.everyone())

    @invariant
    def ack_durable(s) -> Truth:
        """What was acknowledged stands, or was replaced since; no crash takes it back."""
        newest = s.rank_of(s.entry)
        return all_of(implies(s.at[w] == "acknowledged", s.rank[w] <= newest) for w in s.everyone())

    @invariant
    def list_true(s) -> Truth:
        """Once nobody is at work and a crash is reconciled, the listing equals the directory."""
        return implies(s.is_quiet(), s.index == s.entry)

    @invariant
    def event_complete(s) -> Truth:
        """Once nobody is at work and a crash is reconciled, the version that stands has its event."""
        return all_of(implies(s.is_quiet() & (s.entry == w), s.event[w] != "none") for w in s.everyone())

    @invariant
    def event_true(s) -> Truth:
        """No event precedes its change: the change is durable."""
        safe = s.rank_of(s.durable)
        return all_of(
            implies(s.event[w] != "none", (s.rank[w] > 0) & (s.rank[w] <= safe)) for w in s.everyone()
        )

    def is_quiet(s) -> Truth:
        return ~s.unreconciled & ~any_of(s.at[w].is_in(*AT_WORK) for w in s.everyone())

    # Properties: sometimes good.

    @always_recoverable
    def served(s) -> Truth:
        """However processes crash, nobody waits for ever: no lock is left behind."""
        return s.is_quiet() & (s.lock == NOBODY)

    @reachable
    def refused_in_a_race(s) -> Truth:
        """A conditional write can be refused because another one came first."""
        return any_of(
            (s.at[w] == "refused") & (s.kind[w] == "replace") & (s.base[w] != s.entry) for w in s.everyone()
        )

    @reachable
    def rolled_back(s) -> Truth:
        """A power loss can take back a version that was visible and not yet acknowledged."""
        return any_of((s.at[w] == "ended") & (s.rank[w] > s.rank_of(s.entry)) for w in s.everyone())

    @may_end
    def done(s) -> Truth:
        return s.is_quiet() & ~s.at.any("new") & ~s.event.any("buffered")

    # Refinement: what the directory shows.

    @refines(
        ObjectsObserved,
        {
            "stage": "staged",
            "create": "created",
            "refuse_create": "create_refused",
            "take_lock": "locked",
            "check_condition": lambda before, after, w: does("refused", w=w, when=after.at[w] == "refused"),
            "rename": "renamed",
            "flush_directory": "flushed",
            "update_index": "indexed",
            "answer": "acknowledged",
            "power_loss": "power_lost",
            "power_loss_after": "power_lost_after",
            "reconcile": "reconciled",
        },
        writers=writers,
    )
    def observed(s, observed: ObjectsObserved) -> dict[str, object]:
        """Every call is one that the directory allows; a kill is seen by nobody."""
        return {
            "at": related(all_of(s.shows_progress(w, observed.at[w]) for w in s.everyone())),
            "unreconciled": related(implies(observed.unreconciled, s.unreconciled)),
        }

    def shows_progress(s, w: int, observed: Choice) -> Truth:
        """The calls of a writer show its progress; one that was killed seems to be at work."""
        is_alike = any_of((s.at[w] == at) & (observed == at) for at in SHOWN)
        is_checked = (s.at[w] == "checked") & (observed == "locked")
        has_ended = (s.at[w] == "ended") & ~observed.is_in("new", "acknowledged", "refused")
        return is_alike | is_checked | has_ended
