"""Simulated time: ordinary blocking code as actors of a SimPy environment.

Theory. An *actor* is a greenlet that runs the code as it is shipped. It gives up control only where it
waits: at a store request, a sleep, a channel. Then the hub, which is SimPy's event loop, goes on to the
next event, and an event's callback switches back into the actor that waited for it. Between two waits no time
passes: what code computes costs nothing unless the scenario says so.

Time is counted in whole nanoseconds, so that it adds up exactly. Events of the same nanosecond happen in
the order in which they were scheduled: SimPy breaks ties by a counter. A run is therefore a function of its
program and its seed.

SimPy's own processes are generators, and a request would need at least three of them; here a request in
flight *is* a SimPy event that is scheduled again for its next stage. That is what makes a simulated
request cheap (`bench/clock.py`).

    engine = Engine(seed=1)
    engine.spawn("writer-1", work)
    engine.run()
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import simpy
from greenlet import GreenletExit, getcurrent, greenlet
from simpy.events import NORMAL

from fencepost.impl.environment import Environment, SeededEnvironment
from fencepost.sim.des.meter import Meter

START_NS = 1_700_000_000_000_000_000
"""Time at which every simulation begins: in November 2023."""


class SimulatedEnvironment(Environment):
    """Clock, sleep, randomness and identifiers in simulated time, for protocol code.

    All actors share one environment, which looks up the actor that is running. Each actor has streams of its
    own, derived from the run's seed, its name and its incarnation: another writer reshuffles no stream.
    """

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._setup: dict[str, Any] = {}

    def now_ns(self) -> int:
        actor = self._engine.current
        return START_NS + self._engine.now_ns + (0 if actor is None else actor.skew_ns)

    def monotonic_ns(self) -> int:
        return self._engine.now_ns

    def sleep(self, seconds: float) -> None:
        if self._engine.current is not None:
            self._engine.sleep_ns(max(0, round(seconds * 1e9)))

    def stream(self, actor: str) -> Any:
        running = self._engine.current
        streams = self._setup if running is None else running.streams
        found = streams.get(actor)
        if found is None:
            who = "setup" if running is None else f"{running.name}/{running.incarnation}"
            found = streams[actor] = SeededEnvironment(0).stream(f"{self._engine.seed}/{who}/{actor}")
        return found


REFUSALS_MAX = 50
"""Requests that a dying actor may make before it is given up."""


class Crash(BaseException):
    """Unwinds an actor. No code may handle a crash, so it derives from BaseException."""


class Deadlock(Exception):
    """Nothing is left that could happen, and somebody still waits."""


class Tick(simpy.Event):
    """An event that calls `act` once, and may be scheduled again afterwards."""

    def __init__(self, engine: "Engine", act: Callable[[Any], None]) -> None:
        self.env = engine.simpy
        self.callbacks: Any = None
        self._ok = True
        self._value = None
        self._acts = (act,)

    def after(self, delay_ns: int) -> None:
        self.callbacks = self._acts
        self.env.schedule(self, NORMAL, delay_ns)


class Actor:
    """One process: what it runs, what it waits for, and the operation it is in."""

    __slots__ = (
        "crashing",
        "fn",
        "incarnation",
        "meter",
        "name",
        "operation",
        "refusals",
        "restart",
        "skew_ns",
        "streams",
        "waits",
        "worker",
    )

    def __init__(
        self, name: str, fn: Callable[[], Any], meter: Meter, restart: Callable[[], Any] | None
    ) -> None:
        self.name = name
        self.fn = fn
        self.restart = restart
        """The function that runs after a crash, if there is one."""
        self.incarnation = 0
        self.skew_ns = 0
        self.meter = meter
        self.begin()

    def begin(self) -> None:
        """Forget everything: before the first start and after a crash."""
        self.streams: dict[str, Any] = {}
        self.operation: Any = None
        self.crashing = False
        self.refusals = 0
        self.waits: Any = None
        """The one event that may wake it; any other comes too late."""
        self.worker: Any = None


class Engine:
    """The hub: owns time, the actors, and which of them is running."""

    def __init__(self, seed: int = 0) -> None:
        self.simpy = simpy.Environment(initial_time=0)
        self.seed = seed
        self.current: Actor | None = None
        self.actors: list[Actor] = []
        self.hub: Any = None
        self.meter = Meter()
        self.stopped = False

    @property
    def now_ns(self) -> int:
        return int(self.simpy.now)

    def spawn(
        self, name: str, fn: Callable[[], Any], *, restart: Callable[[], Any] | None = None, after_ns: int = 0
    ) -> Actor:
        """An actor that begins at `after_ns` from now."""
        actor = Actor(name, fn, self.meter, restart)
        self.actors.append(actor)
        self._begin(actor, fn, after_ns)
        return actor

    def _begin(self, actor: Actor, fn: Callable[[], Any], after_ns: int) -> None:
        actor.worker = greenlet(fn)
        tick = actor.waits = Tick(self, lambda event: self.wake(actor, event))
        tick.after(after_ns)

    def run(self, until_ns: int | None = None) -> None:
        """Let everything happen that will, or all up to `until_ns`. Raises what an actor raised."""
        self.hub = getcurrent()
        try:
            self.simpy.run(until=until_ns)
            waiting = [actor.name for actor in self.actors if actor.waits is not None]
            if until_ns is None and waiting and not self.stopped:
                some = ", ".join(waiting[:5])
                raise Deadlock(f"{len(waiting)} actors wait for what never happens: {some}")
        finally:
            self.close()

    def close(self) -> None:
        """Unwind every actor that has not ended."""
        self.stopped = True
        for actor in self.actors:
            self._kill(actor)

    # For actors.

    def wait(self, on: Any) -> Any:
        """Called by the running actor: give up control until `on` wakes it."""
        actor = self.current
        assert actor is not None, "only an actor can wait"
        if actor.crashing:
            self.refuse(actor)
        actor.waits = on
        return self.hub.switch()

    def sleep_ns(self, delay_ns: int) -> None:
        actor = self.current
        assert actor is not None, "only an actor can sleep"
        if actor.crashing:
            self.refuse(actor)
        tick = actor.waits = Tick(self, lambda event: self.wake(actor, event))
        tick.after(delay_ns)
        self.hub.switch()

    def refuse(self, actor: Actor) -> None:
        """A dying actor asks for something: it gets the crash again, and is given up when it insists."""
        actor.refusals += 1
        if actor.refusals > REFUSALS_MAX:
            self.hub.switch()
        raise Crash

    # For events.

    def wake(self, actor: Actor, on: Any, value: Any = None) -> None:
        """Let `actor` go on with `value`, if `on` is still what it waits for."""
        if actor.waits is not on:
            return
        actor.waits = None
        self.current = actor
        try:
            if value is None:
                actor.worker.parent = self.hub  # it may begin only now
                actor.worker.switch()
            else:
                actor.worker.switch(value)
        except Crash:
            pass
        finally:
            self.current = None

    def crash(self, actor: Actor, restart_after_ns: int) -> bool:
        """Unwind `actor` where it waits and start it again later. False when it has ended already."""
        if actor.waits is None or actor.restart is None:
            return False
        self._kill(actor)
        fn = actor.restart
        actor.begin()
        actor.incarnation += 1
        self._begin(actor, fn, restart_after_ns)
        return True

    def _kill(self, actor: Actor) -> None:
        worker = actor.worker
        actor.waits = None
        if worker is None or worker.dead or not worker:
            return
        actor.crashing = True
        previous, self.current = self.current, actor
        worker.parent = getcurrent()
        hub, self.hub = self.hub, getcurrent()
        try:
            worker.throw(Crash())
        except (Crash, GreenletExit):
            pass
        finally:
            self.current, self.hub = previous, hub


class Channel:
    """Items that some actors or events put and others take, in order; a taker waits while it is empty."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._items: deque[Any] = deque()
        self._takers: deque[tuple[Actor, object]] = deque()
        self._closed = False

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: Any) -> None:
        self._items.append(item)
        self._serve()

    def close(self) -> None:
        """No more items will come: takers get None once it is empty."""
        self._closed = True
        while self._takers and not self._items:
            self._hand(*self._takers.popleft())

    def take(self) -> Any:
        """The oldest item; None when there will never be one."""
        while not self._items:
            if self._closed:
                return None
            mark = object()
            assert self._engine.current is not None
            self._takers.append((self._engine.current, mark))
            self._engine.wait(mark)
        return self._items.popleft()

    def _serve(self) -> None:
        if self._takers:
            self._hand(*self._takers.popleft())

    def _hand(self, actor: Actor, mark: object) -> None:
        # By an event of its own, so that the actor that puts continues first.
        Tick(self._engine, lambda _: self._engine.wake(actor, mark)).after(0)


class Signal:
    """Set once, waited for by any number of actors: group commit's signal in simulated time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._set = False
        self._waiting: list[tuple[Actor, object]] = []

    def set(self) -> None:
        self._set = True
        for actor, mark in self._waiting:
            Tick(self._engine, lambda _, a=actor, m=mark: self._engine.wake(a, m)).after(0)  # type: ignore[misc]
        self._waiting.clear()

    def wait(self) -> object:
        if not self._set:
            mark = object()
            assert self._engine.current is not None
            self._waiting.append((self._engine.current, mark))
            self._engine.wait(mark)
        return True
