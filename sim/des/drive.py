"""When operations begin, and how they end: the part that every simulated system shares.

Closed: every writer begins its next operation when the last has ended, after thinking. Poisson: operations
arrive by themselves and wait for a free writer, and an operation's latency counts from its arrival, so that
a system that cannot keep up is seen to fall behind.

Writers first open what they need; the run begins when all are ready, each at a moment of its own within
`SPREAD` latencies, since real clients do not march in step. Operations that have begun (or arrived) by the
end are let finish, so that the slowest are not cut away.
"""

from collections.abc import Callable
from typing import Any, Protocol

from fencepost.impl.environment import SeededEnvironment
from fencepost.sim.des.engine import Channel, Crash, Deadlock, Engine, Signal, Tick
from fencepost.sim.des.meter import Operation
from fencepost.sim.des.simulation import Setup

SPREAD = 4
"""Within so many latencies of one another writers begin: about one operation of a short path."""


AT_ONCE_MAX = 200_000
"""Operations that begin at one moment: twice as many as there can be writers."""
OPENINGS_MAX = 20
OPENING_PAUSE_NS = 1_000_000_000
"""A writer that cannot open tries again, as an operator's supervisor would let it, and at last gives up."""


class Failed(Exception):
    """An operation that did not succeed, and is counted by this reason."""


class Writer(Protocol):
    """One writer's own: what it does for one operation, and its name. Raises `Failed`."""

    name: str

    def act(self, operation: Operation) -> None: ...


class Drive:
    def __init__(self, engine: Engine, setup: Setup, open_writer: Callable[[int], Writer]) -> None:
        self._engine = engine
        self._workload = setup.workload
        self._spread_ns = SPREAD * setup.store.latency.of("put").median_ns
        self._seed = setup.seed
        self._open = open_writer
        self._left = setup.workload.operations
        self._ready = 0
        self._start = Signal(engine)
        self._at_once = 0
        self._last_ns = -1
        self.began_ns = 0
        self.ended_ns = 0
        self.until_ns: int | None = None
        self._arrivals = Channel(engine) if setup.workload.arrival == "poisson" else None
        self.at_begin: list[Callable[[], None]] = []
        """Called when every writer is ready."""
        self._after: list[Callable[[], None]] = []
        self._dues: list[Channel] = []
        self.over = False
        self._working = setup.workload.writers
        self.maintenance: set[str] = set()
        """Names of operations that are not the workload's own."""

    def spawn(self) -> None:
        for number in range(self._workload.writers):
            self._engine.spawn(
                f"writer-{number + 1}",
                lambda number=number: self._life(number),  # type: ignore[misc]
                restart=lambda number=number: self._work(number),  # type: ignore[misc]
            )

    def _life(self, number: int) -> None:
        """A writer from its first start: ready, then all at once, then work."""
        writer = self._opened(number)
        self._ready += 1
        if self._ready == self._workload.writers:
            self._begin()
        self._start.wait()
        spread = SeededEnvironment(0).stream(f"{self._seed}/start/{number}").random()
        if self._workload.arrival == "closed":
            self._engine.sleep_ns(int(spread * self._spread_ns))
        if writer is not None:
            self._loop(writer)
        self._leave()

    def _work(self, number: int) -> None:
        """A writer after a crash: it opens again, and goes on."""
        writer = self._opened(number)
        if writer is not None:
            self._loop(writer)
        self._leave()

    def _opened(self, number: int) -> Writer | None:
        """A writer that is ready, however often that takes; None when the store is not to be had."""
        for _ in range(OPENINGS_MAX):
            try:
                return self._open(number)
            except Failed as why:
                self._engine.meter.failed["open", str(why)] += 1
                self._engine.sleep_ns(OPENING_PAUSE_NS)
        return None

    def _begin(self) -> None:
        self.began_ns = self._engine.now_ns
        if self._workload.duration_ns is not None:
            self.until_ns = self.began_ns + self._workload.duration_ns
        if self._arrivals is not None:
            dice = SeededEnvironment(0).stream(f"{self._seed}/arrivals")
            tick = Tick(self._engine, lambda _: self._arrive(tick, dice))
            tick.after(self._gap_ns(dice))
        for begin in self.at_begin:
            begin()
        self._start.set()

    def _gap_ns(self, dice: Any) -> int:
        return int(dice.expovariate(self._workload.rate) * 1e9)

    def _arrive(self, tick: Tick, dice: Any) -> None:
        assert self._arrivals is not None
        if not self._more():
            self._arrivals.close()
            return
        self._arrivals.put(self._engine.now_ns)
        tick.after(self._gap_ns(dice))

    def _more(self) -> bool:
        """Take one more operation; return false if none may begin."""
        if self._left is not None:
            if self._left <= 0:
                return False
            self._left -= 1
            return True
        assert self.until_ns is not None
        now_ns = self._engine.now_ns
        self._at_once = self._at_once + 1 if now_ns == self._last_ns else 0
        self._last_ns = now_ns
        if self._at_once > AT_ONCE_MAX:
            raise Deadlock(f"{AT_ONCE_MAX} operations took no time, so the duration never ends")
        return now_ns < self.until_ns

    def _loop(self, writer: Writer) -> None:
        for began_ns in iter(self._next, None):
            self._operate(writer, began_ns)
            if self._workload.think_ns:
                self._engine.sleep_ns(self._workload.think_ns)

    def _leave(self) -> None:
        """One writer less."""
        self._working -= 1
        self.over = self._working <= 0
        if self.over:
            for due in self._dues:
                due.close()

    def _next(self) -> int | None:
        """When the next operation began: now, or when it arrived."""
        if self._arrivals is not None:
            arrived: int | None = self._arrivals.take()
            return arrived
        return self._engine.now_ns if self._more() else None

    def _operate(self, writer: Writer, began_ns: int) -> None:
        engine = self._engine
        actor = engine.current
        assert actor is not None
        engine.meter.begun += 1
        operation = actor.operation = Operation(writer.name, began_ns)
        try:
            if self._workload.compute_ns:
                engine.sleep_ns(self._workload.compute_ns)
            writer.act(operation)
        except Failed as why:
            engine.meter.failed[writer.name, str(why)] += 1
        except Crash:
            if not engine.stopped:
                engine.meter.failed[writer.name, "crashed"] += 1
            raise
        else:
            engine.meter.done(operation, engine.now_ns)
            for after in self._after:
                after()
        finally:
            actor.operation = None
            self.ended_ns = engine.now_ns

    def keep(
        self, name: str, run: Callable[[], object], *, every: int | None = None, every_ns: int | None = None
    ) -> None:
        """Run maintenance every so many operations, or every so often, as an operation of its own."""
        self.maintenance.add(name)
        due = Channel(self._engine)
        self._dues.append(due)
        self._engine.spawn(name, lambda: self._serve(name, lambda _: run(), due))
        if every is not None:
            self._after.append(_every(every, due))
        elif every_ns is not None:
            tick = Tick(self._engine, lambda _: self._due_again(tick, due, every_ns))
            tick.after(every_ns)

    def serve(self, name: str, operation: str, act: Callable[[Any], object]) -> Channel:
        """An actor that does `act` to everything put into the channel, each as an operation of its own."""
        self.maintenance.add(operation)
        items = Channel(self._engine)
        self._dues.append(items)
        self._engine.spawn(name, lambda: self._serve(operation, act, items))
        return items

    def _serve(self, name: str, act: Callable[[Any], object], items: Channel) -> None:
        engine = self._engine
        actor = engine.current
        assert actor is not None
        for item in iter(items.take, None):
            operation = actor.operation = Operation(name, engine.now_ns)
            try:
                act(item)
            except Failed as why:
                engine.meter.failed[name, str(why)] += 1
            else:
                engine.meter.done(operation, engine.now_ns)
            actor.operation = None

    def _due_again(self, tick: Tick, due: Channel, every_ns: int) -> None:
        if not self.over:
            if not len(due):
                due.put(True)
            tick.after(every_ns)

    def window_s(self) -> float:
        """The time over which throughput is meant."""
        if self._workload.duration_ns is not None:
            return self._workload.duration_ns / 1e9
        return max(1, self.ended_ns - self.began_ns) / 1e9


def _every(count: int, due: Channel) -> Callable[[], None]:
    """Puts into `due` at every so many calls, unless the last time is still to be done."""
    calls = 0

    def called() -> None:
        nonlocal calls
        calls += 1
        if calls % count == 0 and not len(due):
            due.put(True)

    return called
