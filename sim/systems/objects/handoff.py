"""The scenario of a handoff: the supervisor, the server that it replaces, and its successor.

`Supervisor.handoff`, `Member` and `Owner` run as they ship; the lock of the directory is a file of the world.
A line is a file for each message, which its sender has locked from the start until it is written: who
receives it waits for that lock, and finds nothing in the file of a sender that has ended. A server that takes
too long is one for which the supervisor does not wait. One that is killed ends when it reads so.

An incumbent that takes the directory back waits until its successor has ended or is there to stay (`going`),
which models the minute that it has; the successor does not wait, since the directory is free by then. A
server that is there to stay ends after the other one.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fencepost.impl.objects.handoff import Member, Server, Supervisor
from fencepost.impl.objects.owner import Owner
from fencepost.impl.objects.safeguards import Safeguards
from fencepost.impl.store.errors import Unusable
from fencepost.properties.objects.checks import NOTHING, Outcomes, one_owner
from fencepost.sim.systems.harness import ScenarioEnvironment
from fencepost.sim.systems.objects.run import NEW, OLD, SUPERVISOR, ScenarioRun
from fencepost.sim.world import View, World

KILL, OVER = "killed", "the run is over"
MESSAGES = 6
"""At most in one direction of a line."""
ATTEMPTS_S = 0.15
"""Three attempts to get the directory, with a pause between."""


class _Over(Exception):
    """The supervisor goes on, and sends nothing more."""


@dataclass(frozen=True)
class Locked:
    """A file that a process has locked from the start, and releases by its end if not before."""

    fd: int

    def release(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_UN)

    def wait(self) -> None:
        """Until it is released."""
        fcntl.flock(self.fd, fcntl.LOCK_SH)


class Slots:
    """The messages of one direction."""

    def __init__(self, files: list[Locked]) -> None:
        self._files = files

    def write(self, number: int, message: str) -> None:
        os.pwrite(self._files[number].fd, message.encode(), 0)
        self._files[number].release()

    def read(self, number: int) -> str | None:
        self._files[number].wait()
        return os.pread(self._files[number].fd, 100, 0).decode() or None


class WorldLine:
    """One end of a line."""

    socket = None
    has_more = False
    late = -1
    """The number of the message that comes too late for `receive`."""

    def __init__(self, world: World, sends: Slots, receives: Slots) -> None:
        self._world, self._sends, self._receives = world, sends, receives
        self._sent = self._received = 0

    def send(self, message: str) -> None:
        self._sends.write(self._sent, message)
        self._sent += 1

    def receive(self, timeout_s: float | None = None) -> str | None:
        if self._received == self.late:
            self.late = -1
            self._world.note("timed out")
            raise TimeoutError(timeout_s)
        message = self._receives.read(self._received)
        self._received += 1
        if message == OVER:
            raise _Over
        return None if message == KILL else message

    def close(self) -> None:
        """There is nothing to close."""


class NoWorkers:
    """The workers of a server, which serve no request here: other scenarios have requests."""

    def start_all(self) -> None: ...
    def drain_all(self, *_: Any) -> None: ...
    def end_all(self, *_: Any) -> None: ...


class NotedOwner(Owner):
    """Notes who has the directory, while it has it."""

    def __init__(self, world: World, name: str, root: str, safeguards: Safeguards) -> None:
        super().__init__(root, safeguards)
        self._world, self._name = world, name

    def acquire(self) -> None:
        super().acquire()
        self._world.note("owns", (self._name, True))

    def release(self) -> None:
        self._world.note("owns", (self._name, False))
        super().release()


class Ended:
    """The part of a process that a supervisor uses; it ends when it reads that it is killed."""

    pid = 0

    def __init__(self, alive: Locked, send: Callable[[str], None]) -> None:
        self._alive, self._send = alive, send

    def kill(self) -> None:
        self._send(KILL)

    terminate = kill

    def poll(self) -> int | None:
        return None

    def wait(self, timeout: float | None = None) -> int:
        del timeout
        self._alive.wait()
        return 0


class WorldSupervisor(Supervisor):
    """Begins servers that are processes of the world already."""

    def __init__(self, safeguards: Safeguards, env: ScenarioEnvironment, servers: dict[str, Server]) -> None:
        listening: Any = None  # the socket is the workers'
        super().__init__("", _none, listening, env, drain_s=0, safeguards=safeguards)
        self._servers = iter(servers.values())
        self.server = self.spawn()

    def spawn(self) -> Server:
        return next(self._servers)


def _none(_: tuple[int, int]) -> Any:
    raise AssertionError("the world has spawned the servers")


class Pausing(ScenarioEnvironment):
    """The incumbent pauses until its successor has ended or is there to stay."""

    def __init__(self, world: World, going: Locked) -> None:
        super().__init__(world)
        self._going = going

    def sleep(self, seconds: float) -> None:
        del seconds
        self._going.wait()


class WorldMember(Member):
    """Acts on messages until its line or the run ends; returns whether it serves then."""

    def serve(self, *, committed: bool, going: Locked, other: Locked) -> bool:
        if committed:  # it began before the run
            self._owner.acquire()
            self._serving = self._committed = True
        else:
            self._line.send("waiting")
        with contextlib.suppress(_Over):
            while self._act_on_all():
                pass
        if self._serving:
            going.release()
            other.wait()
        return self._serving


LATE = ((NEW, 1), (OLD, 0), (OLD, 1), (NEW, 0))
"""Ready, drained, sealed, waiting: the message that a server sends too late."""


def aborted(run: ScenarioRun) -> None:
    """The supervisor waits no longer for one of the messages."""
    handoff(run, run.world.pick("late", LATE))


def strangers(run: ScenarioRun) -> None:
    """Two servers are started on one directory."""
    world, run.followed = run.world, False
    run.open()
    world.forbid("power_loss")

    def serve(owner: NotedOwner) -> None:
        owner.acquire()
        owner.release()

    for name in (OLD, NEW):
        owner = NotedOwner(world, name, str(run.root), run.safeguards)
        world.spawn(serve, owner, name=name, restart=False, may_raise=(Unusable,))
    _watch_owners(world)


def handoff(run: ScenarioRun, late: tuple[str, int] | None = None) -> None:
    """A server is replaced; one of the three processes may be killed."""
    world, run.followed, run.replaces = run.world, False, True
    world.forbid("power_loss")
    run.open()
    numbers = {OLD: 1, NEW: 2, SUPERVISOR: 3}

    def locked(name: str, owner: str) -> Locked:
        found = Locked(os.open(run.root / name, os.O_RDWR | os.O_CREAT))
        world.files.lock_for(numbers[owner], found.fd)
        return found

    def slots(name: str, sender: str) -> Slots:
        return Slots([locked(f"{name}-{number}", sender) for number in range(MESSAGES)])

    alive = {name: locked(f"alive-{name}", name) for name in (OLD, NEW)}
    going = {name: locked(f"going-{name}", name) for name in (OLD, NEW)}
    sent = {name: (slots(f"to-{name}", SUPERVISOR), slots(f"from-{name}", name)) for name in (OLD, NEW)}

    def serve(name: str, other: str) -> bool:
        to, from_ = sent[name]
        line: Any = WorldLine(world, from_, to)
        workers: Any = NoWorkers()
        owner = NotedOwner(world, name, str(run.root), run.safeguards)
        env = Pausing(world, going[other]) if name == OLD else ScenarioEnvironment(world)
        member = WorldMember(line, owner, workers, env, 0, lock_s=ATTEMPTS_S)
        return member.serve(committed=name == OLD, going=going[name], other=alive[other])

    def supervise() -> tuple[str, str]:
        """Why the handoff failed, and the server that the supervisor has now."""
        lines: dict[str, Any] = {name: WorldLine(world, *sent[name]) for name in (OLD, NEW)}
        if late is not None:
            lines[late[0]].late = late[1]
        servers = {name: Server(Ended(alive[name], line.send), line) for name, line in lines.items()}
        supervisor = WorldSupervisor(run.safeguards, ScenarioEnvironment(world), servers)
        problem = supervisor.handoff()
        for line in lines.values():
            line.send(OVER)
        return problem, OLD if supervisor.server is servers[OLD] else NEW

    for name, other in ((OLD, NEW), (NEW, OLD)):
        world.spawn(serve, name, other, name=name, restart=False)
    world.spawn(supervise, name=SUPERVISOR, restart=False)
    _watch_owners(world)


def _watch_owners(world: World) -> None:
    world.always("one-owner", lambda view: next(one_owner(NOTHING, Outcomes(owners=(_owners(view),))), None))


def _owners(view: View) -> tuple[str, ...]:
    """The servers that have the directory; the system takes it from those that have ended."""
    last = dict(view.notes("owns"))
    return tuple(name for name in last if last[name] and view.state(name) == "running")
