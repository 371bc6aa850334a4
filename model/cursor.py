"""A cursor: the durable position up to which the readers of a log have finished everything.

All readers of a log that resume use it, and `impl/cursor` is its code. The log is in the order of positions,
and a position is a time and an offset within that time: entry i has the time i // 2, so the entries 0 and 1
share one. `saved` counts the entries that the cursor has passed: 0 is before the first. Entries may become
visible late, after entries of later positions; the log may lose its oldest entries. A reader takes entries
in their order, finishes them in any, and saves by compare-and-swap; readers of one cursor may overlap,
crash, or be paused for any time.

`current[r]` says that the ETag that reader r knows is the cursor's. A rewind has entries worked on again, for
instance for something that was added to what the reader works for. It begins a new generation of the cursor,
because "the furthest reader is right" is true within one generation only.

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
    shown_at = {"fixed-cutoff": {"entries": 3, "overlap": 2, "readers": 1}}

    # State: the log, the cursor, its readers.
    clock = Int(0, entries + late + 1)  # entry i exists when past i
    visible = Flags(entries)
    start = Int(0, entries)  # the log begins with this entry
    done = Flags(entries)
    saved, generation = Int(0, entries), Int(0, rewinds)
    lost = Int(0, entries)  # recorded: entries before this one may be lost
    trouble, loss = Budget(troubles), Budget(losses)
    at = Each(readers, Enum("idle", "reads"))
    current = Each(readers, Bool())
    seen = Each(readers, Int(0, rewinds))  # the generation that it read
    begun = Each(readers, Int(0, entries))  # the position that it read
    until = Each(readers, Int(0, entries + late + 1))  # the pass ends before this entry
    next = Each(readers, Int(0, entries))  # what it takes next
    taken = Each(readers, Flags(entries))  # and has not finished
    position = Each(readers, Int(0, entries))  # up to which it has finished, saved or not

    # Definitions.
    may_save = define(lambda s, r: s.current[r], without={"compare-and-swap": True})
    may_skip = define(lambda s: s.lost >= s.start, without={"loss-recorded": True, "shown-start": True})
    is_same = define(lambda s, r: s.seen[r] == s.generation, without={"generations": True})
    is_passed = define(lambda s, i: s.saved - s.overlap > i)

    @define(without={"late-entries": lambda s: s.clock})
    def cutoff(s) -> Number:
        """A pass that begins now ends before this entry."""
        return most([s.clock - (s.late if s.overlap == 0 else 0), 0])

    @define(without={"fixed-cutoff": lambda s, r: s.cutoff()})
    def limit(s, r: int) -> Number:
        return s.until[r]

    @define(without={"strict-past": lambda s: most([s.saved - s.back() - 1, 0])})
    def first(s) -> Number:
        """What a pass begins with."""
        return most([s.saved - s.back(), 0])

    @without("whole-positions", replaces=first)
    def first_of_a_later_time(s) -> Number:
        return pick(s.saved == 0, 0, least([(s.saved + 1) // 2 * 2, s.entries]))

    @define(without={"late-entries": 0})
    def back(s) -> int:
        return s.overlap

    @define(without={"rewind-to-the-earlier": lambda s, target: target})
    def rewound(s, target: int) -> Number:
        return least([s.saved, target])

    @without("whole-positions", replaces=rewound)
    def rewound_by_time(s, target: int) -> Number:
        return pick((s.saved > 0) & ((s.saved + 1) // 2 > target // 2 + 1), least([s.saved, target]), s.saved)

    @define(without={"first-unfinished": lambda s, r, i: most([s.position[r], i + 1])})
    def reached(s, r: int, i: int) -> Number:
        """The position of a reader that has just finished entry i: before its first unfinished one."""
        opened = [(s.taken[r].has(j), j) for j in range(s.entries)]
        return most([s.position[r], case(*opened, otherwise=s.next[r])])

    # Actions: the log.
    @action
    def time_passes(s) -> None:
        s.require(s.clock < s.entries + s.late + 1)
        late = [s.visible.has(i) | (s.clock < i + 1 + s.late) for i in range(s.entries)]
        s.assume("bounded-lateness", all_of(late))
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
    @action(r=among(readers, at="idle"))
    def begin(s, r: int) -> None:
        s.at[r], s.current[r], s.seen[r] = "reads", True, s.generation
        s.begun[r], s.position[r], s.next[r] = s.saved, s.saved, s.first()
        s.until[r] = s.cutoff()

    @action(r=among(readers, at="reads"), i=entries)
    def take(s, r: int, i: int) -> None:
        """The next visible entry; the reader cannot see that one is missing in between."""
        s.require(s.visible.has(i), s.next[r] <= i, s.start <= s.next[r], s.limit(r) > i)
        s.require(*(~s.visible.has(j) | (s.next[r] > j) for j in range(i)))
        s.taken[r] = s.taken[r].plus(i)
        s.next[r] = i + 1

    @action(r=among(readers, at="reads"), i=entries)
    def finish(s, r: int, i: int) -> None:
        """Work that began before a rewind is not what the rewind is for."""
        s.require(s.taken[r].has(i))
        s.done = pick(s.seen[r] == s.generation, s.done.plus(i), s.done)
        s.taken[r] = s.taken[r].minus(i)
        s.position[r] = s.reached(r, i)

    @action(r=among(readers, at="reads"), answer=("done", "reply_lost"))
    def save(s, r: int, answer: str) -> None:
        s.require(s.may_save(r), s.position[r] != s.saved)
        s.trouble.spend(answer)
        s.saved = s.position[r]
        for other in range(s.readers):
            s.current[other] = False
        s.current[r] = answer == "done"

    @action(r=among(readers, at="reads"))
    def read_again(s, r: int) -> None:
        """After a refusal or a lost reply. The further position of one generation is right."""
        s.require(~s.current[r], s.is_same(r))
        s.current[r] = True
        if s.is_on("forward"):
            s.position[r] = most([s.position[r], s.saved])

    @action(r=among(readers, at="reads"))
    def find_rewound(s, r: int) -> None:
        s.require(~s.current[r], ~s.is_same(r))
        s.rest(r)

    @action(r=among(readers, at="reads"))
    def record_loss(s, r: int) -> None:
        s.require(s.is_on("shown-start"), s.start > s.next[r], s.lost < s.start)
        s.lost = s.start

    @action(r=among(readers, at="reads"))
    def skip_lost(s, r: int) -> None:
        """Go on with the oldest entry that the log still has."""
        s.require(s.start > s.next[r], s.may_skip())
        s.next[r] = s.start

    @action(r=among(readers, at="reads"))
    def end(s, r: int) -> None:
        s.require(s.taken[r].is_empty())
        s.rest(r)

    @action(r=among(readers, at="reads"))
    def crash(s, r: int) -> None:
        s.trouble.spend()
        s.rest(r)

    def rest(s, r: int) -> None:
        restart(s, r, "at", "current", "seen", "begun", "until", "next", "taken", "position")

    # Actions: an operator, or another part of the program.
    @action(target=entries)
    def rewind(s, target: int) -> None:
        """Have all entries from the target on worked on again."""
        s.require(s.generation < s.rewinds)
        s.saved, s.generation = s.rewound(target), s.generation + 1
        s.done = s.done & frozenset(range(target))
        for r in range(s.readers):
            s.current[r] = False

    # Properties.
    honest = invariant("The cursor passes an entry only if it is done, or its loss is recorded.", i=entries)(
        lambda s, i: implies(s.is_passed(i), s.done.has(i) | (s.lost > i))
    )
    forward_only = step("The cursor goes back only by a rewind.")(
        lambda before, after: implies(before.generation == after.generation, after.saved >= before.saved)
    )
    passed_once = invariant(
        "A pass takes nothing that the cursor had passed when it began.", r=readers, i=entries
    )(lambda s, r, i: implies(s.taken[r].has(i), s.begun[r] - s.overlap <= i))
    loss_is_true = invariant("A loss is recorded only of what the log has lost.")(lambda s: s.lost <= s.start)
    always_finished = always_recoverable("Every entry is done in the end, or its loss is recorded.")(
        lambda s: all_of(s.done.has(i) | (s.lost > i) for i in range(s.entries))
    )
    overtaken = reachable("A reader can find that another one has saved a further position.", r=readers)(
        lambda s, r: (s.at[r] == "reads") & (s.seen[r] == s.generation) & (s.saved > s.position[r])
    )
    rewound_under_way = reachable("The cursor can be rewound below a reader that goes on.", r=readers)(
        lambda s, r: (s.at[r] == "reads") & (s.seen[r] < s.generation) & (s.saved < s.position[r])
    )
    out_of_order = reachable("An entry can be finished before an earlier one.", i=entries)(
        lambda s, i: s.done.has(i) & ~all_of(s.done.has(j) for j in range(i)) if i else ~s.done.has(0)
    )

    # Refinement: what the store shows.

    @refines(
        LifecycleObserved,
        {
            "save": lambda s, r: does(
                "saved", k=0, n=0, to=s.position[r] - 1, past=1, current=s.seen[r] == s.generation
            ),
            "rewind": lambda s, target: does("rewound", k=0, n=0, to=s.rewound(target)),
        },
        part=("saved", "rewound"),
        positions=entries,
        found=1,
    )
    def observed(s, observed: LifecycleObserved) -> dict[str, object]:
        """Every save and every rewind is one that the protocol of a lifecycle allows for its cursors."""
        return {"position": related(observed.position[0] == s.saved)}
