"""A cursor: the durable position up to which the readers of a log have finished everything.

All readers of a log that resume use it, and `impl/cursor` is its code. The log is in the order of positions,
and a position is a time and an offset within that time: entry i has the time i // 2, so the entries 0 and 1
share one. `saved` counts the entries that the cursor has passed: 0 is before the first. Entries may become
visible late, after entries of later positions; the log may lose its oldest entries. A reader takes entries
in their order, finishes them in any, and saves by compare-and-swap. Readers of one cursor may overlap, crash,
or be paused for any time.

    a reader      idle --begin--> reads --take, finish, save--> reads --end, crash--> idle
                  reads --read_again--> reads                  it lost a swap, within its generation
                  reads --find_rewound--> idle                 the cursor was rewound: its pass begins anew
                  reads --record_loss, skip_lost--> reads      the log has lost what it would take next

    the cursor    saved --save--> further on --rewind--> the target, if that is earlier; the next generation

A rewind has entries worked on again, for instance for something that was added to what the reader works for.
It begins a new generation of the cursor, because "the furthest reader is right" is true within one generation
only.

Two designs against late entries: a pass ends before the clock by as much as an entry may be late
(`overlap=0`), or it begins that many entries and one more before the position (`overlap=late + 1`). In both
it takes nothing newer than its beginning: a pass that follows the log to its end, however long that takes,
moves the position on from late entries behind it that it has not seen.
"""

from fencepost.model import *
from fencepost.model.lifecycle_observed import LifecycleObserved
from fencepost.model.store import Budget, restart


class Cursor(Machine):
    """Readers of one log that share one durable position."""

    # Constants.

    readers = Size(2, most=3, doc="processes that use the same cursor")
    entries = Size(2, most=6, doc="entries of the log")
    late = Size(1, least=0, most=2, doc="entries of later positions that may be visible before one")
    overlap = Size(0, least=0, most=3, doc="entries before its position that a pass begins with again")
    rewinds = Size(1, least=0, most=2, doc="times that entries must be worked on again")
    losses = Size(1, least=0, most=3, doc="entries that the log may lose, oldest first")
    troubles = Size(1, least=0, most=2, doc="crashes and lost replies in one run")

    safeguards = {
        "first-unfinished": "the position is before the first unfinished entry, however far others are",
        "strict-past": "a pass begins strictly past the position",
        "whole-positions": "positions are compared as a whole, not by their times alone",
        "late-entries": "a pass ends, or begins, by as much earlier as an entry may be late",
        "fixed-cutoff": "a pass takes nothing that is newer than its beginning",
        "compare-and-swap": "the cursor is saved only over what was read",
        "forward": "a reader that lost a swap saves nothing that is behind the cursor",
        "generations": "a reader that finds the cursor rewound begins its pass anew",
        "rewind-to-the-earlier": "a rewind moves the cursor to its target only if that is earlier",
        "loss-recorded": "that the log begins after the position is recorded before the cursor passes it",
    }
    assumptions = {
        "bounded-lateness": "an entry is visible before more than `late` later ones could be",
        "shown-start": "the log shows where it begins",
    }
    symmetric = ("readers",)

    # State: the log.

    clock = Int(0, entries + late + 1)  # entry i exists when past i
    visible = Flags(entries)
    start = Int(0, entries)  # the log begins with this entry
    done = Flags(entries)

    # State: the cursor.

    saved = Int(0, entries)
    generation = Int(0, rewinds)
    lost = Int(0, entries)  # recorded: entries before this one may be lost

    # State: what may still go wrong.

    trouble = Budget(troubles)
    loss = Budget(losses)

    # State: the readers.

    reader = Role(
        readers,
        at=Enum("idle", "reads"),
        current=Bool(),  # it has the ETag of the cursor as it is
        seen=Int(0, rewinds),  # the generation that it read
        begun=Int(0, entries),  # the position that it read
        until=Int(0, entries + late + 1),  # the pass ends before this entry
        next=Int(0, entries),  # the entry that it takes next
        taken=Flags(entries),  # and has not finished
        position=Int(0, entries),  # up to which it has finished, saved or not
    )

    # Definitions: how a pass begins and ends.

    def cutoff(s) -> Number:
        """A pass that begins now ends before this entry."""
        return most([s.clock - (s.late if s.overlap == 0 else 0), 0])

    @without("late-entries", replaces=cutoff)
    def no_cutoff(s) -> Number:
        return s.clock

    def limit(s, r: int) -> Number:
        """The pass of a reader ends before this entry."""
        return s.reader[r].until

    @without("fixed-cutoff", replaces=limit)
    def moving_limit(s, r: int) -> Number:
        return s.cutoff()

    def back(s) -> int:
        """The number of entries before its position with which a pass begins again."""
        return s.overlap

    @without("late-entries", replaces=back)
    def not_back(s) -> int:
        return 0

    def first(s) -> Number:
        """The entry with which a pass begins."""
        return most([s.saved - s.back(), 0])

    @without("strict-past", replaces=first)
    def first_with_the_position(s) -> Number:
        return most([s.saved - s.back() - 1, 0])

    @without("whole-positions", replaces=first)
    def first_of_a_later_time(s) -> Number:
        return pick(s.saved == 0, 0, least([(s.saved + 1) // 2 * 2, s.entries]))

    # Definitions: what a reader may do.

    def may_save(s, r: int) -> Truth:
        return s.reader[r].current

    @without("compare-and-swap", replaces=may_save)
    def may_save_blindly(s, r: int) -> bool:
        return True

    def is_same(s, r: int) -> Truth:
        """The cursor has the generation that the reader read."""
        return s.reader[r].seen == s.generation

    @without("generations", replaces=is_same)
    def is_taken_as_same(s, r: int) -> bool:
        return True

    def after_refusal(s, r: int) -> Number:
        """The position of a reader that has read the cursor again, of the same generation."""
        return most([s.reader[r].position, s.saved])

    @without("forward", replaces=after_refusal)
    def after_refusal_unchanged(s, r: int) -> Number:
        return s.reader[r].position

    def reached(s, r: int, i: int) -> Number:
        """The position of a reader that has just finished entry i: before its first unfinished one."""
        me = s.reader[r]
        unfinished = [(me.taken.has(j), j) for j in range(s.entries)]
        return most([me.position, case(*unfinished, otherwise=me.next)])

    @without("first-unfinished", replaces=reached)
    def reached_furthest(s, r: int, i: int) -> Number:
        return most([s.reader[r].position, i + 1])

    def rewound(s, target: int) -> Number:
        """The position of the cursor after a rewind."""
        return least([s.saved, target])

    @without("rewind-to-the-earlier", replaces=rewound)
    def rewound_anyway(s, target: int) -> int:
        return target

    @without("whole-positions", replaces=rewound)
    def rewound_by_time(s, target: int) -> Number:
        is_later = (s.saved > 0) & ((s.saved + 1) // 2 > target // 2 + 1)
        return pick(is_later, least([s.saved, target]), s.saved)

    # Definitions: losses.

    def shows_start(s) -> Truth:
        return Truth.constant(True)

    @without("shown-start", replaces=shows_start)
    def hides_start(s) -> bool:
        return False

    def may_skip(s) -> Truth:
        """The loss is recorded."""
        return s.lost >= s.start

    @without("loss-recorded", replaces=may_skip)
    def may_skip_at_once(s) -> bool:
        return True

    @without("shown-start", replaces=may_skip)
    def may_skip_unawares(s) -> bool:
        return True

    def is_in_time(s) -> Truth:
        """Every entry is visible that would be too late in the next tick."""
        return all_of(s.visible.has(i) | (s.clock < i + 1 + s.late) for i in range(s.entries))

    @without("bounded-lateness", replaces=is_in_time)
    def is_any_time(s) -> bool:
        return True

    # Actions: the log.

    @action
    def time_passes(s) -> None:
        s.require(s.clock < s.entries + s.late + 1, s.is_in_time())
        s.clock += 1

    @action(i=entries)
    def appear(s, i: int) -> None:
        s.require(s.clock > i, ~s.visible.has(i))
        s.visible = s.visible.plus(i)

    @action
    def lose_oldest(s) -> None:
        s.require(s.start < s.entries, s.visible.has(s.start))
        s.loss.spend()
        s.start += 1

    # Actions: a pass of a reader.

    @action(r=among(reader, at="idle"))
    def begin(s, r: int) -> None:
        """Read the cursor."""
        me = s.reader[r]
        me.at = "reads"
        me.current = True
        me.seen = s.generation
        me.begun = s.saved
        me.position = s.saved
        me.next = s.first()
        me.until = s.cutoff()

    @action(r=among(reader, at="reads"), i=entries)
    def take(s, r: int, i: int) -> None:
        """The next visible entry; the reader cannot see that one is missing in between."""
        me = s.reader[r]
        s.require(s.visible.has(i), me.next <= i, s.start <= me.next, s.limit(r) > i)
        s.require(*(~s.visible.has(j) | (me.next > j) for j in range(i)))
        me.taken = me.taken.plus(i)
        me.next = i + 1

    @action(r=among(reader, at="reads"), i=entries)
    def finish(s, r: int, i: int) -> None:
        """Work that began before a rewind is not what the rewind is for."""
        me = s.reader[r]
        s.require(me.taken.has(i))
        if me.seen == s.generation:
            s.done = s.done.plus(i)
        me.taken = me.taken.minus(i)
        me.position = s.reached(r, i)

    @action(r=among(reader, at="reads"), answer=("done", "reply_lost"))
    def save(s, r: int, answer: str) -> None:
        """Swap the position; a reader whose reply is lost does not know the new ETag."""
        me = s.reader[r]
        s.require(s.may_save(r), me.position != s.saved)
        s.trouble.spend(answer)
        s.saved = me.position
        s.change()
        me.current = answer == "done"

    def change(s) -> None:
        """The cursor has another ETag than any reader knows."""
        for one in s.reader:
            one.current = False

    @action(r=among(reader, at="reads"))
    def read_again(s, r: int) -> None:
        """After a refusal or a lost reply."""
        me = s.reader[r]
        s.require(~me.current, s.is_same(r))
        me.current = True
        me.position = s.after_refusal(r)

    @action(r=among(reader, at="reads"))
    def find_rewound(s, r: int) -> None:
        """After a refusal or a lost reply: the pass ends."""
        s.require(~s.reader[r].current, ~s.is_same(r))
        restart(s.reader[r])

    @action(r=among(reader, at="reads"))
    def record_loss(s, r: int) -> None:
        s.require(s.shows_start(), s.start > s.reader[r].next, s.lost < s.start)
        s.lost = s.start

    @action(r=among(reader, at="reads"))
    def skip_lost(s, r: int) -> None:
        """Go on with the oldest entry that the log still has."""
        s.require(s.start > s.reader[r].next, s.may_skip())
        s.reader[r].next = s.start

    @action(r=among(reader, at="reads"))
    def end(s, r: int) -> None:
        s.require(s.reader[r].taken.is_empty())
        restart(s.reader[r])

    @action(r=among(reader, at="reads"))
    def crash(s, r: int) -> None:
        s.trouble.spend()
        restart(s.reader[r])

    # Actions: an operator, or another part of the program.

    @action(target=entries)
    def rewind(s, target: int) -> None:
        """Have all entries from the target on worked on again."""
        s.require(s.generation < s.rewinds)
        s.saved = s.rewound(target)
        s.generation += 1
        s.done = s.done & frozenset(range(target))
        s.change()

    # Properties.

    def is_passed(s, i: int) -> Truth:
        return s.saved - s.overlap > i

    @invariant(i=entries)
    def honest(s, i: int) -> Truth:
        """The cursor passes an entry only if it is done, or its loss is recorded."""
        return implies(s.is_passed(i), s.done.has(i) | (s.lost > i))

    @step
    def forward_only(before, after: "Cursor") -> Truth:
        """The cursor goes back only by a rewind."""
        return implies(before.generation == after.generation, after.saved >= before.saved)

    @invariant(r=reader, i=entries)
    def passed_once(s, r: int, i: int) -> Truth:
        """A pass takes nothing that the cursor had passed when it began."""
        return implies(s.reader[r].taken.has(i), s.reader[r].begun - s.overlap <= i)

    @invariant
    def loss_is_true(s) -> Truth:
        """A loss is recorded only of what the log has lost."""
        return s.lost <= s.start

    @always_recoverable
    def always_finished(s) -> Truth:
        """Every entry is done in the end, or its loss is recorded."""
        return all_of(s.done.has(i) | (s.lost > i) for i in range(s.entries))

    @reachable(r=reader)
    def overtaken(s, r: int) -> Truth:
        """A reader can find that another one has saved a further position."""
        me = s.reader[r]
        return (me.at == "reads") & (me.seen == s.generation) & (s.saved > me.position)

    @reachable(r=reader)
    def rewound_under_way(s, r: int) -> Truth:
        """The cursor can be rewound below a reader that goes on."""
        me = s.reader[r]
        return (me.at == "reads") & (me.seen < s.generation) & (s.saved < me.position)

    @reachable(i=entries)
    def out_of_order(s, i: int) -> Truth:
        """An entry can be finished before an earlier one."""
        return s.done.has(i) & ~all_of(s.done.has(j) for j in range(i))

    # Refinement: what the store shows.

    @refines(
        LifecycleObserved,
        {
            "save": lambda s, r: does(
                "saved",
                k=0,
                n=0,
                to=s.reader[r].position - 1,
                past=1,
                current=s.reader[r].seen == s.generation,
            ),
            "rewind": lambda s, target: does("rewound", k=0, n=0, to=s.rewound(target)),
        },
        part=("saved", "rewound"),
        positions=entries,
        found=1,
    )
    def observed(s, observed: LifecycleObserved) -> dict[str, object]:
        """Every save and every rewind is one that the protocol of a lifecycle allows for its cursors."""
        return {"stream.position": related(observed.stream[0].position == s.saved)}

    # Where the checker shows what.

    shown_at = {"fixed-cutoff": {"entries": 3, "overlap": 2, "readers": 1}}
