"""The world as programs see it: processes, one store, one clock, choices, and what must hold.

    def program(world):
        store = world.store()
        world.spawn(worker, store, "a", name="a")
        world.always("one leader", lambda view: len(view.notes("leads")) <= 1)

Which steps there are, and who decides, is in `scheduler`; what they do in `steps`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from fencepost.impl.store.bucket import PART_BYTES_MIN
from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Reply
from fencepost.sim.world.costs import AtMost
from fencepost.sim.world.declaring import Declaring
from fencepost.sim.world.landing import WorldBucket
from fencepost.sim.world.operations import Note, Pick, Post, Receive
from fencepost.sim.world.process import Process
from fencepost.sim.world.run import CLOCK_ACTOR, Follower
from fencepost.sim.world.scheduler import Scheduler
from fencepost.sim.world.store import refuse

T = TypeVar("T")

Program = Callable[["World"], Any]

__all__ = ["CLOCK_ACTOR", "Program", "World"]


class World(Declaring, Scheduler):
    """One run. Programs use what is defined here, schedulers what it is built on."""

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
        name = self._name_for(fn, name)
        number = len(self.processes) + 1
        self.processes.append(Process(number, name, fn, args, kwargs, restart, may_raise, self.trace))
        return name

    def share_nothing(self) -> None:
        """Promise that processes share nothing but this world: no variable that one of them changes is looked
        at by another one, or by a check. Exploration is several times faster then, see `sim.world.recall`.
        """
        self._shares_nothing = True

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
        looks at it, and fewer schedules when processes sleep. Times of modification only move in programs
        where somebody sleeps or looks at a clock.
        """
        self.bucket = WorldBucket(versioned=versioned, part_bytes_min=part_bytes_min)
        self._stamped = stamped
        self.skew_ns = round(skew_s * 1e9)
        self.pause_ns = round(pause_s * 1e9)

    def follow(self, name: str, follower: Follower) -> None:
        """Let `follower` read the run, every landing and note as it happens. What it says is a violation."""
        self._only_at_first("followers are named")
        self.followers.append((name, follower))

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Count what the calling process sends inside of the `with` as one operation of this name.

        Entering and leaving are no steps. What a process costs from its start to its end is told anyway.
        """
        process = self.running
        if process is None:
            raise Misuse("operations are named by processes")
        if process.crashing:
            refuse(process)
        if any(name == other.name for other in self.processes):
            raise Misuse(
                f"a process is called {name!r}, and is told by that name; give the operation another"
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

        Judged in every schedule, see `sim.world.costs`; without `faults` whatever goes wrong in it.
        """
        self._only_at_first("bounds are stated")
        given = (requests, hops, faults)
        if requests is None and hops is None:
            raise Misuse(f"at_most({name!r}) bounds nothing; give requests=, hops=, or both")
        if any(number is not None and (not isinstance(number, int) or number < 0) for number in given):
            raise Misuse(f"at_most({name!r}) takes whole numbers, at least 0")
        self.bounds.append(AtMost(name, *given))

    def measure(self, measure: Callable[[Self], Mapping[str, int]]) -> None:
        """Let `measure` count things at the end of every run; the audit tells the largest of each number."""
        self.measures.append(measure)

    def report(self, report: Callable[[], Mapping[str, Any]]) -> None:
        """Let `report` add to the audit's result, once, when everything is explored."""
        self.reports.append(report)

    def note(self, topic: str, value: Any = None) -> None:
        """Make `value` known to the properties: the only thing besides the store that they may see."""
        process = self.running
        if process is None:
            self.noted.setdefault(topic, []).append(("setup", value))
            return
        if process.crashing:
            refuse(process)
        process.worker.parent.switch(Note(topic, value))

    def post(self, channel: str, message: Any) -> None:
        """Send a message, such as the notification of a new object. It may be delayed, and overtaken."""
        process = self.running
        if process is None:
            raise Misuse("messages are posted by processes")
        if process.crashing:
            refuse(process)
        process.worker.parent.switch(Post(channel, message))

    def receive(self, channel: str) -> Any:
        """The next message that has arrived at `channel`; None when none has."""
        process = self.running
        if process is None:
            raise Misuse("messages are received by processes")
        if process.crashing:
            refuse(process)
        return process.worker.parent.switch(Receive(channel))

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

    def answer_directly(self, request: Any) -> Reply:
        """A request by the program itself, before the processes run."""
        if self._setup is None and not request.reads:
            raise Misuse("a check may look at the store, not change it")
        self._tickets += 1
        self.bucket.ticket = self._tickets
        return self.bucket.answer(request, self.start_ns)
