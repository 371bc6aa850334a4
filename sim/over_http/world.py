"""A world whose processes are real ones: what they send over HTTP becomes their steps.

For each process there is a greenlet, its *lane*, that sends to the world's store what the process sends to
its endpoint, and sends back what the store answers. So scheduler, executor, faults, properties, tokens and
counterexamples are those of every world. A process that has several requests at the same time has as many
lanes; all have its name, and a crash ends them all.

A lane without a request waits in `AWAIT`, which is never enabled. Before the scheduler chooses, the world
waits until the processes are quiet (see `fleet`), and hands every request that arrived to a free lane.
Requests that arrived together are handed out in the order of their URLs, so that it is the same in a replay.
A request that was sent lands when the scheduler lets it, even if its sender has ended or closed the
connection by then; only a crash takes along what has not landed.

The clock is the real one, and is no actor: time, pauses and skews are not explored.
"""

import importlib
import io
import json
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from botocore.exceptions import HTTPClientError

from fencepost.impl.store.errors import Misuse
from fencepost.sim.boto import serve
from fencepost.sim.boto.buckets import install
from fencepost.sim.over_http.endpoint import Held
from fencepost.sim.over_http.fleet import ENDPOINT, AllowedFailure, Fleet, Machine, NotStarted, Plan, Waits
from fencepost.sim.over_http.launcher import NOTES
from fencepost.sim.world import NO_FAULTS, Budget, Footprints, World
from fencepost.sim.world.finalizers import PROPERTY
from fencepost.sim.world.operations import Start, Sync
from fencepost.sim.world.process import Process
from fencepost.sim.world.run import RunState
from fencepost.sim.world.scheduler import Scheduler
from fencepost.sim.world.stamps import UNTIMED
from fencepost.sim.world.store import issue
from fencepost.sim.world.thread_steps import spawn

AWAIT = Sync("wait", "request", ready=lambda: False, external=True)
"""Operation of a lane that has no request."""
_ENDED = object()
"""Handed to the first lane of a process that has ended."""
_HEADERS = frozenset({"host", "range", "expires", "cache-control", "authorization", "date"})
"""Besides those that begin with `x-amz-`, `if-` or `content-`: no other header changes what S3 does."""


class HttpRun(RunState):
    """A run with real processes, in real time."""

    __slots__ = ()

    def pass_real_time(self) -> None:
        """Set the clock to the real time."""
        self.clock_ns = time.time_ns() - self.start_ns

    def open(self) -> None:
        """End the set-up: objects are stamped with the real time, which is what the processes read."""
        super().open()
        self.stamped = True


class HttpScheduler(Scheduler):
    """Offers the possible steps once the processes are quiet."""

    def __init__(self, world: "HttpWorld") -> None:
        super().__init__(world.run)
        self._world = world

    def enabled(self) -> list[int]:
        world = self._world
        if world.setting_up:
            return super().enabled()
        world.settle()
        found = super().enabled()
        while not found and (names := world.awaited()) and world.violation is None:
            world.wait_for(names)
            found = super().enabled()
        return found


class HttpWorld(World):
    """One run with real processes."""

    run: HttpRun
    run_type = HttpRun

    def __init__(
        self,
        fleet: Fleet,
        footprints: Footprints | None = None,
        budget: Budget = NO_FAULTS,
        *,
        seed: int = 0,
        muted: frozenset[str] = frozenset(),
    ) -> None:
        self.waits = Waits()
        self._fleet = fleet
        self._machines: dict[int, Machine] = {}
        """By the number of the process."""
        self._made: dict[int, tuple[str, str, Mapping[str, Any]]] = {}
        """By identity: the clients that were made for processes, and how to make them there."""
        self._keeps: list[Any] = []
        super().__init__(footprints, budget, seed=seed, timed=UNTIMED, muted=muted)
        self._configure(start_ns=time.time_ns())
        self.at_end(self._stop)
        install(self.run)

    def _make_scheduler(self) -> Scheduler:
        return HttpScheduler(self)

    # For programs.

    @property
    def endpoint(self) -> str:
        """The URL of the S3 endpoint, to be handed to a process as an argument or in `env`."""
        return ENDPOINT

    def spawn(
        self,
        fn: Callable[..., Any],
        *args: Any,
        name: str = "",
        restart: bool = True,
        may_raise: tuple[type[BaseException], ...] = (),
        after_crash: bool = False,
        daemon: bool = False,
        **kwargs: Any,
    ) -> str:
        """Run `fn(*args)` in an interpreter of its own. Function, arguments and result are pickled."""
        name = self._name_for(fn, name)
        written = io.BytesIO()
        try:
            _Pickler(written, self).dump((fn, args, kwargs, may_raise))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise Misuse(
                f"process {name} cannot be handed to another interpreter ({error}): with --over-http a "
                "process is a function of a module, and its arguments are values that can be pickled"
            ) from None
        module = importlib.import_module(fn.__module__)
        file = str(getattr(module, "__file__", ""))
        plan = Plan(written.getvalue(), (fn.__module__, file), boto3=bool(self._made))
        return self._spawn(plan, name, restart, after_crash, daemon, (AllowedFailure,))

    def spawn_command(
        self,
        argv: Sequence[str],
        *,
        name: str = "",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        restart: bool = True,
        may_exit: Sequence[int] = (0,),
        after_crash: bool = False,
        daemon: bool = False,
    ) -> str:
        """Run a program in any language. An exit code that is not in `may_exit` is a violation.

        `env` is added to its environment, which has the endpoint and the credentials in the variables of AWS.
        Its result is `(code, output)`.
        """
        if isinstance(argv, str) or not argv:
            raise Misuse("spawn_command takes a list of words, as in ['node', 'writer.mjs']")
        name = self._name_for(_command, name)
        plan = Plan(
            argv=tuple(map(str, argv)),
            env={key: str(value) for key, value in (env or {}).items()},
            cwd=None if cwd is None else str(cwd),
            may_exit=tuple(may_exit),
        )
        return self._spawn(plan, name, restart, after_crash, daemon, ())

    def configure(  # type: ignore[override]  # what is about the world's clock is not there
        self,
        *,
        versioned: bool = False,
        daemon_steps: int | None = None,
        idle_s: float | None = None,
        hang_s: float | None = None,
        fresh: bool | None = None,
    ) -> None:
        """Configure the buckets, and how long processes without a request are waited for; see `fleet`."""
        self._only_at_first("the world is configured")
        if versioned:
            self.run.make_bucket(versioned=True)
            install(self.run)
        if daemon_steps:
            self._configure(daemon_steps=daemon_steps)
        given = {"idle_s": idle_s, "hang_s": hang_s, "fresh": fresh}
        self.waits = Waits(
            **{**vars(self.waits), **{key: value for key, value in given.items() if value is not None}}
        )

    def boto3_client(self, service: str = "s3", **options: Any) -> Any:
        return self._keep("client", service, options, super().boto3_client(service, **options))

    def boto3_resource(self, service: str = "s3", **options: Any) -> Any:
        return self._keep("resource", service, options, super().boto3_resource(service, **options))

    def boto3_session(self) -> Any:
        return self._keep("session", "", {}, super().boto3_session())

    def filesystem(self, *_: Any, **__: Any) -> Any:
        """Not over HTTP."""
        raise Misuse(
            "with --over-http files are the real ones; world.filesystem() needs the audit in one process"
        )

    def _keep(self, kind: str, service: str, options: Mapping[str, Any], made: Any) -> Any:
        self._made[id(made)] = (kind, service, options)
        self._keeps.append(made)
        return made

    def belongs_here(self, value: Any) -> tuple[str, str, Mapping[str, Any]] | None:
        """Return the description of a value that a process makes for itself; None: it gets the value."""
        if value is self:
            return ("world", "", {})
        if value is self.run.store:
            raise Misuse(
                "with --over-http processes talk S3: hand them world.boto3_client() or world.endpoint, and "
                "make buckets with world.boto3_bucket(NAME); world.store() is for the audit in one process"
            )
        if type(value) is str and value == ENDPOINT:
            return ("endpoint", "", {})
        return self._made.get(id(value))

    # Lanes.

    def _spawn(
        self,
        plan: Plan,
        name: str,
        restart: bool,
        after_crash: bool,
        daemon: bool,
        may_raise: tuple[type[BaseException], ...],
    ) -> str:
        return super().spawn(
            self._conduct,
            plan,
            name=name,
            restart=restart,
            may_raise=may_raise,
            after_crash=after_crash,
            daemon=daemon,
        )

    def _conduct(self, plan: Plan) -> Any:
        """The first lane of a process: it starts it, and ends with it."""
        process = self.run.running
        assert process is not None
        fleet = self._fleet
        machine = fleet.start(plan, process.name, process.incarnation, fresh=self.waits.fresh)
        self._machines[process.index] = machine
        try:
            try:
                self._lane(machine)
            finally:
                machine.stop()
            return machine.outcome()
        except NotStarted as error:
            self.run.report_violation(PROPERTY, f"process {machine.name}: {error}")
            raise
        finally:
            fleet.forget(machine)

    def _lane(self, machine: Machine) -> None:
        """Answer one request after another, until the process has ended."""
        while True:
            process = self.run.running
            assert process is not None
            held = issue(self.run, process, AWAIT)
            if held is _ENDED:
                return
            with machine.answering():
                self._answer(machine, held)

    def _answer(self, machine: Machine, held: Held) -> None:
        path = urlsplit(held.url).path
        if path.startswith(NOTES):
            self.note(unquote(path[len(NOTES) :]), _value(held.body))
            held.reply(204, {}, b"")
            return
        _tidy(held)
        try:
            found = serve.reply(held, held.home)
        except HTTPClientError:  # the reply is lost
            held.drop()
        except serve.Unanswered as beyond:
            text = f"{machine.name} sent {beyond.call}, which the endpoint does not answer"
            self.run.report_violation(PROPERTY, text)
            held.drop()
        except (ValueError, LookupError) as error:
            held.reply(400, {"Content-Length": "0", "x-fencepost-error": type(error).__name__}, b"")
        else:
            if held.gone and machine.code is None:
                self.run.find(
                    f"{machine.name} closed a connection while its request was held: a timeout of its own?"
                )
            held.reply(*found)

    def expect(self, name: str) -> None:
        """A replay goes on with this process: wait for it even if it is idle."""
        if self.setting_up:
            return
        self.settle()
        while name in self.awaited() and not any(
            lane.name == name and lane.pending not in (None, AWAIT) for lane in self.strands
        ):
            self.wait_for([name])

    def wait_for(self, names: Sequence[str]) -> None:
        """Wait until one of these processes sends a request or ends."""
        self._fleet.until_something(self.waits, names)
        self.settle()

    def awaited(self) -> list[str]:
        """Return the processes that still run and have no request here; daemons are not waited for."""
        return [one.name for one in self.processes if one.pending is AWAIT and not one.daemon]

    def settle(self) -> None:
        """Wait until the processes are quiet, and hand what arrived to their lanes."""
        while True:
            self._fleet.until_quiet(self.waits)
            self.run.pass_real_time()
            if not self._hand_out():
                return

    def _hand_out(self) -> bool:
        """Return True if something was answered at once, so that processes go on."""
        at_once = False
        for process in list(self.processes):
            machine = self._machines.get(process.index)
            if machine is None or process.pending is None:
                continue
            for held in sorted(machine.endpoint.take_arrived(), key=lambda held: held.place):
                lane = self._free_lane(process, machine)
                self.executor.hand(lane, held)
                at_once = at_once or lane.pending is AWAIT
            if machine.code is not None and all(lane.pending is AWAIT for lane in _lanes(process)):
                self.executor.hand(process, _ENDED)
        return at_once

    def _free_lane(self, process: Process, machine: Machine) -> Process:
        for free in _lanes(process):
            if free.pending is AWAIT:
                return free
        number = len(process.threads or ()) + 2

        def start() -> Process:
            return spawn(
                self.run, f"{number}", lambda: self._lane(machine), daemon=False, start=Start("lane")
            )

        lane: Process = self.run.act_for(process, start)
        lane.rename(process.name)
        self.executor.begin(lane)
        return lane

    def _stop(self) -> None:
        """The run is over: nothing of it goes on."""
        for machine in list(self._fleet.live):
            machine.stop()


def _lanes(process: Process) -> tuple[Process, ...]:
    return (process, *(process.threads or ()))


def _command() -> None:
    """Gives commands without a name theirs."""


_command.__name__ = "command"


def _value(body: bytes) -> Any:
    """Return the value of a note: JSON, else text."""
    text = body.decode(errors="replace")
    try:
        return json.loads(text)
    except ValueError:
        return text


def _tidy(held: Held) -> None:
    """Leave out what clients send besides, and what says who signs how."""
    names = {name: value for name, value in held.headers.items() if _matters(name.lower())}
    if (
        held.headers.get("x-amz-content-sha256", "").startswith("STREAMING-")
        and "content-encoding" not in names
    ):
        names["content-encoding"] = "aws-chunked"
    held.headers = names
    parts = urlsplit(held.url)
    query = [
        (name, value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
        if name != "x-id" and not name.startswith("X-Amz-")
    ]
    held.url = parts._replace(query=urlencode(query)).geturl()


def _matters(name: str) -> bool:
    return name in _HEADERS or name.startswith(("x-amz-", "if-", "content-"))


class _Pickler(pickle.Pickler):
    """Writes the arguments of a process, with marks in the place of what belongs to the world."""

    def __init__(self, file: io.BytesIO, world: HttpWorld) -> None:
        super().__init__(file)
        self._world = world

    def persistent_id(self, value: Any) -> Any:
        return self._world.belongs_here(value)
