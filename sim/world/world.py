"""The world as programs see it: processes, one store, one clock, choices, and what must hold.

    def program(world):
        store = world.store()
        world.spawn(worker, store, "a", name="a")
        world.always("one leader", lambda view: len(view.notes("leads")) <= 1)

`World` is a facade. Its `Settings` configure a run and its `RunState` holds it as data. Its `Scheduler`
offers the possible steps, its `Executor` takes them, its bucket answers requests, and its `Monitor` judges.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from fencepost.impl.environment import Environment
from fencepost.impl.store.bucket import PART_BYTES_MIN
from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.events import TraceFields
from fencepost.impl.store.interface import Store
from fencepost.properties.promises import BadPromise, parse
from fencepost.sim.faults import skew_ns
from fencepost.sim.world import budget as fault
from fencepost.sim.world import finalizers, places
from fencepost.sim.world.bucket import WorldBucket
from fencepost.sim.world.budget import Budget
from fencepost.sim.world.costs import AtMost
from fencepost.sim.world.deadlines import Deadlines
from fencepost.sim.world.declaring import Declaring
from fencepost.sim.world.executor import Executor
from fencepost.sim.world.folds import Fold
from fencepost.sim.world.folds import Step as FoldStep
from fencepost.sim.world.footprints import Footprints
from fencepost.sim.world.loops import WAIT_ROUNDS, Loops
from fencepost.sim.world.monitor import Follower, Monitor
from fencepost.sim.world.operations import Note, Pick, Post, Receive, own, plain
from fencepost.sim.world.process import Flight, Process, Recall, Step, refuse
from fencepost.sim.world.promised import Promised
from fencepost.sim.world.properties import Property, StepProperty
from fencepost.sim.world.record import StepRecord
from fencepost.sim.world.run import RunState, Violation
from fencepost.sim.world.scheduler import Scheduler
from fencepost.sim.world.settings import DAEMON_STEPS, Settings
from fencepost.sim.world.stamps import STAMPED, watch
from fencepost.sim.world.store import WorldEnvironment, WorldStore, issue
from fencepost.sim.world.view import View

if TYPE_CHECKING:
    from fencepost.sim.filesystem.files import Files
    from fencepost.sim.threads.sharing import Sharing

T = TypeVar("T")

Program = Callable[..., Any]
"""Sets up the world that it is called with."""


class World(Declaring):
    """One run."""

    run_type: ClassVar[type[RunState]] = RunState

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
        sharing: "Sharing | None" = None,
        lines: frozenset[str] = frozenset(),
        loops: Loops | None = None,
        wait_rounds: int = WAIT_ROUNDS,
        faults_max: int | None = None,
    ) -> None:
        pauses = () if deadlines is None or not budget.pause else deadlines.tried
        skews = () if deadlines is None or not budget.skew else deadlines.skews
        self.run = self.run_type(
            Settings(
                budget=budget,
                faults_max=faults_max,
                seed=seed,
                timed=timed,
                muted=muted,
                pauses=pauses,
                skews=skews,
                lines=lines,
                wait_rounds=wait_rounds,
            ),
            footprints or Footprints(),
            recall=recall,
            deadlines=deadlines,
            sharing=sharing,
            loops=loops,
        )
        self.run.equip(WorldEnvironment(self.run))
        self.run.open_store(WorldStore(self.run))
        self.judge = Monitor(self.run)
        self.scheduler = self._make_scheduler()
        self.executor = Executor(self.run, self.scheduler, self.judge)
        self.forbidden: set[str] = set()
        """Faults that the program forbids in this run."""
        self.measures: list[Callable[[Any], Mapping[str, int]]] = []
        """Called at the end of a run; the search keeps the largest of each number."""
        self.reports: list[Callable[[], Mapping[str, Any]]] = []
        """Called when the search is over; their results are added to its result."""

    def _make_scheduler(self) -> Scheduler:
        return Scheduler(self.run)

    # For programs.

    def store(self) -> Store:
        """Return the store of this world. All processes may share it."""
        return self._lasting().store

    @property
    def env(self) -> Environment:
        """Clock, randomness and identifiers of the world."""
        return self._lasting().env

    def _lasting(self) -> RunState:
        """Return the run, unless it is over."""
        if not hasattr(self.run, "store"):
            raise Misuse("this world's run is over; use the world that the program was called with last")
        return self.run

    def boto3_client(self, service: str = "s3", **options: Any) -> Any:
        """Return a client of the SDK that this world answers; `options` as for `boto3.client`.

        From here to the end of the run, time and randomness belong to the world too, see `sim.boto`.
        """
        from fencepost.sim.boto import client

        return client(self, service, **options)

    def boto3_resource(self, service: str = "s3", **options: Any) -> Any:
        """Return a resource of the SDK that this world answers; `options` as for `boto3.resource`."""
        from fencepost.sim.boto import resource

        return resource(self, service, **options)

    def boto3_session(self) -> Any:
        """Return a session of the SDK, whose clients and resources this world answers."""
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
        host = url.partition("://")[2].partition("/")[0] or url
        self._configure(s3_endpoints=(*self.settings.s3_endpoints, host))
        return url

    def filesystem(
        self, path: str = "/world", *, profile: str = "strict", volatile: Sequence[str] = ()
    ) -> Path:
        """Mount an empty file system at `path`, which must not exist on the real disk, and return the path.

        From here to the end of the run, plain `open`, `os`, `pathlib`, `shutil`, `tempfile` and `fcntl.flock`
        calls below it are the world's, and steps. Files that the program itself writes there are durable.
        `profile` says what a power loss may leave of the rest: "strict" or "ext4", see
        `sim.filesystem.survival`. `volatile` lists directories below `path` that exist when the processes
        start, and of whose names a power loss leaves none: right for temporary files that no recovery needs.
        """
        from fencepost.sim.filesystem import mount

        return mount(self.run, path, profile, volatile)

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
        others have ended, and one of them by a crash after which it did not start again. A daemon
        never ends: a run ends when all the others have ended.
        """
        name = self._name_for(fn, name)
        process = self.run.process_type(
            len(self.processes) + 1,
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
        self.run.add_process(process)
        if self.run.has_daemons and any(process.after_crash for process in self.processes):
            raise Misuse("a process with after_crash waits for all others to end, and a daemon does not")
        return name

    def forbid(self, *kinds: str) -> None:
        """Let this run have no fault of these kinds, whatever the budget: after a `pick`, for one or the
        other. The bound of the result says so.
        """
        self._only_at_first("faults are forbidden")
        self.forbidden |= set(kinds)
        self.run.forbid(kinds)

    def share_nothing(self) -> None:
        """Promise that processes share nothing but this world: no other process and no check reads a variable
        that one of them changes. Exploration is then several times faster, see `sim.world.process`.
        """
        self._configure(shares_nothing=True)

    def configure(
        self,
        *,
        versioned: bool = False,
        part_bytes_min: int = PART_BYTES_MIN,
        stamped: bool = True,
        skew_s: float | None = None,
        pause_s: float | None = None,
        ticks: int = 1,
        daemon_steps: int = DAEMON_STEPS,
    ) -> None:
        """Configure the bucket, before anything is stored; raises Misuse afterwards.

        `stamped=False` gives every object the same time of modification: right for code that never reads it,
        and fewer schedules when somebody else reads it. `ticks` says how often a second may pass by itself.
        `pause_s` is the length of every pause, instead of those that follow from deadlines.
        `skew_s` bounds the error of a skewed clock: it is off by this much, or by a deadline that is shorter.
        `daemon_steps`: after so many steps a daemon waits until no other process can go on.
        """
        if self.run.bucket.contents():
            raise Misuse("world.configure makes a new bucket: call it before anything is stored")
        self.run.make_bucket(versioned=versioned, part_bytes_min=part_bytes_min)
        self._configure(stamped=stamped, ticks=ticks, daemon_steps=daemon_steps)
        self.run.set_ticks(ticks)
        if pause_s is not None:
            self._configure(pause_ns=round(pause_s * 1e9), pauses=(), pause_fixed=True)
        if skew_s is not None:
            bound_ns = round(skew_s * 1e9)
            nearer = tuple(name for name in self.settings.skews if skew_ns(name) < bound_ns)
            self._configure(skew_ns=bound_ns, skews=nearer)

    def _configure(self, **changes: Any) -> None:
        self.run.reconfigure(replace(self.settings, **changes))

    def step_property(self, name: str, check: Callable[[View, View], Any]) -> None:
        """`check(before, after)` must hold for every step, and where nothing changes."""
        self._promise(StepProperty, name, check)

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
        the topics and `keys` the prefixes of the keys that it is shown; without both it is shown
        everything, which makes every order of two events matter.
        """
        self._only_at_first("monitors are declared")
        if self.promises_only:
            return
        if name in [fold.name for fold in self.judge.folds]:
            raise Misuse(f"two monitors cannot both be called {name!r}")
        self.judge.add_fold(Fold(name, initial, step, notes, keys))

    def promise(self, text: str) -> None:
        """Judge a ready property, as `--promise` does: `queue=jobs/`. See docs/guides/promises.md."""
        self._only_at_first("promises are made")
        try:
            made = parse(text)
        except BadPromise as error:
            raise Misuse(str(error)) from None
        if made.name in [promised.name for promised in self.judge.promises]:
            raise Misuse(f"{made.name} is promised twice")
        if made.name not in self.muted:
            self.judge.add_promise(Promised(made))

    def judge_promises_only(self) -> None:
        """Leave out the properties that the program declares from here on; promises are judged."""
        self._configure(promises_only=True)

    def follow(self, name: str, follower: Follower) -> None:
        """Show every landing and note to `follower`; a reason that it returns is a violation. System calls on
        `filesystem()` are shown to its method `called`, if it has one.
        """
        self._only_at_first("followers are named")
        if self.promises_only:
            return
        self.judge.add_follower(name, follower)

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Count the requests that the calling process sends inside the `with` as one operation of this name.

        Entering and leaving are no steps. The result always has what a process costs from its start to its
        end.
        """
        process = self.run.running
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
        given: tuple[Any, ...] = (requests, hops, faults)
        if requests is None and hops is None:
            raise Misuse(f"at_most({name!r}) bounds nothing; give requests=, hops=, or both")
        if any(number is not None and (not isinstance(number, int) or number < 0) for number in given):
            raise Misuse(f"at_most({name!r}) takes whole numbers, at least 0")
        if not self.promises_only:
            self.judge.add_bounds([AtMost(name, *given)])

    def measure(self, measure: Callable[[Self], Mapping[str, int]]) -> None:
        """Call `measure` at the end of every run; the audit reports the largest of each number."""
        self.measures.append(measure)

    def report(self, report: Callable[[], Mapping[str, Any]]) -> None:
        """Call `report` once, when everything is explored, and add what it returns to the result."""
        self.reports.append(report)

    def note(self, topic: str, value: Any = None) -> None:
        """Show `value` to the properties, which may read nothing else besides the store."""
        process = self.run.running
        if process is None:
            self.run.note("setup", topic, own(value))
            return
        issue(self.run, process, Note(topic, own(value)))

    def post(self, channel: str, message: Any) -> None:
        """Send a message, such as the notification of a new object. It may be delayed, and overtaken."""
        process = self.run.running
        if process is None:
            raise Misuse("messages are posted by processes")
        issue(self.run, process, Post(channel, own(message)))

    def receive(self, channel: str) -> Any:
        """Return the next message that has arrived at `channel`; None when none has."""
        process = self.run.running
        if process is None:
            raise Misuse("messages are received by processes")
        return issue(self.run, process, Receive(channel))

    def pick(self, name: str, options: Sequence[T]) -> T:
        """One of `options`: a choice of data, of which the exploration tries every one."""
        caller = self.run.running or self.run.setup
        if caller is None:
            raise Misuse("pick is for programs and processes; a check cannot choose")
        chosen: int = issue(self.run, caller, Pick(name, len(options)))
        return options[chosen]

    # For searches.

    @property
    def settings(self) -> Settings:
        return self.run.settings

    @property
    def footprints(self) -> Footprints:
        return self.run.footprints

    @property
    def bucket(self) -> WorldBucket:
        return self.run.bucket

    @property
    def files(self) -> "Files":
        """The file system that the program mounted."""
        files = self.run.files
        if files is None:
            raise Misuse("the program mounted no world.filesystem()")
        return files

    @property
    def start_ns(self) -> int:
        """Time of the true clock at the start, in nanoseconds since 1970."""
        return self.run.start_ns

    @property
    def clock_ns(self) -> int:
        """Simulated nanoseconds since the start."""
        return self.run.clock_ns

    @property
    def noted(self) -> Mapping[str, Sequence[tuple[str, Any]]]:
        """Notes by topic, each with the name of the process that made it."""
        return self.run.noted

    @property
    def processes(self) -> list[Process]:
        return self.run.processes

    @property
    def strands(self) -> list[Process]:
        """Processes and threads."""
        return self.run.strands

    @property
    def flights(self) -> Mapping[int, Flight]:
        """Requests in flight, by the number of the actor."""
        return self.run.flights

    @property
    def trace(self) -> list[Step]:
        return self.run.trace

    @property
    def properties(self) -> list[Property]:
        return self.judge.properties

    @property
    def violation(self) -> Violation | None:
        return self.run.violation

    @property
    def findings(self) -> list[str]:
        return self.run.findings

    @property
    def muted(self) -> frozenset[str]:
        return self.settings.muted

    @property
    def promises_only(self) -> bool:
        return self.settings.promises_only

    @property
    def setting_up(self) -> bool:
        return self.run.setting_up

    @property
    def me(self) -> str:
        """The name of the process that is running."""
        return self.run.running.name if self.run.running is not None else "setup"

    def _declare(self, promise: Property) -> None:
        self.judge.declare(promise)

    def bound(self, bounds: Iterable[AtMost]) -> None:
        """Add bounds on what operations may cost."""
        self.judge.add_bounds(bounds)

    def show_bodies(self, fields: TraceFields) -> None:
        """Show these fields of bodies in the events of the run, see `impl.store.events`."""
        self._configure(trace_fields=fields)

    def lose_replies_as(self, how: str) -> None:
        """Show lost replies to an SDK in this form, see `sim.boto.lost_shows_as`."""
        self._configure(lost_reply=how)

    def allow_lengths(self, pauses: Iterable[str], skews: Iterable[str]) -> None:
        """Offer these alternatives of a pause and of a skewed clock too."""
        self._configure(
            pauses=tuple(dict.fromkeys([*self.settings.pauses, *pauses])),
            skews=tuple(dict.fromkeys([*self.settings.skews, *skews])),
        )

    def at_end(self, call: Callable[[], None]) -> None:
        """Call this when the run is over."""
        self.run.at_end(call)

    def expect(self, name: str) -> None:
        """Prepare for a step of the process with this name. Here every process is always ready."""

    def start(self, program: Program) -> None:
        """Set the world up and run every process to its first step."""
        self.run.use_thread()
        finalizers.hold()
        places.enter(self.run, program)
        if self.settings.lines:
            from fencepost.sim.threads import lines

            lines.apply(program, self.settings.lines)
        watch(self.run)
        if self.run.variables is not None:
            self.run.variables.begin()
        self.executor.start(program, self)

    def enabled(self) -> list[int]:
        """Return the actors that may step; none when the run is complete."""
        return self.scheduler.enabled()

    def alternatives(self, actor: int) -> tuple[str, ...]:
        """Return the alternatives of the actor's next step, the harmless one first."""
        return self.scheduler.alternatives(actor)

    def pending(self, actor: int) -> Any:
        """Return the operation of the actor's next step."""
        return self.scheduler.pending(actor)

    def step(self, actor: int, alternative: str) -> StepRecord:
        """Let `actor` take its next step, with this alternative, and judge it."""
        return self.executor.step(actor, alternative)

    def complete(self) -> None:
        """Judge what must hold in the end: no actor can step any more."""
        run = self.run
        finalizers.collect(run)
        run.complete()
        if run.violation is None:
            self.executor.threads.find_deadlock()
        if run.violation is None:
            self.judge.complete()

    def close(self) -> None:
        """Unwind every process that has not ended."""
        run = self.run
        self.executor.close()
        if not run.completed:
            run.complete()
            finalizers.collect(run)
        run.close()
        if run.variables is not None:
            run.variables.end()
        places.leave(run)
        del run.env, run.store
        finalizers.let_go()

    def state(self, memories: tuple[Any, ...]) -> Any:
        """Return everything on which the future depends; `memories`: by process, a number for its memory."""
        run = self.run
        crashes = run.budget_left[fault.CRASH]
        processes = [
            (
                process.state,
                memories[process.index] if process.pending is not None else _ending(process),
                crashes and process.effective,
                process.retried,
                process.rounds.period and process.rounds.state(),  # most have none: no call for them
                process.blocked and True,
                process.naps and (process.naps, process.nap_reads),
                process.skew_ns,
                None if process.group is None else tuple(process.group.replies),
                process.taken,
            )
            for process in run.processes
        ]
        flights = [
            (f.actor, f.retried, plain(f.request.message) if f.request.kind == "post" else f.request)
            for f in run.flights.values()
        ]
        return (
            run.bucket.state(),
            run.budget_left,
            (run.clock_ns, run.ticks_left, run.observed),
            tuple(processes),
            tuple(sorted(flights)) if len(flights) > 1 else tuple(flights),
            tuple([(topic, plain(notes)) for topic, notes in sorted(run.noted.items())]) if run.noted else (),
            plain(run.channels) if run.channels else None,
            self.judge.state(),
            None if run.files is None else (run.files.state(), run.stays_on, len(run.survivors or ())),
            self.executor.threads.state(crashes) if run.threads else None,
            None if run.rushing is None else (run.rushing.index, self.executor.waited_ns),
        )

    def endured(self, memories: tuple[Any, ...]) -> Any:
        """Return everything on which the future after a power loss depends; see `state`."""
        run = self.run
        return (
            self.files.survivable(),
            run.bucket.state(),
            run.budget_left,
            (run.clock_ns, run.ticks_left, run.observed),
            tuple(
                [
                    (process.state, process.skew_ns, memories[process.index] if process.restart else None)
                    if process.pending is not None
                    else (process.state, _ending(process))
                    for process in run.processes
                ]
            ),
            tuple(sorted((f.actor, f.retried) for f in run.flights.values() if f.zombie)),
            tuple([(topic, plain(notes)) for topic, notes in sorted(run.noted.items())]),
            plain(run.channels) if run.channels else None,
            self.judge.state(),
        )


def _ending(process: Process) -> Any:
    """Return the result or the error of a process that ended, as a value that can be compared."""
    if process.error is None:
        return plain(process.result)
    return (type(process.error), str(process.error))
