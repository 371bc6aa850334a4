"""Which actors may step, and which alternatives a step has.

Theory. A process runs until it issues an operation: a request, a sleep, a clock reading, a note, its own end.
That is one *step* of the schedule, and it is taken when the search decides so: the request lands, its reply
is delivered, and the process runs on to its next operation. Landing and delivery are one step, because
nothing that other processes could notice lies between them: a reply that is slow to arrive is a next step
that is slow to be taken. Another thread of the same process could notice, so where it may step in between,
the delivery is a step of its own (see `thread_steps`). A difference is an alternative of the step (see
`sim.faults`).

An *actor* is a process (numbered from 1; 0 is the program that sets the world up), a request in flight that
has a life of its own, or the clock.

*Time.* The clock moves on in three ways. It advances to the next time at which a sleep ends, at any step and
free of charge: a sleep does not restrict the other processes. It moves on by a tick, free of charge but
only `ticks` times in a run, and only when some process knows the present time: it read the clock, or a write
was stamped with it. Otherwise no process could notice. It moves on by a long pause at the price of one fault.

*Power.* Where the program has a file system and the budget a power loss, it may strike at any step, and once
more when everybody has ended. The state of the disk that is left is picked in a step of its own.

*Waiting loops.* A loop that repeats its requests, with or without a sleep between, is followed for
`wait_rounds` rounds in vain while others could go on. Then it is held back until something it reads has
changed, or takes all rounds that are left at once, see `loops`.

*Daemons* never end. A run ends when all other processes have ended, so the end of a process conflicts with
every step of a daemon (see `Executor`). A daemon takes `daemon_steps` steps; then it waits until no other
actor can step. A loop that never ends and has effects takes `wait_rounds` rounds, and then waits like a
daemon. Of those that wait, the one that took the fewest steps goes on first.

*Threads* of one process are actors too, see `sim.threads`. A thread that waits for a lock, an event or
another thread cannot step until it has what it waits for, or until the time at which it gives up. When no
actor can step and a thread still waits, that is a deadlock.

A run is a function of the choices (actor, alternative), and of nothing else.
"""

from typing import Any

from fencepost.impl.store import requests as req
from fencepost.sim.faults import CLOCK, CONDITIONAL, LOCAL, MESSAGE, READ, RETRIED, WRITE
from fencepost.sim.world import budget as fault
from fencepost.sim.world.footprints import CLOCK_ACTOR, POWER_ACTOR
from fencepost.sim.world.loops import IN_VAIN
from fencepost.sim.world.operations import (
    ADVANCE,
    POWER_LOSS,
    Call,
    Delivery,
    Finish,
    Pick,
    Post,
    ReadClock,
    Receive,
    Start,
    Survival,
    Sync,
    Wake,
)
from fencepost.sim.world.process import Flight, Process
from fencepost.sim.world.run import RunState


class Scheduler:
    """Offers the possible steps of a run."""

    def __init__(self, run: RunState) -> None:
        self._run = run
        self._last = False
        """True if nothing can happen any more but a power loss."""
        self._held: set[int] = set()
        """Held processes whose loops may take all rounds that are left."""

    def enabled(self) -> list[int]:
        """Return the actors that may step; empty when the run is complete."""
        run = self._run
        if run.setup is not None:
            return [0]
        if run.rushing is not None:
            self._held.clear()
            return [run.rushing.index]
        if run.files is not None:
            if run.survivors is not None:
                return [POWER_ACTOR]
            if run.budget_left[fault.POWER_LOSS] and not run.stays_on:
                found = self._able()
                self._last = not found
                return [*found, POWER_ACTOR]
        return self._able()

    def _able(self) -> list[int]:
        """Return the actors besides power that may step."""
        run = self._run
        if run.has_daemons and self._only_daemons_left():
            return []
        starving = run.loops is not None and run.loops.has_starving
        ready: list[int] = []
        asleep = early = again = False
        spinning = resting = None
        least = 0
        held: list[int] = []
        napping: list[Process] = []
        for process in run.strands:
            op = process.pending
            if op is None or process.group is not None:
                continue
            kind = type(op)
            if (kind is Sync or kind is Start) and op.ready is not None:
                if 0 <= op.until_ns <= run.clock_ns or op.ready():
                    ready.append(process.index)
                elif op.until_ns >= 0:
                    asleep = True
                if op.until_ns > run.clock_ns:
                    # The time may also come before it notices that it has what it waits for.
                    early = early or process.naps <= 1
                    again = again or process.naps > 1
                    if process.naps > 1 and not op.ready():
                        napping.append(process)
            elif kind is Wake and op.until_ns > run.clock_ns:
                asleep = True
                if process.naps <= 1:
                    early = True
                else:
                    again = True
                    napping.append(process)
            elif kind is Delivery:
                ready.append(process.index)
            elif process.blocked:
                spinning = spinning or process
            elif process.spins and self._waits(process):
                if self._may_go_on(process):
                    held.append(process.index)
                elif spinning is None or (not spinning.blocked and process.spins < spinning.spins):
                    spinning = process
            elif (starving or process.daemon) and self._has_its_share(process):
                if resting is None or process.taken < least:
                    resting, least = process.index, process.taken
            else:
                ready.append(process.index)
        if run.flights:
            if run.has_daemons:
                rests = [flight.actor for flight in run.flights.values() if self._rests(flight)]
                ready.extend(actor for actor in run.flights if actor not in rests)
                resting = resting or (rests[0] if rests else None)
            else:
                ready.extend(run.flights)
        exhausted = again and self._slept_in_vain()
        early = early or (again and not exhausted)
        self._held.clear()
        if ready or held:
            if exhausted:
                held += [process.index for process in napping if self._may_go_on(process)]
            self._held.update(held)
            holds = bool(held) or exhausted or (spinning is not None and not spinning.blocked)
            if holds or resting is not None:
                run.mark_waits(held_back=holds, rested=resting is not None)
            passes = early or (ready and (run.budget_left[fault.PAUSE] or (run.observed and run.ticks_left)))
            if passes and run.settings.timed:
                ready.append(CLOCK_ACTOR)
            if run.has_daemons:
                ready.sort(key=self.is_of_a_daemon)
            ready += held
        elif resting is not None and (exhausted or not asleep):
            # All others wait for something, which may be the daemon.
            ready.append(resting)
        elif asleep:
            ready.append(CLOCK_ACTOR)
        elif spinning is not None:
            # No other actor can step: it may repeat its request, again and again, until the run is cut.
            run.repeat_alone()
            ready.append(spinning.index)
        return ready

    def _has_its_share(self, process: Process) -> bool:
        """Return True if a process that never ends has taken the steps that it may take beside others."""
        run = self._run
        if process.daemon:
            return process.taken >= run.settings.daemon_steps
        loops = run.loops
        return (
            loops is not None
            and loops.has_starving
            and process.taken >= run.settings.wait_rounds
            and loops.begins_round(process, process.pending)
        )

    def _waits(self, process: Process) -> bool:
        """Return True if a process took so many rounds in vain that it is held back."""
        return (
            process.spins >= self._run.settings.wait_rounds
            and isinstance(process.pending, _LOOKING)
            and process.rounds.goes_on_with(process.pending)
        )

    def _may_go_on(self, process: Process) -> bool:
        """Return True if a held process may take all rounds that are left at once."""
        loops = self._run.loops
        return loops is not None and not process.daemon and not loops.is_endless(process.rounds.key)

    def gives_up(self, actor: int) -> bool:
        """Return True if a held process would take all its rounds now although others may step."""
        return actor in self._held

    def _rests(self, flight: Flight) -> bool:
        """Return True if a request is of a parallel step of a daemon that has taken its steps."""
        process = flight.process
        return process.daemon and not flight.zombie and process.taken >= self._run.settings.daemon_steps

    def _only_daemons_left(self) -> bool:
        run = self._run
        return all(process.daemon or process.pending is None for process in run.strands) and all(
            flight.process.daemon for flight in run.flights.values()
        )

    def is_of_a_daemon(self, actor: int) -> bool:
        """Return True if a daemon takes this step, or it is a request of one."""
        run = self._run
        if actor in (CLOCK_ACTOR, POWER_ACTOR):
            return False
        flight = run.flights.get(actor)
        process = run.strand(actor) if flight is None else flight.process
        return process.daemon

    def alternatives(self, actor: int) -> tuple[str, ...]:
        """Return the alternatives of the actor's next step, the harmless one first."""
        run = self._run
        if actor in self._held:
            return _HELD
        if run.rushing is not None:
            return _RUSHING
        if actor == CLOCK_ACTOR:
            return self._ways_to_pass_time()
        if actor == POWER_ACTOR:
            if run.survivors is not None:
                return _picks(len(run.survivors))
            return ("ok", "power_loss") if self._last else ("power_loss",)
        flight = run.flights.get(actor)
        if flight is None:
            # Most actors are processes: no call for them.
            process = run.processes[actor - 1] if 0 < actor < CLOCK_ACTOR else run.strand_or_setup(actor)
            op, retried, crashable = process.pending, process.retried, process.machine.effective
        elif flight.zombie:
            return ("land", "never")
        else:
            op, retried = flight.request, flight.retried
            crashable = flight.process.machine.effective and self._is_first_open(flight)
        if type(op) is Pick:
            return _picks(op.count)
        category = RETRIED if retried else _CATEGORIES.get(type(op), -1)
        if category < 0:
            category = _category(op)
        if category == CLOCK:
            if op.subject != "wall" or process.machine.skew:
                category = LOCAL
            elif run.settings.skews and run.budget_left[fault.SKEW]:
                return (*run.offers[2 * category + crashable], *run.settings.skews)
        return run.offers[2 * category + crashable]

    def _slept_in_vain(self) -> bool:
        """Return True if processes slept so often, with nothing changed, that they wait for the others."""
        run = self._run
        return (
            sum(process.naps - 1 for process in run.strands if process.naps > 1) >= run.settings.wait_rounds
        )

    def pending(self, actor: int) -> Any:
        """Return the operation of the actor's next step."""
        run = self._run
        if actor == CLOCK_ACTOR:
            return ADVANCE
        if actor == POWER_ACTOR:
            return POWER_LOSS if run.survivors is None else Survival(len(run.survivors))
        flight = run.flights.get(actor)
        if flight is not None:
            return flight.request
        if 0 < actor < CLOCK_ACTOR:
            return run.processes[actor - 1].pending
        if not actor and run.setup is None:
            return None
        return run.strand_or_setup(actor).pending

    def rivals(self, actor: int) -> list[int]:
        """Return the other requests of a parallel step, if a crash of their sender may end them unlanded.

        Then it matters which of them have landed by then, although they do not conflict. The same holds for
        the threads of a process that the end of the process ends.
        """
        run = self._run
        if 0 < actor <= len(run.processes):
            process = run.processes[actor - 1]
            if type(process.pending) is Finish and process.threads:
                return [one.index for one in process.threads if one.pending is not None]
        if run.budget_left[fault.CRASH] and actor not in run.flights and actor not in _NOBODY:
            # A crash may come after this step and before theirs.
            strand = run.strand(actor)
            machine = strand.machine
            op = strand.pending
            lasting = not op.reads if isinstance(op, req.Request) else type(op) is Call
            if machine.threads is not None and (lasting or op.kind in _LASTING):
                return [one.index for one in (machine, *machine.threads) if one is not strand]
        flight = run.flights.get(actor)
        if flight is None or flight.zombie or not run.budget_left[fault.CRASH]:
            return []
        return [
            other.actor
            for other in run.flights.values()
            if other.process is flight.process and not other.zombie and other is not flight
        ]

    def _is_first_open(self, flight: Flight) -> bool:
        group = flight.process.group
        return group is not None and all(reply is not None for reply in group.replies[: flight.slot])

    def _ways_to_pass_time(self) -> tuple[str, ...]:
        run = self._run
        # Ticks and pauses are offered too when all sleep: whether another has just ended must not matter.
        pause = run.budget_left[fault.PAUSE] > 0
        ways = _TIME[self.next_wake()[0] >= 0, bool(run.observed and run.ticks_left), pause]
        return (*ways, *run.settings.pauses) if pause and run.settings.pauses else ways

    def next_wake(self) -> tuple[int, bool]:
        """When the next sleep ends that may end now, or -1; and whether because no other actor can step."""
        run = self._run
        sleepers: list[int] = []
        early: list[int] = []
        idle = not run.flights or (run.has_daemons and all(map(self._rests, run.flights.values())))
        held = bool(run.flights) and idle
        exhausted = self._slept_in_vain()
        for process in run.strands:
            op = process.pending
            kind = type(op)
            if (kind is Sync or kind is Start) and op.ready is not None:
                if 0 <= op.until_ns <= run.clock_ns or op.ready():
                    idle = False
                if op.until_ns > run.clock_ns:
                    sleepers.append(op.until_ns)
                    if process.naps <= 1 or not exhausted:
                        early.append(op.until_ns)
            elif kind is Wake and op.until_ns > run.clock_ns:
                sleepers.append(op.until_ns)
                if process.naps <= 1 or not exhausted:
                    early.append(op.until_ns)
            elif op is None or process.group is not None:
                continue
            elif kind is Delivery:
                idle = False
            elif process.blocked or self._has_its_share(process):
                held = True
            elif self._waits(process):
                held = True
                idle = idle and not self._may_go_on(process)
            else:
                idle = False
        if idle and (held or len(early) < len(sleepers)):
            return min(sleepers), True
        return min(early, default=-1), False


_HELD, _RUSHING = (IN_VAIN,), ("ok",)
_LOOKING = (req.Request, Call, Receive)
"""Operations before which a process may be held back."""
_NOBODY = frozenset({0, CLOCK_ACTOR, POWER_ACTOR})
_LASTING = frozenset({"note", "post"})
"""Besides requests: what a crash does not undo."""
_TIME = {
    (sleep, tick, pause): tuple(
        name for name, offered in (("advance", sleep), ("tick", tick), ("pause", pause)) if offered
    )
    for sleep in (False, True)
    for tick in (False, True)
    for pause in (False, True)
}
_CATEGORIES: dict[type, int] = {
    req.Get: READ,
    req.Head: READ,
    req.List: READ,
    req.ListVersions: READ,
    req.ListUploads: READ,
    req.CreateUpload: WRITE,
    req.UploadPart: WRITE,
    req.AbortUpload: WRITE,
    ReadClock: CLOCK,
    Post: MESSAGE,
}


def category_of(op: Any) -> int:
    """Return the category of an operation, by the alternatives that its step offers."""
    found = _CATEGORIES.get(type(op), -1)
    if found == CLOCK and op.subject != "wall":
        return LOCAL
    return found if found >= 0 else _category(op)


def _category(op: Any) -> int:
    """Return the category of an operation that its type does not decide."""
    when = getattr(op, "when", None)
    if when is None:
        if isinstance(op, req.Request):
            return READ if op.reads else WRITE
        return LOCAL
    return WRITE if isinstance(when, req.Anything) else CONDITIONAL


def _picks(count: int) -> tuple[str, ...]:
    return ("ok", *(f"pick{index}" for index in range(1, count)))
