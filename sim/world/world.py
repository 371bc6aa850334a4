"""The world as programs see it: processes, one store, one clock, choices, and what must hold.

    def program(world):
        store = world.store()
        world.spawn(worker, store, "a", name="a")
        world.always("one leader", lambda view: len(view.notes("leads")) <= 1)

`World` holds one run as data. Its `Scheduler` offers the possible steps, its `Executor` takes them, its
bucket answers requests, and its `Monitor` judges.
"""

from _thread import get_ident
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

from fencepost.impl.store.bucket import PART_BYTES_MIN
from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.events import TraceFields
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Reply
from fencepost.sim.world import budget as fault
from fencepost.sim.world import finalizers, places
from fencepost.sim.world.budget import Budget
from fencepost.sim.world.costs import AtMost
from fencepost.sim.world.deadlines import Deadlines
from fencepost.sim.world.declaring import Declaring
from fencepost.sim.world.escapes import elsewhere
from fencepost.sim.world.executor import Executor
from fencepost.sim.world.folds import Fold
from fencepost.sim.world.folds import Step as FoldStep
from fencepost.sim.world.footprints import EVERY_STEP, FLIGHTS_FROM, Footprints
from fencepost.sim.world.monitor import STEP, Follower, Monitor, Property, View, Violation
from fencepost.sim.world.operations import Note, Pick, Post, Receive, own
from fencepost.sim.world.process import Flight, Process, Recall, refuse
from fencepost.sim.world.scheduler import Scheduler
from fencepost.sim.world.stamps import STAMPED, watch
from fencepost.sim.world.store import WorldBucket, WorldEnvironment, WorldStore, issue

T = TypeVar("T")

Program = Callable[["World"], Any]
Step = tuple[int, str, Process | None, int, int, Any, Any, int]
"""Actor, alternative, process, incarnation, number of the operation, operation, answer, clock."""

START_NS = 1_700_000_000_000_000_000
DAEMON_STEPS = 8
"""Steps that a daemon may take while others can go on."""


class World(Declaring):
    """One run."""

    def __init__(
        self,
        footprints: Footprints | None = None,
        budget: Budget = fault.NO_FAULTS,
        *,
        seed: int = 0,
        timed: int = STAMPED,
        recall: Recall | None = None,
        deadlines: Deadlines | None = None,
        muted: frozenset[str] = frozenset(),
        sharing: Any = None,
    ) -> None:
        self.footprints = footprints or Footprints()
        self.seed = seed
        self.timed = timed
        """How much time is explored, see `stamps`."""
        self.recall = recall
        self.shares_nothing = False
        self.stamped = True
        self.bucket = WorldBucket()
        self.start_ns = START_NS
        self.clock_ns = 0
        self.left = budget.left()
        self.restarts_run_out = 0 < budget.restart < budget.crash
        self.skew_ns = 30_000_000_000
        self.pause_ns = 60_000_000_000
        self.muted = muted
        """Properties that are not judged, because they are known to be broken."""
        self.deadlines = deadlines
        """What pause lengths are learnt from; None when they are not."""
        self.pauses = () if deadlines is None else deadlines.tried
        """The alternatives of a pause besides the usual one."""
        self.tracked = 0
        """Clock readings that remember where they came from."""
        self.tick_ns = 1_000_000_000
        self.ticks = self.ticks_max = 1
        """How often a moment may still pass by itself."""
        self.observed = False
        """Whether some process knows the present time."""
        self.readings = 0
        """How often the clock was read without a step."""
        self.streams: dict[Any, Any] = {}
        self.noted: dict[str, list[tuple[str, Any]]] = {}
        self.channels: dict[str, tuple[Any, ...]] = {}
        """The messages that have arrived and were not received yet."""
        self.setup: Process | None = None
        """The program, until it returns."""
        self.processes: list[Process] = []
        self.threads: dict[int, Process] = {}
        """By the number of the actor: threads of processes, see `sim.threads`."""
        self.sharing = sharing
        """Finds out which threads share memory, see `sim.threads.sharing`; None: all steps of threads do."""
        self.touched = 0
        """The locks, queues and futures that the step used, as a mask."""
        self.strands: list[Process] = self.processes
        """Processes and threads."""
        self.made = 0
        """Locks and queues that the set-up has made."""
        self.has_loops = False
        """Whether a process has an event loop, see `sim.threads.loop`."""
        self.process_type = Process
        self.has_daemons = False
        self.daemon_steps = DAEMON_STEPS
        self.rested = False
        """Whether a daemon had to wait although others could go on."""
        self.has_step_properties = False
        self.flights: dict[int, Flight] = {}
        self.files: Any = None
        """The file system, where the program mounted one, see `sim.filesystem`."""
        self.survivors: list[Any] | None = None
        """After a power loss, the states of the disk of which one is to be picked."""
        self.forbidden: set[str] = set()
        """The faults that the program forbids in this run."""
        self.stays_on = False
        """Whether it is decided that power is not lost any more."""
        self.properties: list[Property] = []
        self.trace: list[Step] = []
        self.measures: list[Callable[[Any], Mapping[str, int]]] = []
        """Called at the end of a run; the search keeps the largest of each number."""
        self.bounds: list[AtMost] = []
        """What operations may cost."""
        self.reports: list[Callable[[], Mapping[str, Any]]] = []
        """Called when the search is over: what they return is added to its result."""
        self.unreceived: dict[int, Any] = {}
        """By step, the replies that the store gave and no process received."""
        self.running: Process | None = None
        self.violation: Violation | None = None
        self.findings: list[str] = []
        self.held_back = False
        """Whether a process that spins had to wait while others could go on."""
        self.alone = False
        """Whether the next step is a spinning process's, because no other actor can step."""
        self.time_mattered = 0
        """How much time the run showed to matter, see `stamps`."""
        self.r = EVERY_STEP
        """The footprint of the last step: what it read,"""
        self.w = 0
        """and what it wrote."""
        self.is_barrier = False
        """Whether every later step comes after every step so far: power was lost, or all have ended."""
        self.before = 0
        """The steps that certainly came before the last one, as a bit set."""
        self.learnt: tuple[int, Any] | list[tuple[int, Any]] | None = None
        """The process that the last step answered, and the answer: what its memory is made of. A list where
        it was several.
        """
        self.located: dict[tuple[int, int], Any] | None = None
        """By process and number of the operation: the user's lines, see `located`; None: not kept."""
        self.trace_fields: TraceFields | None = None
        """What the run's events show of bodies, see `impl.store.events`."""
        self.s3_endpoints: list[str] = []
        """Hosts that the program declared to be S3, see `sim.boto.wire`."""
        self.boto3_lost = "closed"
        """How a lost reply shows to the SDK, see `sim.boto`."""
        self.thread = get_ident()
        """The one thread in which the world runs."""
        self.completed = False
        """Whether the run has been judged, or given up."""
        self.collecting = False
        """Whether the run is complete, and finalizers run."""
        self.closing: list[Callable[[], None]] = []
        """Called when the run is over."""
        self.env = WorldEnvironment(self)
        self._store = WorldStore(self)
        self._tickets = 0
        self.judge = Monitor(self)
        self._executor = Executor(self, self.judge)
        scheduler = Scheduler(self)  # its methods are called at every step: no call in between
        self.enabled = scheduler.enabled
        self.alternatives = scheduler.alternatives
        self.pending = scheduler.pending
        self.rivals = scheduler.rivals
        self.next_wake = scheduler.next_wake
        self.is_of_a_daemon = scheduler.is_of_a_daemon
        self.step = self._executor.step
        self.past = self._executor.past
        self.spawn_thread = self._executor.threads.spawn

    # For programs.

    def store(self) -> Store:
        """The store of this world. All processes may share it."""
        return self._store

    def boto3_client(self, service: str = "s3", **options: Any) -> Any:
        """A client of the SDK that this world answers; `options` as for `boto3.client`.

        From here to the end of the run, time and randomness belong to the world too, see `sim.boto`.
        """
        from fencepost.sim.boto import client

        return client(self, service, **options)

    def boto3_resource(self, service: str = "s3", **options: Any) -> Any:
        """A resource of the SDK that this world answers; `options` as for `boto3.resource`."""
        from fencepost.sim.boto import resource

        return resource(self, service, **options)

    def boto3_session(self) -> Any:
        """A session of the SDK, whose clients and resources this world answers."""
        from fencepost.sim.boto import session

        return session(self)

    def boto3_bucket(self, name: str, *, versioned: bool | None = None) -> str:
        """Make a bucket that the SDK's clients find, and return its name. Its keys are `name/key` here."""
        from fencepost.sim.boto import bucket

        return bucket(self, name, versioned=versioned)

    def s3_endpoint(self, url: str) -> str:
        """Declare that requests to this URL are for S3, and return it: for clients that are not boto3, and do
        not sign their requests.
        """
        self.s3_endpoints.append(url.partition("://")[2].partition("/")[0] or url)
        return url

    def filesystem(
        self, path: str = "/world", *, profile: str = "strict", volatile: Sequence[str] = ()
    ) -> Path:
        """Mount an empty file system at `path`, which must not exist on the real disk, and return the path.

        From here to the end of the run, plain `open`, `os`, `pathlib`, `shutil`, `tempfile` and `fcntl.flock`
        calls below it are the world's, and steps. What the program itself writes there is durable. `profile`
        says what a power loss may leave of the rest: "strict" or "ext4", see `sim.filesystem.survival`.
        `volatile` lists directories below `path` that exist when the processes start, and of whose names a
        power loss leaves none: right for temporary files that nobody looks for afterwards.
        """
        from fencepost.sim.filesystem import mount

        return mount(self, path, profile, volatile)

    def spawn(
        self,
        fn: Callable[..., Any],
        *args: Any,
        name: str = "",
        restart: bool = True,
        may_raise: tuple[type[BaseException], ...] = (),
        after_power_loss: bool = False,
        after_crash: bool = False,
        daemon: bool = False,
        **kwargs: Any,
    ) -> str:
        """Run `fn(*args)` as a process. Returns its name.

        After a crash it starts again from the beginning, unless `restart` is off. An exception that leaves it
        is a violation, unless it is one of `may_raise`. With `after_power_loss` it runs only when power was
        lost and is back, beside the processes that start again. With `after_crash` it runs only when all the
        others have ended, and one of them by a crash after which it did not start again. A daemon goes on and
        on: a run ends when all the others have ended.
        """
        name = self._name_for(fn, name)
        number = len(self.processes) + 1
        self.processes.append(
            self.process_type(
                number,
                name,
                fn,
                args,
                kwargs,
                restart,
                may_raise,
                self.trace,
                after_power_loss=after_power_loss,
                after_crash=after_crash,
                daemon=daemon,
            )
        )
        self.has_daemons = self.has_daemons or daemon
        if self.has_daemons and any(process.after_crash for process in self.processes):
            raise Misuse("a process with after_crash waits for all others to end, and a daemon does not")
        return name

    def forbid(self, *kinds: str) -> None:
        """Let this run have no fault of these kinds, whatever the budget: after a `pick`, for one or the
        other. The bound of the result says so.
        """
        self._only_at_first("faults are forbidden")
        self.forbidden |= set(kinds)
        self.left = fault.without(self.left, kinds)

    def share_nothing(self) -> None:
        """Promise that processes share nothing but this world: no other process and no check reads a variable
        that one of them changes. Exploration is then several times faster, see `sim.world.process`.
        """
        self.shares_nothing = True

    def configure(
        self,
        *,
        versioned: bool = False,
        part_bytes_min: int = PART_BYTES_MIN,
        stamped: bool = True,
        skew_s: float = 30.0,
        pause_s: float | None = None,
        ticks: int = 1,
        daemon_steps: int = DAEMON_STEPS,
    ) -> None:
        """Configure the bucket; call it before anything is stored.

        `stamped=False` gives every object the same time of modification: right for code that never reads it,
        and fewer schedules when somebody else reads it. `ticks` says how often a second may pass by itself.
        `pause_s` is the length of every pause, instead of those that follow from deadlines.
        `daemon_steps`: after so many steps a daemon waits until no other process can go on.
        """
        self.bucket = WorldBucket(versioned=versioned, part_bytes_min=part_bytes_min)
        self.stamped = stamped
        self.skew_ns = round(skew_s * 1e9)
        if pause_s is not None:
            self.pause_ns, self.deadlines, self.pauses = round(pause_s * 1e9), None, ()
        self.ticks = self.ticks_max = ticks
        self.daemon_steps = daemon_steps

    def step_property(self, name: str, check: Callable[[View, View], Any]) -> None:
        """`check(before, after)` must hold for every step, and where nothing changes."""
        self._promise(name, STEP, check)
        self.has_step_properties = True

    def monitor(
        self,
        name: str,
        initial: Any,
        step: FoldStep,
        *,
        notes: Sequence[str] | None = None,
        keys: Sequence[str] | None = None,
    ) -> None:
        """Fold the notes and the writes of every run: `step(state, event)` returns the next state.

        It returns `Violated(reason)` or raises AssertionError for an event that must not happen. `notes` are
        the topics and `keys` the prefixes of the keys that it sees; without both it sees everything, which
        makes every order of two events matter.
        """
        self._only_at_first("monitors are declared")
        if name in [fold.name for fold in self.judge.folds]:
            raise Misuse(f"two monitors cannot both be called {name!r}")
        self.judge.folds.append(Fold(name, initial, step, notes, keys))

    def follow(self, name: str, follower: Follower) -> None:
        """Show every landing and note to `follower`; a reason that it returns is a violation. System calls on
        `filesystem()` are shown to its method `called`, if it has one.
        """
        self._only_at_first("followers are named")
        self.judge.followers.append((name, follower))
        called: Any = getattr(follower, "called", None)
        if called is not None:
            self.judge.callers.append((name, called))

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Count the requests that the calling process sends inside the `with` as one operation of this name.

        Entering and leaving are no steps. The result always has what a process costs from its start to its
        end.
        """
        process = self.running
        if process is None:
            raise Misuse("operations are named by processes")
        if process.crashing:
            refuse(process)
        if any(name == other.name for other in self.processes):
            raise Misuse(
                f"a process is called {name!r}, and its costs have that name; give the operation another"
            )
        process.mark(name, begins=True)
        try:
            yield
        finally:
            if not process.crashing:
                process.mark(name, begins=False)

    def at_most(
        self, name: str, *, requests: int | None = None, hops: int | None = None, faults: int | None = None
    ) -> None:
        """State what every operation or process of this name may cost, in runs with at most `faults` faults.

        Judged in every schedule, see `sim.world.costs`; without `faults` whatever faults it has.
        """
        self._only_at_first("bounds are stated")
        given = (requests, hops, faults)
        if requests is None and hops is None:
            raise Misuse(f"at_most({name!r}) bounds nothing; give requests=, hops=, or both")
        if any(number is not None and (not isinstance(number, int) or number < 0) for number in given):
            raise Misuse(f"at_most({name!r}) takes whole numbers, at least 0")
        self.bounds.append(AtMost(name, *given))

    def measure(self, measure: Callable[[Self], Mapping[str, int]]) -> None:
        """Call `measure` at the end of every run; the audit reports the largest of each number."""
        self.measures.append(measure)

    def report(self, report: Callable[[], Mapping[str, Any]]) -> None:
        """Call `report` once, when everything is explored, and add what it returns to the result."""
        self.reports.append(report)

    def note(self, topic: str, value: Any = None) -> None:
        """Show `value` to the properties, which may read nothing else besides the store."""
        process = self.running
        if process is None:
            self.noted.setdefault(topic, []).append(("setup", own(value)))
            return
        issue(self, process, Note(topic, own(value)))

    def post(self, channel: str, message: Any) -> None:
        """Send a message, such as the notification of a new object. It may be delayed, and overtaken."""
        process = self.running
        if process is None:
            raise Misuse("messages are posted by processes")
        issue(self, process, Post(channel, own(message)))

    def receive(self, channel: str) -> Any:
        """The next message that has arrived at `channel`; None when none has."""
        process = self.running
        if process is None:
            raise Misuse("messages are received by processes")
        return issue(self, process, Receive(channel))

    def pick(self, name: str, options: Sequence[T]) -> T:
        """One of `options`: a choice of data, of which the exploration tries every one."""
        caller = self.running or self.setup
        if caller is None:
            raise Misuse("pick is for programs and processes; a check cannot choose")
        chosen: int = issue(self, caller, Pick(name, len(options)))
        return options[chosen]

    # For searches.

    def expect(self, name: str) -> None:
        """A replay goes on with the process of this name. Here every process is always ready to."""

    def strand(self, actor: int) -> Process:
        """The process or thread with this number."""
        return self.processes[actor - 1] if actor < FLIGHTS_FROM else self.threads[actor]

    def start(self, program: Program) -> None:
        """Set the world up and run every process to its first step."""
        self.thread = get_ident()
        finalizers.hold()
        places.enter(self, program)
        watch(self)
        self._executor.start(program)

    def report_violation(self, name: str, reason: str) -> None:
        """The run violates a property, unless that is known and others are looked for."""
        if self.violation is None and name not in self.muted:
            self.violation = Violation(name, reason)

    def complete(self) -> None:
        """No actor can step any more: judge what must hold in the end."""
        finalizers.collect(self)
        self.completed = True
        if self.violation is None:
            self._executor.threads.find_deadlock()
        if self.violation is None:
            self.judge.complete()

    def close(self) -> None:
        """Unwind every process that has not ended."""
        self._executor.close()
        if not self.completed:
            self.completed = True
            finalizers.collect(self)
        for close in self.closing:
            close()
        self.closing.clear()
        places.leave(self)
        finalizers.let_go()

    def state(self, memories: tuple[Any, ...]) -> Any:
        """Everything on which the future depends. `memories` stands for what each running process knows."""
        crashes = self.left[fault.CRASH]
        processes = [
            (
                process.state,
                memories[process.index] if process.pending is not None else _ending(process),
                crashes and process.effective,
                process.retried,
                process.spins,
                process.naps and (process.naps, process.nap_reads),
                process.skew_ns,
                None if process.group is None else tuple(process.group.replies),
                process.taken,
            )
            for process in self.processes
        ]
        flights = [
            (f.actor, f.retried, _plain(f.request.message) if f.request.kind == "post" else f.request)
            for f in self.flights.values()
        ]
        return (
            self.bucket.state(),
            self.left,
            (self.clock_ns, self.ticks, self.observed),
            tuple(processes),
            tuple(sorted(flights)) if len(flights) > 1 else tuple(flights),
            tuple([(topic, _plain(notes)) for topic, notes in sorted(self.noted.items())]),
            _plain(self.channels) if self.channels else None,
            self.judge.judgement(),
            tuple([follower.state() for _, follower in self.judge.followers]),
            tuple([_plain(fold.state) for fold in self.judge.folds]),
            None if self.files is None else (self.files.state(), self.stays_on, len(self.survivors or ())),
            self._executor.threads.state(crashes) if self.threads else None,
        )

    @property
    def loses_power(self) -> bool:
        """Whether power may still be lost."""
        return bool(self.left[fault.POWER_LOSS])

    def endured(self, memories: tuple[Any, ...]) -> Any:
        """Everything on which the future after a power loss depends; see `state`."""
        return (
            self.files.survivable(),
            self.bucket.state(),
            self.left,
            (self.clock_ns, self.ticks, self.observed),
            tuple(
                [
                    (process.state, process.skew_ns, memories[process.index] if process.restart else None)
                    if process.pending is not None
                    else (process.state, _ending(process))
                    for process in self.processes
                ]
            ),
            tuple(sorted((f.actor, f.retried) for f in self.flights.values() if f.zombie)),
            tuple([(topic, _plain(notes)) for topic, notes in sorted(self.noted.items())]),
            _plain(self.channels) if self.channels else None,
            self.judge.judgement(),
            tuple([follower.state() for _, follower in self.judge.followers]),
            tuple([_plain(fold.state) for fold in self.judge.folds]),
        )

    @property
    def stamp_ns(self) -> int:
        """The time that a write is stamped with, counted from the start."""
        return self.clock_ns if self.stamped and self.timed >= STAMPED else 0

    @property
    def setting_up(self) -> bool:
        """Whether the program that sets the world up has not returned yet."""
        return self.setup is not None

    @property
    def me(self) -> str:
        """The name of the process that is running."""
        return self.running.name if self.running is not None else "setup"

    def answer_directly(self, request: Any) -> Reply:
        """A request by the program itself, before the processes run."""
        if get_ident() != self.thread:
            raise elsewhere(self, request)
        if self.collecting:
            raise Misuse(finalizers.left_behind(self, f"{request.kind} {request.subject}"))
        if self.setup is None and not request.reads:
            raise Misuse("a check may look at the store, not change it")
        self._tickets += 1
        self.bucket.ticket = self._tickets
        return self.bucket.answer(request, self.start_ns)


def _ending(process: Process) -> Any:
    """The result or the error of a process that ended, as a value that can be compared."""
    if process.error is None:
        return _plain(process.result)
    return (type(process.error), str(process.error))


def _plain(value: Any) -> Any:
    """A hashable value that is equal only for equal values; what cannot be compared equals itself."""
    if isinstance(value, list | tuple):
        return (type(value), tuple([_plain(item) for item in value]))
    if isinstance(value, dict):
        return (dict, tuple([(_plain(key), _plain(item)) for key, item in value.items()]))
    if isinstance(value, set):
        return (set, frozenset(_plain(item) for item in value))
    try:
        hash(value)
    except TypeError:
        return object()
    return (type(value), value)
