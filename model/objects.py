"""Objects: a directory as an object store; conditional writes of one key, on system calls.

Each writer executes one request on one key: it writes a temporary file, makes it durable, publishes it under
the name of the key, flushes the directory, updates the listing index, appends to the change log, and
answers. The content of a file never changes once it is published, so a *version* is the writer that made it.

                    create (link)
     new --> staged ----------------------------> published --> flushed --> indexed --> acknowledged
       stage   |                                     ^   flush_   update_      answer
               | take_lock                           |   directory index
               v          check_condition            | rename
             locked ---------------------> checked --'
               |
               `--> refused  (check_condition; refuse_create from staged)

     kill and power_loss end a writer at work: ended

Every process sees at once how a system call changes the directory, and none sees how it changes the disk.
Two pairs of fields show this: `entry` is the version that the name of the key leads to, `durable` the
one that a flush has made permanent; `synced` tells if the disk holds a writer's bytes and attributes.
`kill` ends one process, whose system calls stay done; after `power_loss` the name leads to any version since
`durable`, and a file that was not synced is torn. (Strict POSIX permits any of these, ext4 as well: the
entries of a directory need not reach the disk before the directory is flushed.)

- Publishing a create is one step, because `link` fails where the name exists. Other writes evaluate their
  condition and rename under a lock of the key, which the system releases when its owner ends.
- Reading a version is one step: the open file stays, whatever is renamed over it.
- Updating the index is one step, a transaction that looks at the directory after it has begun. So the last
  of two transactions records the newer state, whichever process runs it.
- The change log is buffered by its process. `reconcile` runs at every start, beside processes at work.

`ObjectsObserved` is the same protocol in terms of what the directory shows; this machine refines it.
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

    # State: the directory, its index, and what of it is on disk.

    crash = Budget(crashes)
    entry = Id(writers, nobody=True)  # the version that the name of the key leads to
    durable = Id(writers, nobody=True)  # the version whose entry is on disk for certain
    lock = Id(writers, nobody=True)
    index = Id(writers, nobody=True)  # the version that listings show
    unreconciled = Bool()  # since a crash
    last = Int(0, writers)  # the number of versions that were published

    # State: a request, and the process that executes it.

    writer = Role(
        writers,
        rank=Int(0, writers),  # its place in the order of publication; 0 for none
        kind=Enum(*KINDS),
        base=Id(writers, nobody=True),  # the version that a replace names
        over=Id(writers, nobody=True),  # ghost: the version that was replaced
        synced=Bool(),  # bytes and attributes are on disk
        complete=Bool(),  # a reader finds all bytes and all attributes
        event=Enum("none", "buffered", "durable"),
        at=Enum("new", *AT_WORK, "acknowledged", "refused", "ended"),
    )

    # Definitions.

    def everyone(s) -> range:
        return range(s.writers)

    def rank_of(s, version: Number) -> Number:
        return case(*((version == w, s.writer[w].rank) for w in s.everyone()), otherwise=0)

    def is_at_work(s, w: int) -> Truth:
        return any_of(s.writer[w].at == at for at in AT_WORK)

    def is_absent(s, version: Number) -> Truth:
        """A reader answers 404: nothing was ever published, or the newest version is a delete."""
        deleted = [(version == w) & (s.writer[w].kind == "delete") for w in s.everyone()]
        return (version == NOBODY) | any_of(deleted)

    def is_met(s, w: int) -> Truth:
        """The condition of the request holds in the directory."""
        me = s.writer[w]
        is_there = ~s.is_absent(s.entry)
        return case(
            (me.kind == "create", ~is_there),
            (me.kind == "replace", is_there & (s.entry == me.base)),
            otherwise=True,
        )

    def put_entry(s, w: int) -> None:
        """The name of the key leads to the version of this writer, whose lock is released."""
        me = s.writer[w]
        me.over = s.entry
        s.entry = w
        s.last += 1
        me.rank = s.last
        s.lock = pick(s.lock == w, NOBODY, s.lock)
        me.at = "published"

    # Actions: a request.

    @action(w=writer, kind=KINDS)
    def stage(s, w: int, kind: str) -> None:
        """Write the temporary file, which no reader sees. A replace names the version that was read."""
        me = s.writer[w]
        s.require(me.at == "new")
        if kind == "replace":
            s.require(~s.is_absent(s.entry))
            me.base = s.entry
        me.kind = kind
        me.at = "staged"
        me.synced = s.syncs_first()
        me.complete = s.sets_attributes_first()

    def syncs_first(s) -> Truth:
        return Truth.constant(True)

    @without("fsync-before-publish", replaces=syncs_first)
    def never_syncs(s) -> bool:
        return False

    def sets_attributes_first(s) -> Truth:
        return Truth.constant(True)

    @without("attributes-before-publish", replaces=sets_attributes_first)
    def sets_attributes_later(s) -> bool:
        return False

    @action(w=writer)
    def create(s, w: int) -> None:
        """`link` publishes, or fails because the name exists. After a delete the name is free."""
        s.require(s.writer[w].at == "staged", s.writer[w].kind == "create")
        s.require(s.is_met(w))
        s.put_entry(w)

    @without("atomic-create", replaces=create)
    def look_before_create(s, w: int) -> None:
        s.require(s.writer[w].at == "staged", s.writer[w].kind == "create")
        s.require(s.is_met(w))
        s.writer[w].at = "checked"

    @action(w=writer)
    def refuse_create(s, w: int) -> None:
        s.require(s.writer[w].at == "staged", s.writer[w].kind == "create")
        s.require(~s.is_met(w))
        s.writer[w].at = "refused"

    @action(w=writer)
    def take_lock(s, w: int) -> None:
        s.require(s.writer[w].at == "staged", s.writer[w].kind != "create")
        s.require(s.lock == NOBODY)
        s.lock = w
        s.writer[w].at = "locked"

    @without("key-lock", replaces=take_lock)
    def take_no_lock(s, w: int) -> None:
        s.require(s.writer[w].at == "staged", s.writer[w].kind != "create")
        s.writer[w].at = "locked"

    @without("condition-under-lock", replaces=take_lock)
    def look_before_lock(s, w: int) -> None:
        """Evaluate the condition, then wait for the lock; `check_condition` is this second step."""
        s.require(s.writer[w].at == "staged", s.writer[w].kind != "create")
        if s.is_met(w):
            s.writer[w].at = "locked"
        else:
            s.writer[w].at = "refused"

    @action(w=writer)
    def check_condition(s, w: int) -> None:
        """Evaluate the condition under the lock, which a refused request releases."""
        s.require(s.writer[w].at == "locked")
        if s.is_met(w):
            s.writer[w].at = "checked"
        else:
            s.writer[w].at = "refused"
            s.lock = pick(s.lock == w, NOBODY, s.lock)

    @without("condition-under-lock", replaces=check_condition)
    def only_lock(s, w: int) -> None:
        s.require(s.writer[w].at == "locked", s.lock == NOBODY)
        s.lock = w
        s.writer[w].at = "checked"

    @action(w=writer)
    def rename(s, w: int) -> None:
        """Publish over the present entry; a delete removes the entry in the same way."""
        s.require(s.writer[w].at == "checked")
        s.put_entry(w)

    @action(w=writer)
    def flush_directory(s, w: int) -> None:
        s.require(s.writer[w].at == "published")
        s.durable = s.flushed_entry()
        s.writer[w].complete = True
        s.writer[w].at = "flushed"

    def flushed_entry(s) -> Number:
        return s.entry

    @without("directory-flush", replaces=flushed_entry)
    def never_flushed(s) -> Number:
        return s.durable

    @action(w=writer)
    def update_index(s, w: int) -> None:
        s.require(s.writer[w].at == "flushed")
        s.index = s.entry
        s.writer[w].at = "indexed"

    @without("index-after-publish", replaces=update_index)
    def record_own_version(s, w: int) -> None:
        s.require(s.writer[w].at == "flushed")
        s.index = w
        s.writer[w].at = "indexed"

    @action(w=writer)
    def append_event(s, w: int) -> None:
        s.require(s.may_append(w), s.writer[w].event == "none")
        s.writer[w].event = "buffered"

    def may_append(s, w: int) -> Truth:
        return s.writer[w].at == "indexed"

    @without("event-after-publish", replaces=may_append)
    def may_append_early(s, w: int) -> Truth:
        return (s.writer[w].at == "staged") | (s.writer[w].at == "checked")

    @action(w=writer)
    def answer(s, w: int) -> None:
        s.require(s.writer[w].at == "indexed", s.writer[w].event != "none")
        s.writer[w].at = "acknowledged"

    @action
    def flush_log(s) -> None:
        s.require(s.writer.any(event="buffered"))
        for me in s.writer:
            me.event = pick(me.event == "buffered", "durable", me.event)

    # Actions: crashes, and the start after one.

    @action(w=writer)
    def kill(s, w: int) -> None:
        """The page cache survives; the lock and the buffer of the change log do not."""
        s.require(s.is_at_work(w) | (s.writer[w].event == "buffered"))
        s.crash.spend()
        s.end_process(w)
        s.unreconciled = True

    def end_process(s, w: int) -> None:
        me = s.writer[w]
        me.at = pick(s.is_at_work(w), "ended", me.at)
        me.event = pick(me.event == "buffered", "none", me.event)
        s.lock = pick(s.lock == w, NOBODY, s.lock)

    @action
    def power_loss(s) -> None:
        """Every process ends, and the name leads to what the last flush has made permanent."""
        s.entry = s.entry_on_disk()
        s.lose_power()

    def entry_on_disk(s) -> Number:
        return s.durable

    @without("atomic-rename", replaces=entry_on_disk)
    def no_entry_on_disk(s) -> Number:
        return pick(s.durable == s.entry, s.durable, NOBODY)

    @action(w=writer)
    def power_loss_after(s, w: int) -> None:
        """The same, but a rename or link that nothing has flushed was on disk."""
        s.require(s.writer[w].rank > s.rank_of(s.durable))
        s.entry = w
        s.lose_power()

    def lose_power(s) -> None:
        s.crash.spend()
        s.durable = s.entry
        s.unreconciled = True
        for w in s.everyone():
            s.end_process(w)
            s.writer[w].complete = s.writer[w].complete & s.writer[w].synced

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
            me = s.writer[w]
            me.event = pick((s.entry == w) & (me.event == "none"), "durable", me.event)

    @without("reconcile", replaces=repair)
    def repair_nothing(s) -> None:
        """The index and the change log stay as the crash has left them."""

    def reconciled_entry(s) -> Number:
        return s.entry

    @without("flush-before-reconcile", replaces=reconciled_entry)
    def reconciled_without_flush(s) -> Number:
        return s.durable

    # Properties: never bad.

    @invariant(w=writer)
    def one_winner(s, w: int) -> Truth:
        """A create succeeds only where there is no object: of concurrent creates exactly one."""
        me = s.writer[w]
        return implies((me.rank > 0) & (me.kind == "create"), s.is_absent(me.over))

    @invariant(w=writer)
    def cas_exact(s, w: int) -> Truth:
        """A conditional write replaces exactly the version that it names."""
        me = s.writer[w]
        return implies((me.rank > 0) & (me.kind == "replace"), me.over == me.base)

    @invariant(w=writer)
    def untorn(s, w: int) -> Truth:
        """The version that a reader finds has all its bytes and all its attributes."""
        return implies((s.entry == w) & (s.writer[w].kind != "delete"), s.writer[w].complete)

    @invariant(w=writer)
    def ack_durable(s, w: int) -> Truth:
        """An acknowledged version is current, or was replaced since; no crash takes it back."""
        return implies(s.writer[w].at == "acknowledged", s.writer[w].rank <= s.rank_of(s.entry))

    @invariant
    def list_true(s) -> Truth:
        """Once no request is at work and a crash is reconciled, the listing equals the directory."""
        return implies(s.is_quiet(), s.index == s.entry)

    @invariant(w=writer)
    def event_complete(s, w: int) -> Truth:
        """Once no request is at work and a crash is reconciled, the current version has its event."""
        return implies(s.is_quiet() & (s.entry == w), s.writer[w].event != "none")

    @invariant(w=writer)
    def event_true(s, w: int) -> Truth:
        """No event precedes its change: the change is durable."""
        me = s.writer[w]
        return implies(me.event != "none", (me.rank > 0) & (me.rank <= s.rank_of(s.durable)))

    def is_quiet(s) -> Truth:
        return ~s.unreconciled & ~s.writer.any(at=AT_WORK)

    # Properties: sometimes good.

    @always_recoverable
    def served(s) -> Truth:
        """However processes crash, no request waits for ever: no lock is left behind."""
        return s.is_quiet() & (s.lock == NOBODY)

    @reachable(w=writer)
    def refused_in_a_race(s, w: int) -> Truth:
        """A conditional write can be refused because another one came first."""
        me = s.writer[w]
        return (me.at == "refused") & (me.kind == "replace") & (me.base != s.entry)

    @reachable(w=writer)
    def rolled_back(s, w: int) -> Truth:
        """A power loss can take back a version that was visible and not yet acknowledged."""
        return (s.writer[w].at == "ended") & (s.writer[w].rank > s.rank_of(s.entry))

    @may_end
    def done(s) -> Truth:
        return s.is_quiet() & ~s.writer.any(at="new") & ~s.writer.any(event="buffered")

    # Refinement: what the directory shows.

    @refines(
        ObjectsObserved,
        {
            "stage": "staged",
            "create": "created",
            "refuse_create": "create_refused",
            "take_lock": "locked",
            "check_condition": lambda before, after, w: (
                does("refused", w=w) if after.writer[w].at == "refused" else ()
            ),
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
        """Every call is one that the directory allows; a kill shows in it nowhere."""
        return {
            "writer.at": related(all_of(s.shows(w, observed.writer[w].at) for w in s.everyone())),
            "unreconciled": related(implies(observed.unreconciled, s.unreconciled)),
        }

    def shows(s, w: int, observed: Choice) -> Truth:
        """The calls of a writer show its progress; one that was killed seems to be at work."""
        at = s.writer[w].at
        is_alike = any_of((at == each) & (observed == each) for each in SHOWN)
        is_checked = (at == "checked") & (observed == "locked")
        has_ended = (at == "ended") & ~observed.is_in("new", "acknowledged", "refused")
        return is_alike | is_checked | has_ended
