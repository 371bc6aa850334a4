"""An audited program in simulated time: the same function of world, with latencies instead of schedules.

    found = simulate_program(program, ProgramSetup(store=StoreModel(profile), clients=16, operations=100))
    found.operations["claim"].p99

Theory. The world runs the processes as in an audit: each issues an operation (a request, a sleep, a note, a
clock reading) and waits. Here the event loop of SimPy decides when that operation happens. A request waits
for a core of the client's machine, travels, waits for a place at the server, lands in the bucket at that
moment, and its answer travels back. So two clients contend as they would: the order of landings decides
who creates the key, and who is refused tries again, in the code that was audited. Code takes no time but
what `client_cpu_ns` says of each request.

The answer is handed to the process when the request lands, and its next operation happens when the answer has
arrived. In between no one can look at the process, so nothing differs. Only the memory that threads of one
process share without a lock is seen too early, by half of a round trip.

Each client repeats the function of its process: one call is an operation, with the name of the function.
Properties are not judged, and no fault happens.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.requests import Outcome, Reply, Request
from fencepost.sim.des.drive import SPREAD
from fencepost.sim.des.engine import Engine, Tick
from fencepost.sim.des.latency import Draw, draw
from fencepost.sim.des.meter import Operation
from fencepost.sim.des.result import Result, statistics
from fencepost.sim.des.server import Gate, StoreModel
from fencepost.sim.world import Program, World, places
from fencepost.sim.world.operations import Receive, Start, Sync, Wake
from fencepost.sim.world.process import Process
from fencepost.sim.world.properties import Property
from fencepost.sim.world.stamps import STAMPED

STEPS_KEPT = 4_096
"""Steps after which the trace of the world is cleared."""
POLL_NS = 1_000_000
"""Time until a process that found no message looks again."""
AT_ONCE_MAX = 20_000
"""Steps that take no time: so many in a row never end."""


class NotTimed(Exception):
    """The program cannot run in simulated time: why, and what to do."""


@dataclass(frozen=True)
class ProgramSetup:
    """Settings of a run."""

    store: StoreModel = field(default_factory=StoreModel)
    clients: int | None = None
    """None: as many as the program spawns processes."""
    operations: int = 1
    """Calls of each client, one after another."""
    think_ns: int = 0
    client_cpu_ns: int = 0
    """Work of the client's machine on one request."""
    client_cores: int | None = None
    """Cores for that work, of all clients together; None: each client has its own."""
    seed: int = 0


@dataclass
class _Way:
    """A request on its way."""

    actor: int
    process: Process
    op: Any
    slow_ns: int
    """From its landing until the answer is there."""


class TimedWorld(World):
    """A world whose processes repeat their functions, and whose properties are not judged."""

    repeats = False

    def __init__(self, driver: "_Driver", setup: ProgramSetup) -> None:
        super().__init__(seed=setup.seed, timed=STAMPED)
        self._driver, self._setup = driver, setup
        self._templates: list[tuple[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []

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
        """Keep the function for the clients. A daemon runs once, and what waits for a fault never."""
        if after_power_loss or after_crash:
            return self._name_for(fn, name)
        if daemon:
            return super().spawn(fn, *args, name=name, daemon=True, **kwargs)
        name = name or f"{_name_of(fn, 'process')}-{len(self._templates) + 1}"
        self._templates.append((name, fn, args, kwargs))
        return name

    def populate(self) -> None:
        """Spawn the clients."""
        if not self._templates:
            raise NotTimed("the program spawns no process; nothing can be measured")
        setup, driver = self._setup, self._driver
        for number in range(len(self._templates) if setup.clients is None else setup.clients):
            name, fn, args, kwargs = self._templates[number % len(self._templates)]
            again = number // len(self._templates)
            super().spawn(
                lambda number=number, name=name, fn=fn, args=args, kwargs=kwargs: driver.live(
                    number, _name_of(fn, name), lambda: fn(*args, **kwargs)
                ),
                name=f"{name}-{again + 1}" if again else name,
                may_raise=(Exception,),
            )

    def _declare(self, promise: Property) -> None:
        """Nothing is judged."""

    def step_property(self, name: str, check: Any) -> None:
        """Nothing is judged."""

    def monitor(self, *_: Any, **__: Any) -> None:
        """Nothing is judged."""

    def follow(self, *_: Any, **__: Any) -> None:
        """Nothing is judged."""

    def at_most(self, *_: Any, **__: Any) -> None:
        """Nothing is judged."""

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Measure what happens inside the `with` as an operation of its own."""
        with self._driver.measured(name):
            yield


def _name_of(fn: Any, otherwise: str) -> str:
    found = getattr(getattr(fn, "func", fn), "__name__", "")
    return otherwise if found in ("", "<lambda>") else found


def simulate_program(program: Program, setup: ProgramSetup) -> Result:
    """Run the program to its end in simulated time."""
    driver = _Driver(setup)
    world = TimedWorld(driver, setup)

    def populated(given: World) -> None:
        program(given)
        world.populate()

    populated.__qualname__ = getattr(program, "__qualname__", "a program")
    with places.held(program):
        try:
            return driver.run(world, populated)
        finally:
            world.close()


class _Driver:
    """Takes the steps of a world at their times."""

    def __init__(self, setup: ProgramSetup) -> None:
        self._setup = setup
        self._engine = Engine(setup.seed)
        self._meter = self._engine.meter
        self._profile = setup.store.latency
        self._draws: dict[tuple[int, str], Draw] = {}
        cores = setup.client_cores
        self._cores = None if cores is None else Gate(self._engine, cores)
        places_ = setup.store.in_flight
        self._server = None if places_ is None else Gate(self._engine, places_)
        self._world: TimedWorld | None = None
        self._arrived: Counter[int] = Counter()
        """By machine: when the last answer reached it, in nanoseconds."""
        self._planned: dict[int, Any] = {}
        """By actor: the operation that is under way, or waits for something."""
        self._waiting: dict[int, Any] = {}
        self._open: dict[int, list[Operation]] = {}
        """By machine: operations that are under way, the outermost first."""
        self._requests: Counter[str] = Counter()
        self._outcomes: Counter[str] = Counter()
        self._outer: set[str] = set()
        """Names of the operations that clients repeat; others are parts of them."""
        self._at_once = 0
        self._last_ns = -1

    def run(self, world: TimedWorld, program: Program) -> Result:
        self._world = world
        world.start(program)
        while world.run.setup is not None:
            world.step(0, "ok")
        self._plan()
        self._engine.simpy.run()
        left = [one.name for one in world.strands if one.pending is not None and not one.daemon]
        if left:
            raise NotTimed(f"{', '.join(left[:5])} wait for what never happens")
        now_ns = max(self._engine.now_ns, *self._arrived.values(), 1)
        samples = self._meter.samples
        whole = sum(len(samples[name].ended_ns) for name in self._outer if name in samples)
        gates = {"store.in_flight": self._server, "client_cores": self._cores}
        return Result(
            operations=statistics(self._meter),
            failed={f"{name}: {why}": count for (name, why), count in sorted(self._meter.failed.items())},
            throughput=round(whole / (now_ns / 1e9), 6),
            window_s=round(now_ns / 1e9, 9),
            requests=dict(sorted(self._requests.items())),
            outcomes=dict(sorted(self._outcomes.items())),
            faults={},
            saturation={name: round(gate.use(now_ns), 4) for name, gate in gates.items() if gate is not None},
            latencies_ms={name: [ns / 1e6 for ns in found.latency_ns] for name, found in samples.items()},
        )

    # Clients.

    def live(self, number: int, name: str, act: Callable[[], Any]) -> None:
        """One client, from its first operation to its last. Runs as a process of the world."""
        world, setup = self._world, self._setup
        assert world is not None
        self._outer.add(name)
        dice = SeededEnvironment(0).stream(f"{setup.seed}/start/{number}")
        spread_ns = SPREAD * self._profile.of("put").median_ns
        world.env.sleep(dice.random() * spread_ns / 1e9)
        for turn in range(setup.operations):
            if turn and setup.think_ns:
                world.env.sleep(setup.think_ns / 1e9)
            try:
                with self.measured(name):
                    act()
            except Exception as error:  # noqa: BLE001 - an operation that failed is counted by its reason
                self._meter.failed[name, f"{type(error).__name__}"] += 1

    @contextmanager
    def measured(self, name: str) -> Iterator[None]:
        """Measure an operation of the process that runs."""
        machine = self._machine()
        operation = Operation(name, self._local(machine))
        stack = self._open.setdefault(machine, [])
        stack.append(operation)
        try:
            yield
            self._meter.done(operation, self._local(machine))
        finally:
            if operation in stack:
                stack.remove(operation)

    def _machine(self) -> int:
        assert self._world is not None
        running = self._world.run.running
        assert running is not None, "operations belong to processes"
        return int(running.machine.index)

    def _local(self, machine: int) -> int:
        """Return the time of a process: its last answer may be on its way."""
        return max(self._engine.now_ns, self._arrived[machine])

    # Steps.

    def _plan(self) -> None:
        """Set a time for every operation that was issued since."""
        world = self._world
        assert world is not None
        for process in world.strands:
            op = process.pending
            if op is None or process.group is not None:
                continue
            if self._planned.get(process.index) is not op:
                self._planned[process.index] = op
                self._set_out(process.index, process, op)
            elif process.index in self._waiting and self._waiting[process.index].ready():
                del self._waiting[process.index]
                self._later(process.index, op, self._local(process.machine.index))
        for actor, flight in list(world.flights.items()):
            if self._planned.get(actor) is not flight:
                self._planned[actor] = flight
                self._send(actor, flight.process, flight.request)

    def _set_out(self, actor: int, process: Process, op: Any) -> None:
        kind = type(op)
        local_ns = self._local(process.machine.index)
        if isinstance(op, Request):
            self._send(actor, process, op)
        elif kind is Wake:
            self._later(actor, op, max(local_ns, op.until_ns))
        elif (kind is Sync or kind is Start) and op.ready is not None:
            if op.ready():
                self._later(actor, op, local_ns)
                return
            self._waiting[actor] = op
            if op.until_ns >= 0:
                self._later(actor, op, max(local_ns, op.until_ns))
        elif kind is Receive:
            assert self._world is not None
            found = self._world.run.channels.get(op.subject)
            self._later(actor, op, local_ns + (0 if found else POLL_NS))
        else:
            self._later(actor, op, local_ns)

    def _later(self, actor: int, op: Any, at_ns: int) -> None:
        tick = Tick(self._engine, lambda _: self._take(actor, op))
        tick.after(max(0, at_ns - self._engine.now_ns))

    def _take(self, actor: int, op: Any) -> Any:
        """Take a step now, unless another event took it; return the answer to a request."""
        world = self._world
        assert world is not None
        now_ns = self._engine.now_ns
        planned = self._planned.get(actor)
        if planned is not op or (not self._is_flight(planned) and world.pending(actor) is not op):
            return None
        self._waiting.pop(actor, None)
        self._at_once = self._at_once + 1 if now_ns == self._last_ns else 0
        self._last_ns = now_ns
        if self._at_once > AT_ONCE_MAX:
            raise NotTimed(f"{AT_ONCE_MAX} steps took no time: a loop waits without a sleep or a request")
        del self._planned[actor]
        run = world.run
        if now_ns > run.clock_ns:
            run.advance_to(now_ns)
        if len(run.trace) > STEPS_KEPT:
            run.trace.clear()
        world.step(actor, "ok")
        answer = run.trace[-1][6] if run.trace else None
        self._plan()
        return answer

    @staticmethod
    def _is_flight(planned: Any) -> bool:
        return hasattr(planned, "zombie")

    # Requests.

    def _send(self, actor: int, process: Process, request: Any) -> None:
        machine = process.machine.index
        stack = self._open.get(machine)
        first = process.group is None or actor == min(flight.actor for flight in self._flights_of(process))
        for operation in stack or ():
            operation.requests += 1
            operation.hops += first
            operation.bytes_sent += len(getattr(request, "body", b"") or b"")
        profile, kind = self._profile, request.kind
        latency = self._draw(machine, kind)
        there = latency >> 1
        byte_ns = profile.per_byte_ns(kind)
        if not request.reads:
            there += int(len(getattr(request, "body", b"") or b"") * byte_ns)
        way = _Way(actor, process, self._planned[actor], latency - (latency >> 1))
        starts = self._local(machine)

        def travels(_: Any) -> None:
            if self._cores is not None:
                following = self._cores.leave()
                if following is not None:
                    following()
            self._enter(self._server, lambda: self._tick(there, lambda _: self._land(way)))

        def works() -> None:
            self._tick(self._setup.client_cpu_ns, travels)

        self._tick(starts - self._engine.now_ns, lambda _: self._enter(self._cores, works))

    def _flights_of(self, process: Process) -> list[Any]:
        assert self._world is not None
        return [flight for flight in self._world.flights.values() if flight.process is process]

    def _enter(self, gate: Gate | None, act: Callable[[], None]) -> None:
        if gate is None or gate.enter(act):
            act()

    def _tick(self, delay_ns: int, act: Callable[[Any], None]) -> None:
        Tick(self._engine, act).after(max(0, delay_ns))

    def _draw(self, machine: int, kind: str) -> int:
        made = self._draws.get((machine, kind))
        if made is None:
            made = draw(self._profile.of(kind), f"{self._setup.seed}/{machine}/latency/{kind}")
            self._draws[machine, kind] = made
        return made()

    def _land(self, way: _Way) -> None:
        """The store applies it at this moment; its answer is there a little later."""
        world = self._world
        assert world is not None
        process = way.process
        machine = process.machine.index
        request = way.op.request if self._is_flight(way.op) else way.op
        self._requests[request.kind] += 1
        bytes_ = 0
        if request.reads:
            body = getattr(world.bucket, "body", None)
            found = body(request.key) if body is not None and hasattr(request, "key") else None
            bytes_ = len(found) if found is not None and request.kind == "get" else 0
        slow_ns = way.slow_ns + int(bytes_ * self._profile.per_byte_ns(request.kind))
        self._arrived[machine] = max(self._arrived[machine], self._engine.now_ns + slow_ns)
        for operation in self._open.get(machine, ()):
            operation.bytes_received += bytes_
        self._count(request, self._take(way.actor, way.op))
        if self._server is not None:
            # The place is taken until the answer left, half of a latency later.
            self._tick(way.slow_ns, lambda _: self._leave())

    def _leave(self) -> None:
        assert self._server is not None
        following = self._server.leave()
        if following is not None:
            following()

    def _count(self, request: Any, reply: Any) -> None:
        if isinstance(reply, StoreError):
            self._outcomes[f"{request.kind} refused"] += 1
        elif isinstance(reply, Reply) and reply.outcome is not Outcome.DONE:
            self._outcomes[f"{request.kind} {reply.outcome.value}"] += 1
