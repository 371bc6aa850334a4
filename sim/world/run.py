"""The state of one run: clock, budget, processes, requests in flight, objects, and the steps so far.

Every part of a world holds the same `RunState`: the scheduler reads it, the executor changes it by its
methods, checks see it through a view, and the replacements for clocks, files and threads find it by
`present.here()`.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fencepost.impl.environment import Environment
from fencepost.impl.store.bucket import PART_BYTES_MIN
from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Request
from fencepost.sim.world import budget as fault
from fencepost.sim.world import stamps
from fencepost.sim.world.bucket import WorldBucket
from fencepost.sim.world.footprints import FLIGHTS_FROM, Footprints
from fencepost.sim.world.located import CodeLine
from fencepost.sim.world.operations import Post
from fencepost.sim.world.process import Flight, Process, Recall, Step
from fencepost.sim.world.record import StepRecord
from fencepost.sim.world.settings import Settings

if TYPE_CHECKING:
    from fencepost.sim.filesystem.files import Files
    from fencepost.sim.filesystem.survival import Outcome
    from fencepost.sim.threads.sharing import Sharing
    from fencepost.sim.world.deadlines import Deadlines
    from fencepost.sim.world.loops import Loops
    from fencepost.sim.world.sites import Sites
    from fencepost.sim.world.variables import OwnVariables


class Violation:
    """The property that a run violates, and the reason."""

    __slots__ = ("loop_at", "name", "reason")

    def __init__(self, name: str, reason: str, loop_at: int = -1) -> None:
        self.name = name
        self.reason = reason
        self.loop_at = loop_at
        """Place in the trace of the first step of the loop in which the run goes round for ever; else -1."""

    def __repr__(self) -> str:
        return f"{self.name}: {self.reason}"


class RunState:
    """One run as data. `env` and `store` are set by the world that owns it."""

    __slots__ = (
        "alone",
        "bucket",
        "budget_left",
        "channels",
        "clock_ns",
        "closing",
        "collecting",
        "completed",
        "deadlines",
        "deferred",
        "env",
        "files",
        "findings",
        "flights",
        "footprints",
        "has_daemons",
        "has_loops",
        "has_threads",
        "held_back",
        "instants",
        "lines_left_out",
        "located",
        "locks_made",
        "loops",
        "noted",
        "observed",
        "offers",
        "os_thread",
        "overran",
        "process_type",
        "processes",
        "readings",
        "recall",
        "record",
        "rested",
        "rounds_left_whole",
        "running",
        "rushed",
        "rushing",
        "settings",
        "setup",
        "sharing",
        "sites",
        "sizes_compared",
        "stamped",
        "start_ns",
        "stays_on",
        "store",
        "strands",
        "streams",
        "survivors",
        "threads",
        "tickets",
        "ticks_left",
        "time_mattered",
        "trace",
        "unreceived",
        "variables",
        "violation",
    )

    env: Environment
    store: Store

    def __init__(
        self,
        settings: Settings,
        footprints: Footprints,
        *,
        recall: Recall | None = None,
        deadlines: Deadlines | None = None,
        sharing: Sharing | None = None,
        loops: Loops | None = None,
    ) -> None:
        self.settings = settings
        self.footprints = footprints
        self.recall = recall
        """Trees of the operations that processes issued in earlier runs, see `process`."""
        self.deadlines = deadlines
        """Lengths of pauses learnt so far; None if pauses are not explored."""
        self.sharing = sharing
        """Threads that share memory, see `sim.threads.sharing`; None: all steps of threads conflict."""
        self.loops = loops
        """Endless loops known so far, see `loops`; None: a held process waits for a change in any case."""
        self.bucket = WorldBucket()
        self.start_ns = settings.start_ns
        self.clock_ns = 0
        """Simulated nanoseconds since the start."""
        self.stamped = False
        """True if objects get the time at which they landed."""
        self.ticks_left = settings.ticks
        self.budget_left = settings.budget.left(settings.faults_max)
        self.offers = fault.offers(self.budget_left)
        """Alternatives of the steps of processes with this budget, see `budget.offers`."""
        self.observed = False
        """True if some process knows the present time."""
        self.readings = 0
        """Number of clock readings that were no steps."""
        self.instants: dict[int, tuple[int, int, bool]] = {}
        """By second since 1970, moments that processes know: true time and error in nanoseconds, and True if
        a clock was read; see `times`.
        """
        self.time_mattered = 0
        """Highest level of time that the run depended on, see `stamps`."""
        self.sizes_compared: frozenset[str] = frozenset()
        """Kinds of replies whose sizes the user's code compares, see `sizes`."""
        self.streams: dict[Any, Any] = {}
        """Streams of random numbers, and other memory of the program that sets the world up."""
        self.noted: dict[str, list[tuple[str, Any]]] = {}
        """Notes by topic, each with the name of the process that made it."""
        self.channels: dict[str, tuple[Any, ...]] = {}
        """By channel: messages that have arrived and were not received yet."""
        self.setup: Process | None = None
        """The program, until it returns."""
        self.process_type: type[Process] = Process
        self.variables: OwnVariables | None = None
        """Variables of which each process has its own; None if there are none."""
        self.processes: list[Process] = []
        self.threads: dict[int, Process] = {}
        """Threads of processes, by the number of the actor, see `sim.threads`."""
        self.strands: list[Process] = self.processes
        """Processes and threads."""
        self.flights: dict[int, Flight] = {}
        """Requests in flight, by the number of the actor."""
        self.running: Process | None = None
        self.has_daemons = False
        self.has_loops = False
        """True if a process has an event loop, see `sim.threads.loop`."""
        self.has_threads = False
        """True if a process started a thread."""
        self.locks_made = 0
        """Number of locks and queues that the program made while it set the world up."""
        self.files: Files | None = None
        """File system that the program mounted, see `sim.filesystem`."""
        self.survivors: list[Outcome] | None = None
        """After a power loss: states of the disk, one of which the next step picks."""
        self.stays_on = False
        """True once power cannot be lost any more."""
        self.alone = False
        """True if the next step repeats a request only because no other actor can step."""
        self.held_back = False
        """True if a spinning process had to wait although other actors could step."""
        self.rested = False
        """True if a daemon had to wait although other actors could step."""
        self.rushing: Process | None = None
        """The process that runs through the rounds of its loop that are left."""
        self.rushed = 0
        """Number of steps that processes took in this way."""
        self.overran = False
        """True if a loop did not end in this way."""
        self.trace: list[Step] = []
        self.tickets = 0
        """Number of requests answered outside of a step."""
        self.record = StepRecord(0, 0)
        """Record of the step that is being taken, or was taken last."""
        self.unreceived: dict[int, Any] = {}
        """By place in the trace: a reply that the store gave and no process received."""
        self.deferred: set[int] = set()
        """Places of the steps whose answer is delivered in a later step."""
        self.lines_left_out = False
        """True if a thread came to a line too often to pause again."""
        self.rounds_left_whole = False
        """True if a thread could have handed an event loop a result in the middle of a round."""
        self.located: dict[tuple[int, int], tuple[CodeLine, ...]] | None = None
        """Lines of user code by process and number of the operation, see `located`; None: not recorded."""
        self.sites: Sites | None = None
        """Places of the requests of the search, if they are kept."""
        self.violation: Violation | None = None
        self.findings: list[str] = []
        self.os_thread = get_ident()
        """The one thread of the operating system in which the world runs."""
        self.completed = False
        """True if the run has been judged or given up."""
        self.collecting = False
        """True while finalizers run, after the last step."""
        self.closing: list[Callable[[], None]] = []
        """Called when the run is over."""

    # Questions.

    @property
    def setting_up(self) -> bool:
        """True until the program that sets the world up has returned."""
        return self.setup is not None

    @property
    def stamp_ns(self) -> int:
        """Time with which a write is stamped, in nanoseconds since the start."""
        return self.clock_ns if self.stamped else 0

    @property
    def loses_power(self) -> bool:
        """True if power may still be lost."""
        return bool(self.budget_left[fault.POWER_LOSS])

    @property
    def mounted(self) -> Files:
        """The file system, in code that only runs with one."""
        assert self.files is not None, "the program mounted a file system"
        return self.files

    def strand(self, actor: int) -> Process:
        """Return the process or thread with this number."""
        return self.processes[actor - 1] if actor < FLIGHTS_FROM else self.threads[actor]

    def strand_or_setup(self, actor: int) -> Process:
        """Return the process or thread with this number; 0 is the program that sets the world up."""
        if not actor:
            assert self.setup is not None, "actor 0 steps only while the program sets the world up"
            return self.setup
        return self.processes[actor - 1] if actor < FLIGHTS_FROM else self.threads[actor]

    def memory_of(self, actor: int) -> int:
        """Return the bit of the memory that an actor shares with other threads of its process; else 0."""
        flight = self.flights.get(actor)
        if flight is None and not actor:
            return 0
        machine = (self.strand(actor) if flight is None else flight.process).machine
        return 0 if machine.threads is None else machine.memory

    # Set-up.

    def equip(self, env: Environment) -> None:
        """Set the clock and the randomness of programs."""
        self.env = env

    def open_store(self, store: Store) -> None:
        """Set the store of programs."""
        self.store = store

    def use_thread(self) -> None:
        """Make the calling thread of the operating system the world's."""
        self.os_thread = get_ident()

    def reconfigure(self, settings: Settings) -> None:
        self.settings = settings
        self.start_ns = settings.start_ns

    def set_ticks(self, ticks: int) -> None:
        """Set the number of ticks that may still pass."""
        self.ticks_left = ticks

    def make_bucket(self, *, versioned: bool, part_bytes_min: int = PART_BYTES_MIN) -> None:
        self.bucket = WorldBucket(versioned=versioned, part_bytes_min=part_bytes_min)

    def replace_bucket(self, bucket: WorldBucket) -> None:
        self.bucket = bucket

    def mount(self, files: Files) -> None:
        self.files = files
        self.show_time()

    def keep_apart(self, variables: OwnVariables, *, watched: bool) -> None:
        """Give each process its own of these variables; `watched`: and find out which others it changes."""
        self.process_type = variables.type_of_processes(watched=watched)
        self.variables = variables if variables.active else None

    def keep_lines(self) -> None:
        """Record the lines of user code that issue each operation."""
        self.located = {}

    def keep_sites(self, sites: Sites) -> None:
        """Keep the place in the user's code of every request."""
        self.sites = sites

    def forbid(self, kinds: tuple[str, ...]) -> None:
        """Take the budget for these kinds of faults away."""
        self._leave(fault.without(self.budget_left, kinds))

    def _leave(self, budget_left: tuple[int, ...]) -> None:
        self.budget_left = budget_left
        self.offers = fault.offers(budget_left)

    def set_up(self, program: Process) -> None:
        self.setup = program

    def open(self) -> None:
        """End the set-up: from now on writes carry times if the settings say so."""
        self.setup = None
        settings = self.settings
        self.stamped = settings.stamped and settings.timed >= stamps.STAMPED
        self.footprints.begin_stamps(on=self.stamped)
        stored = bool(self.footprints.stamp) and bool(self.files or self.bucket.contents())
        self.observed = settings.timed == stamps.WATCHED or bool(self.readings) or stored

    def add_process(self, process: Process) -> None:
        self.processes.append(process)
        self.has_daemons = self.has_daemons or process.daemon

    def name_lock(self, kind: str) -> str:
        """Return a name for a lock or queue that the program makes while it sets the world up."""
        self.locks_made += 1
        return f"setup/{kind}-{self.locks_made}"

    def use_loops(self) -> None:
        self.has_loops = True
        self.show_time()

    # Steps.

    def begin_step(self, before: int) -> StepRecord:
        """Start the record of the next step; `before`: steps that certainly came before it."""
        record = self.record = StepRecord(1 << len(self.trace), before)
        return record

    def log(
        self,
        actor: int,
        alternative: str,
        process: Process | None,
        number: int,
        op: Any,
        answer: Any,
        incarnation: int = -1,
    ) -> None:
        """Append a step to the trace."""
        if incarnation < 0:
            incarnation = 0 if process is None else process.incarnation
        self.trace.append((actor, alternative, process, incarnation, number, op, answer, self.clock_ns))

    def begin(self, process: Process) -> Any:
        """Run a process to its first operation, and return that."""
        self.running = process if process.index else None
        op = process.start()
        self.running = None
        return op

    def resume(self, process: Process, answer: Any, last: int) -> Any:
        """Run a process to its next operation, and return that; `last`: the steps before it."""
        self.running = process if process.index else None
        op = process.resume(answer, last)
        self.running = None
        return op

    def act_for(self, process: Process, act: Callable[[], Any]) -> Any:
        """Call `act` as a part of this process's step."""
        self.running = process
        result = act()
        self.running = None
        return result

    def kill(self, process: Process, *, crash: bool = False) -> None:
        """Unwind the code of a process; note if it swallows the exception."""
        self.running = process
        if not (process.crash() if crash else process.kill()):
            self.findings.append(
                f"process {process.name!r} does not let itself be crashed: it swallows the exception that "
                "unwinds it (look for a bare `except:` or `except BaseException:`)"
            )
        self.running = None

    def spend(self, part: int) -> None:
        """Pay for one fault."""
        self._leave(fault.spend(self.budget_left, part))

    def advance_to(self, clock_ns: int) -> None:
        self.clock_ns = clock_ns
        self.observed = self.settings.timed == stamps.WATCHED

    def tick(self) -> None:
        """Let a moment pass."""
        self.ticks_left -= 1
        self.advance_to(self.clock_ns + self.settings.tick_ns)

    def observe_time(self) -> None:
        """Record that a process knows the present time."""
        self.observed = True

    def show_time(self) -> None:
        """Record that a process may get to know a time in this run."""
        if self.deadlines is not None:
            self.deadlines.show()

    def depend_on_time(self, level: int) -> None:
        """Record that the run depends on this level of time, see `stamps`."""
        if level > self.time_mattered:
            self.time_mattered = level
        if level >= stamps.STAMPED:
            self.show_time()

    def compare_sizes(self, kinds: frozenset[str]) -> None:
        """Record that the user's code compares sizes of replies of these kinds, see `sizes`."""
        self.sizes_compared |= kinds

    def count_reading(self) -> int:
        """Count a clock reading that is no step."""
        self.readings += 1
        return self.readings

    def remember_instant(self, shown_ns: int, instant: tuple[int, int, bool]) -> None:
        """Keep a moment that a process knows, by its value and by what is left when it is cut off."""
        second = shown_ns // 1_000_000_000
        instants = self.instants
        known = instants.get(second)
        if known is None or (instant[2] and not known[2]):
            for grain in (1, 60, 3600, 86_400):
                instants[second // grain * grain] = instant

    def launch(self, flight: Flight) -> None:
        self.flights[flight.actor] = flight

    def land(self, flight: Flight) -> None:
        del self.flights[flight.actor]

    def drop_flights(self, process: Process | None) -> None:
        """Remove the requests of this process that have not landed; with None those of all processes.

        A request whose sender gave up goes on.
        """
        for flight in list(self.flights.values()):
            if not flight.zombie and process in (None, flight.process.machine):
                del self.flights[flight.actor]

    def note(self, who: str, topic: str, value: Any) -> None:
        self.noted.setdefault(topic, []).append((who, value))

    def deliver(self, post: Post) -> None:
        """Add a message to its channel."""
        self.channels[post.subject] = (*self.channels.get(post.subject, ()), post.message)

    def receive(self, channel: str) -> tuple[bool, Any]:
        """Take the next message of a channel: True and the message, or False if none has arrived."""
        waiting = self.channels.get(channel, ())
        if not waiting:
            return False, None
        self.channels[channel] = waiting[1:]
        return True, waiting[0]

    def keep_unreceived(self, reply: Any) -> None:
        """Keep a reply that the store gives in the present step and no process receives."""
        self.unreceived[len(self.trace)] = reply

    def defer_answer(self) -> None:
        """Record that the answer of the present step is delivered in a later step."""
        self.deferred.add(len(self.trace) - 1)

    def leave_lines_out(self) -> None:
        """Record that a thread came to a line too often to pause again."""
        self.lines_left_out = True

    def leave_rounds_whole(self) -> None:
        """Record a round of an event loop in which a thread could have handed the loop a result."""
        self.rounds_left_whole = True

    def add_thread(self, thread: Process) -> None:
        self.threads[thread.index] = thread
        self.has_threads = True
        self.show_time()
        self.strands = [*self.processes, *self.threads.values()]
        self.has_daemons = self.has_daemons or thread.daemon

    def start_thread_at(self, thread: Process, lines: tuple[CodeLine, ...]) -> None:
        """Record the lines of user code that start a thread."""
        thread.start_at(lines)
        self.locate(thread.index, thread.ops, lines)

    def locate(self, index: int, number: int, lines: tuple[CodeLine, ...]) -> None:
        """Record the lines of user code that issue an operation, if they are kept."""
        if self.located is not None:
            self.located[index, number] = lines

    def remove_threads(self, threads: list[Process]) -> None:
        for thread in threads:
            del self.threads[thread.index]
        self.strands = [*self.processes, *self.threads.values()] if self.threads else self.processes

    def lose_power(self, survivors: list[Outcome]) -> None:
        self.survivors = survivors

    def restore_power(self) -> None:
        self.survivors = None

    def stay_on(self) -> None:
        """Exclude a loss of power from now on."""
        self.stays_on = True

    def repeat_alone(self) -> None:
        """Let a spinning process repeat its request, because no other actor can step."""
        self.alone = True

    def end_repeating(self) -> None:
        self.alone = False

    def begin_rush(self, process: Process) -> None:
        """Let a held process take all rounds of its loop that are left."""
        self.rushing = process

    def count_rush(self) -> int:
        """Count a step of such a process; return the steps so far."""
        self.rushed += 1
        return self.rushed

    def end_rush(self, *, overran: bool = False) -> None:
        self.rushing = None
        self.overran = self.overran or overran

    def mark_waits(self, *, held_back: bool, rested: bool) -> None:
        """Record that a process or a daemon had to wait although other actors could step."""
        self.held_back = self.held_back or held_back
        self.rested = self.rested or rested

    # The end.

    def report_violation(self, name: str, reason: str, *, loop_at: int = -1) -> None:
        """Record a violation, unless there is one already or the property is known to be violated."""
        if self.violation is None and name not in self.settings.muted:
            self.violation = Violation(name, reason, loop_at)

    def find(self, finding: str) -> None:
        """Add a finding, once."""
        if finding not in self.findings:
            self.findings.append(finding)

    def at_end(self, call: Callable[[], None]) -> None:
        """Call this when the run is over."""
        self.closing.append(call)

    def complete(self) -> None:
        self.completed = True

    def collect(self, collect: Callable[[], object]) -> None:
        """Run the finalizers of what the run left behind; their requests are refused."""
        self.collecting = True
        try:
            collect()
        finally:
            self.collecting = False

    def close(self) -> None:
        for close in self.closing:
            close()
        self.closing.clear()
        for process in {*self.strands, *(step[2] for step in self.trace)}:
            if process is not None:
                process.let_go()

    def answer_directly(self, request: Request[Any]) -> Any:
        """Answer a request of the program that sets the world up, or of a check; it is no step."""
        if self.setup is None and not request.reads:
            raise Misuse("a check may look at the store, not change it")
        self.tickets += 1
        self.bucket.take_ticket(self.tickets)
        return self.bucket.answer(request, self.start_ns)
