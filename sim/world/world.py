"""The world: processes, one bucket, one clock, and the steps that a scheduler may take next.

Theory. A process runs until it asks for something: a request, a sleep, a clock reading, a note, its own
end. That is one *step* of the schedule, and it is taken when the scheduler says so: the request lands,
its reply is delivered, and the process runs on to what it asks for next. Landing and delivery are one
step, because nothing that others could notice lies between them: a reply that is slow to arrive is a
next step that is slow to be taken. What does differ is an alternative of the step (see `budget`).

Who may step is an *actor*: a process (numbered from 1; 0 is the program that sets the world up), a
request in flight that has a life of its own, or the clock. The clock moves to the next time somebody
sleeps for: free of charge when nobody else can step (time passes when all wait), else, or further, at
the price of one stall, because then a process that could have gone on was slow. So a loop that sleeps
and asks again is followed fairly: it spins only while the others wait too. A loop that does not even
sleep is followed for `SPINS` rounds in vain; then it waits until something it reads has changed, or until
nobody else can do anything. So an attempt counted beyond that, while others could go on, is not explored.

A run is a function of the choices (actor, alternative), of nothing else. `r` and `w` say what the last
step read and wrote (see `objects`); `before` which steps came before it for certain, as a bit set.
"""

from collections.abc import Callable, Sequence
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from typing import Any, ClassVar, TypeVar

from holdfast.impl.store import requests as ask
from holdfast.impl.store.bucket import PART_BYTES_MIN
from holdfast.impl.store.errors import Misuse, StoreError
from holdfast.impl.store.interface import Store
from holdfast.impl.store.requests import Outcome, Reply
from holdfast.sim.world import budget as fault
from holdfast.sim.world.budget import Budget
from holdfast.sim.world.landing import WorldBucket
from holdfast.sim.world.objects import CLOCK, EVERY_STEP, EVERYTHING, Objects
from holdfast.sim.world.operations import (
    ADVANCE,
    Finish,
    Note,
    Parallel,
    Pick,
    ReadClock,
    Sleep,
    Wake,
    same,
)
from holdfast.sim.world.process import Flight, Group, Process
from holdfast.sim.world.store import WorldEnvironment, WorldStore, refuse
from holdfast.sim.world.view import ALWAYS, EVENTUALLY, FINALLY, SOMETIMES, Check, Property, View, Violation

T = TypeVar("T")

Program = Callable[["World"], Any]
Step = tuple[int, str, Process | None, int, int, Any, Any, int]
"""Actor, alternative, process, incarnation, number of the operation, operation, answer, clock."""

CLOCK_ACTOR = 900
SPINS = 5
"""Rounds in which a process may ask the same and be told the same while others could go on."""
START_NS = 1_700_000_000_000_000_000
OPERATIONS = 10_000
"""Operations an incarnation may issue before its numbers run into the next one's."""
TICKETS = 100_000_000
"""Numbers set aside for the writes of one process."""


class World:
    """One run. Programs use the first half, schedulers the second."""

    def __init__(
        self,
        objects: Objects | None = None,
        budget: Budget = fault.NO_FAULTS,
        *,
        seed: int = 0,
        timed: bool = True,
    ) -> None:
        self.objects = objects or Objects()
        self.seed = seed
        self.timed = timed
        """Whether clock readings are steps. They need not be as long as nobody ever sleeps."""
        self.bucket = WorldBucket()
        self.start_ns = START_NS
        self.clock_ns = 0
        self.left = budget.left()
        self.skew_ns = 30_000_000_000
        self.pause_ns = 60_000_000_000
        self.streams: dict[Any, Any] = {}
        self.noted: dict[str, list[tuple[str, Any]]] = {}
        self.processes: list[Process] = []
        self.flights: dict[int, Flight] = {}
        self.properties: list[Property] = []
        self.trace: list[Step] = []
        self.running: Process | None = None
        self.violation: Violation | None = None
        self.findings: list[str] = []
        self.time_mattered = False
        """Whether anybody slept, or read a clock that could have moved on."""
        self.judging = True
        """Off while the beginning of a run is repeated, whose judgements are known."""
        self.r = EVERY_STEP
        self.w = 0
        self.before = 0
        self.told: tuple[int, Any] | None = None
        """Which process was told what by the last step: what its memory is made of."""
        self.env = WorldEnvironment(self)
        self._store = WorldStore(self)
        self._view = View(self)
        self._watched = 0
        self._ticks = 0
        self._alone = False
        """Whether the next step is a spinning process's, because nobody else can step."""
        self._setup: Process | None = None
        self._tickets = 0
        self._stamped = True
        self.boto3_lost = "closed"
        """How a lost reply shows to the SDK, see `sim.boto`."""
        self.closing: list[Callable[[], None]] = []
        """Called when the run is over."""

    # What a program uses.

    def store(self) -> Store:
        """The store of this world. All processes may share it."""
        return self._store

    def boto3_client(self, service: str = "s3", **options: Any) -> Any:
        """A client of the SDK that this world answers; `options` as for `boto3.client`.

        From here to the end of the run, time and randomness belong to the world too, see `sim.boto`.
        """
        from holdfast.sim.boto import client

        return client(self, service, **options)

    def boto3_resource(self, service: str = "s3", **options: Any) -> Any:
        """A resource of the SDK that this world answers; `options` as for `boto3.resource`."""
        from holdfast.sim.boto import resource

        return resource(self, service, **options)

    def boto3_session(self) -> Any:
        """A session of the SDK, whose clients and resources this world answers."""
        from holdfast.sim.boto import session

        return session(self)

    def boto3_bucket(self, name: str, *, versioned: bool | None = None) -> str:
        """Make a bucket that the SDK's clients find, and return its name. Its keys are `name/key` here."""
        from holdfast.sim.boto import bucket

        return bucket(self, name, versioned=versioned)

    def spawn(
        self,
        fn: Callable[..., Any],
        *args: Any,
        name: str = "",
        restart: bool = True,
        may_raise: tuple[type[BaseException], ...] = (),
        **kwargs: Any,
    ) -> str:
        """Let `fn(*args)` run as a process. Returns its name.

        After a crash it starts again from the beginning, unless `restart` is off. An exception that
        leaves it is a violation, unless it is one of `may_raise`.
        """
        if self._setup is None:
            raise Misuse("processes are spawned by the program, before any of them runs")
        code = getattr(fn, "__code__", None)
        if code is not None and code.co_flags & _DEFERRED:
            # Calling it would only make an object, and its body would pass without being run.
            raise Misuse(
                f"{fn.__qualname__} is async or a generator; a process is an ordinary function that blocks"
            )
        name = name or self._fresh(getattr(fn, "__name__", "process"))
        if any(process.name == name for process in self.processes) or name in ("setup", "clock"):
            raise Misuse(f"two processes cannot both be called {name!r}; give one another name=")
        self.processes.append(Process(len(self.processes) + 1, name, fn, args, kwargs, restart, may_raise))
        return name

    def configure(
        self,
        *,
        versioned: bool = False,
        part_bytes_min: int = PART_BYTES_MIN,
        stamped: bool = True,
        skew_s: float = 30.0,
        pause_s: float = 60.0,
    ) -> None:
        """Say what the bucket is like; to be called before anything is stored.

        `stamped=False` gives every object the same time of modification: right for code that never
        looks at it, and fewer schedules when processes sleep.
        """
        self.bucket = WorldBucket(versioned=versioned, part_bytes_min=part_bytes_min)
        self._stamped = stamped
        self.skew_ns = round(skew_s * 1e9)
        self.pause_ns = round(pause_s * 1e9)

    def always(self, name: str, check: Check) -> None:
        """`check` must hold after every step."""
        self._promise(name, ALWAYS, check)

    def eventually(self, name: str, check: Check) -> None:
        """`check` must hold at some time in every run."""
        self._promise(name, EVENTUALLY, check)

    def sometimes(self, name: str, check: Check) -> None:
        """`check` should hold at some time in some run; when it never does, that is a finding."""
        self._promise(name, SOMETIMES, check)

    def finally_(self, name: str, check: Check) -> None:
        """`check` must hold at the end of every run, when every process has ended."""
        self._promise(name, FINALLY, check)

    def note(self, topic: str, value: Any = None) -> None:
        """Make `value` known to the properties: the only thing besides the store that they may see."""
        process = self.running
        if process is None:
            self.noted.setdefault(topic, []).append(("setup", value))
            return
        if process.crashing:
            refuse(process)
        process.worker.parent.switch(Note(topic, value))

    def pick(self, name: str, options: Sequence[T]) -> T:
        """One of `options`: a choice of data, which the exploration makes in every way."""
        asking = self.running or self._setup
        if asking is None:
            raise Misuse("pick is for programs and processes; a check cannot choose")
        if asking.crashing:
            refuse(asking)
        chosen: int = asking.worker.parent.switch(Pick(name, len(options)))
        return options[chosen]

    @property
    def stamp_ns(self) -> int:
        """The time that a write is stamped with, counted from the start."""
        return self.clock_ns if self._stamped else 0

    @property
    def setting_up(self) -> bool:
        """Whether the program that sets the world up has not returned yet."""
        return self._setup is not None

    @property
    def me(self) -> str:
        """The name of the process that is asking."""
        return self.running.name if self.running is not None else "setup"

    # What a scheduler uses.

    def start(self, program: Program) -> None:
        """Set the world up and run every process to its first step."""
        self._setup = Process(0, "setup", program, (self,), {}, restart=False, may_raise=())
        self._proceed(self._setup, self._setup.start())

    def enabled(self) -> list[int]:
        """Who may step. Nobody: the run is complete."""
        if self._setup is not None:
            return [0]
        ready = []
        asleep = False
        spinning = None
        for process in self.processes:
            op = process.pending
            if op is None or process.group is not None:
                continue
            if type(op) is Wake and op.until_ns > self.clock_ns:
                asleep = True
            elif process.spins >= SPINS and same(op, process.asked[0]):
                spinning = spinning or process
            else:
                ready.append(process.index)
        if self.flights:
            ready.extend(self.flights)
        if ready:
            if self.timed and self.left[fault.STALLS]:
                ready.append(CLOCK_ACTOR)
        elif asleep:
            ready.append(CLOCK_ACTOR)
        elif spinning is not None:
            # Nobody else can do anything: it may ask again, and again, until the run is cut.
            self._alone = True
            ready.append(spinning.index)
        return ready

    def alternatives(self, actor: int) -> tuple[str, ...]:
        """What can become of the actor's next step; the first is the harmless one."""
        if actor == CLOCK_ACTOR:
            return self._ways_to_pass_time()
        flight = self.flights.get(actor)
        if flight is None:
            process = self.processes[actor - 1] if actor else self._setup
            assert process is not None
            op, retried, crashable = process.pending, process.retried, process.effective
        elif flight.zombie:
            return ("land", "never")
        else:
            op, retried = flight.request, flight.retried
            crashable = flight.process.effective and self._is_first_open(flight)
        if type(op) is Pick:
            return _picks(op.count)
        category = fault.RETRIED if retried else _category(op)
        if category == fault.CLOCK and (op.subject != "wall" or process.skew):
            category = fault.LOCAL
        key = (category, crashable, self.left)
        found = _known.get(key)
        if found is None:
            found = _known[key] = fault.alternatives(*key)
        return found

    def pending(self, actor: int) -> Any:
        """What the actor will do when it steps."""
        if actor == CLOCK_ACTOR:
            return ADVANCE
        flight = self.flights.get(actor)
        if flight is not None:
            return flight.request
        process = self.processes[actor - 1] if actor else self._setup
        return process.pending if process is not None else None

    def rivals(self, actor: int) -> list[int]:
        """The other requests of the same parallel step, if a crash of their sender may end them unlanded.

        Then it matters which of them have landed by then, although they do not conflict.
        """
        flight = self.flights.get(actor)
        if flight is None or flight.zombie or not self.left[fault.CRASHES]:
            return []
        return [
            other.actor
            for other in self.flights.values()
            if other.process is flight.process and not other.zombie and other is not flight
        ]

    def step(self, actor: int, alternative: str) -> None:
        """Let `actor` take its next step, with this alternative."""
        self.r = EVERY_STEP
        self.w = 0
        self.told = None
        self._here = 1 << len(self.trace)
        if alternative not in _FREE:
            part = fault.price(alternative)
            if part >= 0:
                self.left = fault.spend(self.left, part)
        if actor == CLOCK_ACTOR:
            self._advance(alternative)
        elif actor in self.flights:
            self._step_flight(self.flights[actor], alternative)
        else:
            self._step_process(actor, alternative)
        if self.w:
            self._wake_spinners()
            if self.w & self._watched and self.judging:
                self._judge()

    def _wake_spinners(self) -> None:
        """Something changed: whoever asked about it in vain may ask again."""
        for process in self.processes:
            if process.spins and self.w & process.asked[2] and not self._alone:
                process.spins = 0
        self._alone = False

    def complete(self) -> None:
        """Nobody can step any more: judge what must hold in the end."""
        if self.violation is not None:
            return
        for promise in self.properties:
            if promise.kind in (FINALLY, SOMETIMES, EVENTUALLY):
                wrong = promise.judge(self._view)
                if wrong is not None:
                    self.violation = Violation(promise.name, wrong)
                elif promise.kind == EVENTUALLY and not promise.met:
                    self.violation = Violation(promise.name, "it never happened in this run")
                if self.violation is not None:
                    return

    def close(self) -> None:
        """Unwind every process that has not ended."""
        for process in self.processes:
            self._kill(process)
        if self._setup is not None:
            self._kill(self._setup)
        for close in self.closing:
            close()
        self.closing.clear()

    # State, for merging.

    def state(self, memories: tuple[Any, ...]) -> Any:
        """Everything the future depends on. `memories` stands for what each running process knows."""
        crashes = self.left[fault.CRASHES]
        processes = [
            (
                process.state,
                memories[process.index] if process.pending is not None else ending(process),
                crashes and process.effective,
                process.retried,
                process.spins,
                process.skew_ns,
                None if process.group is None else tuple(process.group.replies),
            )
            for process in self.processes
        ]
        flights = [(f.actor, f.retried, f.request) for f in self.flights.values()]
        return (
            self.bucket.state(),
            self.left,
            self.clock_ns,
            tuple(processes),
            tuple(sorted(flights)) if len(flights) > 1 else tuple(flights),
            tuple([(topic, plain(notes)) for topic, notes in sorted(self.noted.items())]),
            self.judgement(),
        )

    def past(self, actor: int) -> int:
        """The steps that come before the actor's next one for certain, as far as they are known."""
        if actor == CLOCK_ACTOR:
            return self._ticks
        flight = self.flights.get(actor)
        if flight is not None:
            return flight.born
        owner = actor if actor <= len(self.processes) else self.objects.owner(actor)
        if not owner:
            return 0
        process = self.processes[owner - 1]
        return process.last | (process.group.steps if process.group is not None else 0)

    def judgement(self) -> tuple[Any, ...]:
        """What the properties know."""
        return tuple([(p.reads, p.met) for p in self.properties])

    def restore(self, judgement: tuple[Any, ...]) -> None:
        """Take up judging where an earlier run with the same beginning left it."""
        for promise, (reads, met) in zip(self.properties, judgement, strict=True):
            promise.reads = reads
            promise.met = met
        self._watch()

    # Steps.

    def _step_process(self, actor: int, alternative: str) -> None:
        process = self.processes[actor - 1] if actor else self._setup
        assert process is not None
        self.before = process.last
        op = process.pending
        if alternative == "crash":
            self._crash(process, op)
            return
        handler = self._handlers.get(type(op))
        if handler is None:
            self._request(process, op, alternative)
        else:
            handler(self, process, op, alternative)

    def _request(self, process: Process, request: Any, alternative: str) -> None:
        if alternative == "ok":
            reply = self._answer(process, request, process.ops)
            process.effective = self.w != 0
            if self.w:
                process.spins = 0
                process.asked = None
            else:
                self._count_spins(process, request, reply)
        else:
            reply = self._answer_badly(process, request, process.ops, alternative)
            process.effective = alternative == "late"
            process.spins = 0
            process.asked = None
            if reply is None:
                self._log(process.index, alternative, process, process.ops, request, None)
                process.retried = True
                process.last = self._here
                self.told = (process.index, "retried")
                return
        self._log(process.index, alternative, process, process.ops, request, reply)
        self._go_on(process, reply)

    def _count_spins(self, process: Process, request: Any, reply: Any) -> None:
        before = process.asked
        if before is not None and before[1] == reply and same(before[0], request):
            process.spins += 1
        else:
            process.spins = 0
        process.asked = (request, reply, self.r)
        if self._alone:
            # It could only ask because the others had come to an end: their steps come before it.
            self.w = EVERYTHING

    def _answer(self, process: Process, request: Any, number: int) -> Any:
        """The request lands."""
        bucket = self.bucket
        bucket.ticket = process.index * TICKETS + 2 * number + process.retried
        idle = type(request) is ask.Delete and not bucket.versioned and bucket.body(request.key) is None
        try:
            reply = bucket.answer(request, self.start_ns + self.stamp_ns)
        except StoreError as wrong:
            reply = wrong
        if idle:
            # Deleting nothing is `done`, and changes nothing.
            self.r, self.w = self.objects.reading("key", request.key)
        else:
            self.r, self.w = self.objects.masks(request, reply)
        return reply

    def _answer_badly(self, process: Process, request: Any, number: int, alternative: str) -> Any:
        """The reply when something went wrong; None when the SDK asks again."""
        if alternative in ("lost", "retry"):
            reply = self._answer(process, request, number)
            if isinstance(reply, StoreError):
                return reply
            return request.ends(Outcome.UNKNOWN, "the reply was lost") if alternative == "lost" else None
        if alternative == "late":
            self._loose(process, request, number)
        if alternative in ("dropped", "late"):
            return request.ends(Outcome.UNKNOWN, "the reply was lost")
        return request.ends(_OUTCOMES[alternative], "by the adversary")

    def _loose(self, process: Process, request: Any, number: int) -> None:
        """A request goes on without its sender."""
        actor = self.objects.actor((process.index, number, "late"))
        self.flights[actor] = Flight(actor, process, request, number, -1, self._here, zombie=True)

    def _step_flight(self, flight: Flight, alternative: str) -> None:
        process, request = flight.process, flight.request
        self.before = flight.born
        if flight.zombie:
            del self.flights[flight.actor]
            reply = self._answer(process, request, flight.number) if alternative == "land" else None
            self._log(flight.actor, alternative, process, flight.number, request, reply, flight.incarnation)
            return
        group = process.group
        assert group is not None
        if alternative == "crash":
            self.before |= group.steps
            self._crash(process, request)
            self.w |= self.objects.bit("group", process.name)
            return
        if alternative == "ok":
            reply = self._answer(process, request, flight.number)
            process.effective = process.effective or self.w != 0
        else:
            reply = self._answer_badly(process, request, flight.number, alternative)
            process.effective = process.effective or alternative == "late" or self.w != 0
        self.r |= self.objects.bit("group", process.name)
        self._log(flight.actor, alternative, process, flight.number, request, reply)
        if reply is None:
            flight.retried = True
            flight.born |= self._here
            return
        del self.flights[flight.actor]
        group.replies[flight.slot] = reply
        group.open -= 1
        group.steps |= self._here
        if not group.open:
            process.group = None
            process.ops += len(group.replies)
            self._go_on(process, group.replies, group.steps)

    def _note(self, process: Process, note: Note, alternative: str) -> None:
        self.noted.setdefault(note.topic, []).append((process.name, note.value))
        self.r, self.w = self.objects.writing("note", note.topic)
        process.effective = True
        self._log(process.index, alternative, process, process.ops, note, None)
        self._go_on(process, None)

    def _read_clock(self, process: Process, op: ReadClock, alternative: str) -> None:
        wall = op.subject == "wall"
        if wall and not process.skew:
            process.skew = True
            process.skew_ns = _SKEWS.get(alternative, 0) * self.skew_ns
        self.r |= CLOCK
        process.effective = False
        reading = self.clock_ns + (process.skew_ns if wall else 0)
        self._log(process.index, alternative, process, process.ops, op, reading)
        self._go_on(process, reading)

    def _sleep(self, process: Process, op: Sleep, alternative: str) -> None:
        self.time_mattered = True
        self.r |= CLOCK
        until = self.clock_ns + op.nanoseconds
        process.effective = False
        self._log(process.index, alternative, process, process.ops, op, until)
        process.last = self._here
        process.ops += 1
        process.pending = Wake(until)
        self.told = (process.index, until)

    def _wake(self, process: Process, op: Wake, alternative: str) -> None:
        self.r |= CLOCK
        process.effective = False
        self._log(process.index, alternative, process, process.ops, op, None)
        self._go_on(process, None)

    def _pick(self, process: Process, op: Pick, alternative: str) -> None:
        chosen = 0 if alternative == "ok" else int(alternative.removeprefix("pick"))
        process.effective = False
        self._log(process.index, alternative, process, process.ops, op, chosen)
        self._go_on(process, chosen)

    def _finish(self, process: Process, op: Finish, alternative: str) -> None:
        self._log(process.index, alternative, process, process.ops, op, op.result)
        self.w = self.objects.bit("end", process.name)
        process.release()
        process.pending = None
        process.last = self._here
        process.result = op.result
        process.error = op.error
        process.state = "done" if op.error is None else "failed"
        self.told = (process.index, op.result)
        if op.error is not None and not isinstance(op.error, process.may_raise):
            kind = type(op.error).__name__
            self.violation = Violation(f"{process.name} ends well", f"it raised {kind}: {op.error}")

    def _crash(self, process: Process, op: Any) -> None:
        self._log(process.index, "crash", process, process.ops, op, None)
        for flight in list(self.flights.values()):
            if flight.process is process and not flight.zombie:
                del self.flights[flight.actor]
        self._kill(process)
        process.begin()
        process.last = self._here
        process.retried = False
        process.incarnation += 1
        # Numbers are a function of what a process remembers, so that states can be compared.
        process.ops = process.incarnation * OPERATIONS
        process.pending = None
        self.told = (process.index, ("crash", process.incarnation))
        if process.restart and self.left[fault.RESTARTS]:
            self.left = fault.spend(self.left, fault.RESTARTS)
            self.running = process
            op = process.start()
            self.running = None
            self._proceed(process, op)
        else:
            process.state = "down"
            self.w |= self.objects.bit("end", process.name)

    def _advance(self, alternative: str) -> None:
        self.before = self._ticks
        self._ticks |= self._here
        if alternative == "pause":
            self.clock_ns += self.pause_ns
        else:
            self.clock_ns = min(
                process.pending.until_ns
                for process in self.processes
                if type(process.pending) is Wake and process.pending.until_ns > self.clock_ns
            )
        self.w = EVERYTHING if alternative == "advance" else CLOCK
        self._log(CLOCK_ACTOR, alternative, None, 0, ADVANCE, self.clock_ns)

    def _go_on(self, process: Process, answer: Any, last: int = 0) -> None:
        """Deliver, and run the process to what it asks for next."""
        process.last = last or self._here
        self.told = (process.index, answer)
        self.running = process if process.index else None
        op = process.worker.switch(answer)
        self.running = None
        process.ops += 1
        process.retried = False
        self._proceed(process, op)

    def _proceed(self, process: Process, op: Any) -> None:
        """A process, freshly started or resumed, waits for `op`."""
        process.pending = op
        kind = type(op)
        if kind is Parallel:
            group = process.group = Group(op, process.ops)
            for slot, request in enumerate(op.requests):
                number = group.first + slot
                actor = self.objects.actor((process.index, number, f"parallel {group.first}"))
                self.flights[actor] = Flight(
                    actor, process, request, number, slot, process.last, zombie=False
                )
        elif kind is Finish and process is self._setup:
            self._open(process, op)

    def _open(self, setup: Process, op: Finish) -> None:
        """The program is set up: the processes start, the properties look for the first time."""
        setup.release()
        setup.pending = None
        self._setup = None
        if op.error is not None:
            raise op.error
        self.objects.stamp = CLOCK if self._stamped and self.timed else 0
        for process in self.processes:
            process.last = setup.last
            self.running = process
            first = process.start()
            self.running = None
            self._proceed(process, first)
        for promise in self.properties:
            promise.bit = self.objects.bit("property", promise.name)
            if promise.kind != FINALLY and self.judging:
                self._look(promise)
        self._watch()

    def answer_directly(self, request: Any) -> Reply:
        """A request by the program itself, before the processes run."""
        if self._setup is None and not request.reads:
            raise Misuse("a check may look at the store, not change it")
        self._tickets += 1
        self.bucket.ticket = self._tickets
        return self.bucket.answer(request, self.start_ns)

    # Properties.

    def _promise(self, name: str, kind: str, check: Check) -> None:
        if self._setup is None:
            raise Misuse("properties are declared by the program, before any process runs")
        if any(promise.name == name for promise in self.properties):
            raise Misuse(f"two properties cannot both be called {name!r}")
        self.properties.append(Property(name, kind, check))

    def _judge(self) -> None:
        written = self.w
        for promise in self.properties:
            if written & promise.reads and promise.kind != FINALLY:
                self.w |= promise.bit
                self.r |= promise.bit
                self._look(promise)
        self._watch()

    def _look(self, promise: Property) -> None:
        if promise.met:
            # The good thing has happened; it stays so for the rest of the run.
            promise.reads = 0
            return
        wrong = promise.judge(self._view)
        self.r |= promise.reads
        if wrong is not None and self.violation is None:
            self.violation = Violation(promise.name, wrong)

    def _watch(self) -> None:
        self._watched = 0
        for promise in self.properties:
            if promise.kind != FINALLY:
                self._watched |= promise.reads

    # Small things.

    _handlers: ClassVar[dict[type, Callable[..., None]]] = {
        Note: _note,
        ReadClock: _read_clock,
        Sleep: _sleep,
        Wake: _wake,
        Pick: _pick,
        Finish: _finish,
    }

    def _log(
        self,
        actor: int,
        alternative: str,
        process: Process | None,
        number: int,
        op: Any,
        answer: Any,
        incarnation: int = -1,
    ) -> None:
        if incarnation < 0 and process is not None:
            incarnation = process.incarnation
        self.trace.append(
            (actor, alternative, process, max(incarnation, 0), number, op, answer, self.clock_ns)
        )

    def _kill(self, process: Process) -> None:
        self.running = process
        if not process.kill():
            self.findings.append(
                f"process {process.name!r} does not let itself be crashed: it swallows the exception that "
                "unwinds it (look for a bare `except:` or `except BaseException:`)"
            )
        self.running = None

    def _is_first_open(self, flight: Flight) -> bool:
        group = flight.process.group
        return group is not None and all(reply is not None for reply in group.replies[: flight.slot])

    def _ways_to_pass_time(self) -> tuple[str, ...]:
        asleep = False
        idle = not self.flights
        for process in self.processes:
            op = process.pending
            if type(op) is Wake and op.until_ns > self.clock_ns:
                asleep = True
            elif op is not None and not (process.spins >= SPINS and same(op, process.asked[0])):
                idle = False
        if idle:
            # The long pause is offered here too: whether somebody else has just ended must not matter.
            return ("advance", "pause") if self.left[fault.STALLS] else ("advance",)
        return ("stall", "pause") if asleep else ("pause",)

    def _fresh(self, base: str) -> str:
        taken = {process.name for process in self.processes}
        number = 1
        while f"{base}-{number}" in taken:
            number += 1
        return f"{base}-{number}"


_DEFERRED = CO_COROUTINE | CO_GENERATOR | CO_ASYNC_GENERATOR
_FREE = frozenset({"ok", "land", "never", "advance"})
_SKEWS = {"skew+": 1, "skew-": -1}
_OUTCOMES = {"conflict": Outcome.CONFLICT, "throttled": Outcome.THROTTLED}
_known: dict[Any, tuple[str, ...]] = {}
_CATEGORIES: dict[type, int] = {
    ask.Get: fault.READ,
    ask.Head: fault.READ,
    ask.List: fault.READ,
    ask.ListVersions: fault.READ,
    ask.ListUploads: fault.READ,
    ask.CreateUpload: fault.WRITE,
    ask.UploadPart: fault.WRITE,
    ask.AbortUpload: fault.WRITE,
    ReadClock: fault.CLOCK,
}


def _category(op: Any) -> int:
    found = _CATEGORIES.get(type(op))
    if found is not None:
        return found
    when = getattr(op, "when", None)
    if when is None:
        if isinstance(op, ask.Request):
            return fault.READ if op.reads else fault.WRITE
        return fault.LOCAL
    return fault.WRITE if isinstance(when, ask.Anything) else fault.CONDITIONAL


def _picks(count: int) -> tuple[str, ...]:
    return ("ok", *(f"pick{index}" for index in range(1, count)))


def ending(process: Process) -> Any:
    """What is left of a process that ended."""
    if process.error is None:
        return plain(process.result)
    return (type(process.error), str(process.error))


def plain(value: Any) -> Any:
    """A hashable value that is equal only for equal values. Objects nobody can compare equal themselves."""
    if isinstance(value, list | tuple):
        return (type(value), tuple([plain(item) for item in value]))
    if isinstance(value, dict):
        return (dict, tuple([(plain(key), plain(item)) for key, item in value.items()]))
    if isinstance(value, set):
        return (set, frozenset(plain(item) for item in value))
    try:
        hash(value)
    except TypeError:
        return object()
    return (type(value), value)
