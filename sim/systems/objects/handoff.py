"""The scenario of a handoff: the supervisor, the server that it replaces, and its successor.

`Supervisor.handoff`, `Member` and `Owner` run as they ship; the lock of the directory is a file of the world.
What a line carries over a socket is appended to a file here, one for each direction, and a server that takes
too long is one for which the supervisor does not wait. A server that is killed ends when it reads
so, and has ended for the supervisor once its lock `alive` is free, as `wait` returns for a process.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
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


class _Over(Exception):
    """Nothing more is sent."""


class WorldLine:
    """A line in two files of the directory, one for each direction."""

    socket = None
    has_more = False
    late = -1
    """The number of the message that comes too late for `receive`."""

    def __init__(self, world: World, sends: Path, receives: Path) -> None:
        self._world, self._sends, self._receives = world, sends, receives
        self._received = 0
        self._fds: dict[Path, int] = {}

    def _fd(self, path: Path) -> int:
        if path not in self._fds:
            self._fds[path] = os.open(path, os.O_RDWR | os.O_APPEND)
        return self._fds[path]

    def send(self, message: str) -> None:
        os.write(self._fd(self._sends), message.encode() + b"\n")

    def receive(self, timeout_s: float | None = None) -> str | None:
        if self._received == self.late:
            self.late = -1
            self._world.note("timed out")
            raise TimeoutError(timeout_s)
        while True:
            messages = os.pread(self._fd(self._receives), 1 << 16, 0).decode().splitlines()
            if len(messages) > self._received:
                self._received += 1
                message = messages[self._received - 1]
                if message == OVER:
                    raise _Over
                return None if message == KILL else message

    def close(self) -> None:
        """There is nothing to close."""


class NoWorkers:
    """What a server has its workers for is in the other scenarios."""

    def start_all(self) -> None: ...
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
    """What a supervisor needs of a process: here it ends when it reads that it is killed."""

    pid = 0

    def __init__(self, alive: str, send: Callable[[str], None]) -> None:
        self._alive, self._send = alive, send

    def kill(self) -> None:
        self._send(KILL)

    terminate = kill

    def poll(self) -> int | None:
        return None

    def wait(self, timeout: float | None = None) -> int:
        del timeout
        fd = os.open(self._alive, os.O_RDWR)
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.close(fd)
        return 0


class WorldSupervisor(Supervisor):
    """Begins servers that are processes of the world already, and wait for its messages."""

    def __init__(self, world: World, root: str, safeguards: Safeguards) -> None:
        listening: Any = None  # the socket is the workers'
        env = ScenarioEnvironment(world)
        super().__init__(root, _none, listening, env, drain_s=0, safeguards=safeguards)
        self._world, self._directory = world, root
        lines = Path(root)
        self.lines = {
            name: WorldLine(world, lines / f"to-{name}", lines / f"from-{name}") for name in (OLD, NEW)
        }
        self._names = iter(self.lines)

        self.server = self.spawn()

    def spawn(self) -> Server:
        name = next(self._names)
        line: Any = self.lines[name]
        return Server(Ended(f"{self._directory}/alive-{name}", line.send), line)


def _none(_: tuple[int, int]) -> Any:
    raise AssertionError("the world has spawned the servers")


class WorldMember(Member):
    """Acts on messages until the run is over or it is killed; returns whether it serves then."""

    def serve(self, *, committed: bool) -> bool:
        if committed:  # it began before the run
            self._owner.acquire()
            self._serving = self._committed = True
        else:
            self._line.send("waiting")
        with contextlib.suppress(_Over):
            while self._act_on_all():
                pass
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
    """A server is replaced."""
    world, run.followed = run.world, False
    world.forbid("crash", "power_loss")
    run.open()
    for name in (OLD, NEW):
        for file in ("alive", "to", "from"):
            (run.root / f"{file}-{name}").touch()
    root, safeguards = str(run.root), run.safeguards
    owners = {name: NotedOwner(world, name, root, safeguards) for name in (OLD, NEW)}

    def serve(name: str) -> bool:
        fd = os.open(f"{root}/alive-{name}", os.O_RDWR)
        fcntl.flock(fd, fcntl.LOCK_EX)
        line: Any = WorldLine(world, run.root / f"from-{name}", run.root / f"to-{name}")
        workers: Any = NoWorkers()
        return WorldMember(line, owners[name], workers, ScenarioEnvironment(world), 0, lock_s=0.05).serve(
            committed=name == OLD
        )

    def supervise() -> str:
        supervisor = WorldSupervisor(world, root, safeguards)
        if late is not None:
            supervisor.lines[late[0]].late = late[1]
        problem = supervisor.handoff()
        for line in supervisor.lines.values():
            line.send(OVER)
        return problem

    for name in (OLD, NEW):
        world.spawn(serve, name, name=name, restart=False)
    world.spawn(supervise, name=SUPERVISOR, restart=False)
    _watch_owners(world)


def _watch_owners(world: World) -> None:
    world.always("one-owner", lambda view: next(one_owner(NOTHING, Outcomes(owners=(_owners(view),))), None))


def _owners(view: View) -> tuple[str, ...]:
    """The servers that have the directory; the system takes it from those that have ended."""
    last = dict(view.notes("owns"))
    return tuple(name for name in last if last[name] and view.state(name) == "running")
