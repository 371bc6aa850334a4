"""Audits as tests: a function that sets up a world becomes a test that drives it through every schedule.

    import fencepost

    @fencepost.audit(processes=3, crash=1)
    def test_one_leader(world):
        for name in ("ann", "bob", "cid"):
            world.spawn(claim, world.store(), name, name=name)
        world.always("at most one leads", lambda view: len(set(view.notes("leads"))) <= 1)

pytest runs it like any test (see `fencepost.pytest_plugin`), and so does calling it. It passes when the audit
holds, and raises `AuditFailed` with the shortest counterexample when a property breaks, when nothing was
covered, and when time ran out before all was explored unless `undecided="pass"` accepts that.

The function is called anew for every schedule: a value that it makes belongs to that schedule alone. Values
from outside (arguments, fixtures, module variables) are shared by all schedules and must not change.
"""

import functools
import inspect
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from fencepost.impl.store.errors import Misuse, StoreError
from fencepost.sim.faults import WORLD, names

if TYPE_CHECKING:
    from fencepost.sim.explore import AuditOutcome, AuditRequest
    from fencepost.sim.explore.result import AuditResult

F = TypeVar("F", bound=Callable[..., Any])

STRATEGIES = ("portfolio", "exhaustive", "pct", "random", "hypothesis")
ENOUGH = ("no-faults", "one-fault", "all")
FAULTS = names(WORLD)
SEARCHES = ("portfolio", "exhaustive")
"""Strategies that explore every schedule."""
UNDECIDED = ("fail", "pass")
TEST_SECONDS = 60.0
"""The default time limit of an exhaustive test."""
PROFILES: Mapping[str, Mapping[str, Any]] = {
    "fast": {"seconds": 5.0, "undecided": "pass"},
    "ci": {"seconds": TEST_SECONDS},
    "deep": {"seconds": 1800.0},
}
"""Options of audited tests by the name of a profile; `[tool.fencepost.profiles.NAME]` changes or adds one."""


class AuditFailed(AssertionError):
    """An audit that did not end well. `result` has the values that `fencepost audit --json` writes."""

    def __init__(self, text: str, result: "AuditResult | None" = None) -> None:
        super().__init__(text)
        self.result = result


@dataclass(frozen=True)
class Options:
    """Options of an audit. None leaves the choice to a weaker source, or to the default."""

    processes: int | None = None
    faults: Mapping[str, int] | None = None
    strategy: str | None = None
    seed: int | None = None
    seconds: float | None = None
    schedules: int | None = None
    steps_max: int | None = None
    wait_rounds: int | None = None
    depth: int | None = None
    undecided: str | None = None
    enough: str | None = None
    token: str | None = None
    shared_fixtures: bool | None = None
    promises: tuple[str, ...] | None = None
    promises_only: bool | None = None

    def __post_init__(self) -> None:
        for name, known in (("strategy", STRATEGIES), ("undecided", UNDECIDED), ("enough", ENOUGH)):
            value = getattr(self, name)
            if value is not None and value not in known:
                raise ValueError(f"{name}={value!r} is unknown; choose from {', '.join(known)}")
        for name in ("processes", "seconds", "schedules", "steps_max", "wait_rounds", "depth"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name}={value!r}: give a number above 0")
        if isinstance(self.promises, str):
            raise ValueError(f"promises={self.promises!r} must be a list of texts")
        given: dict[str, Any] = dict(self.faults or {})  # whatever a caller without a type checker wrote
        for name, value in given.items():
            if not isinstance(value, int) or value < 0:
                raise ValueError(f"{name}={value!r}: give a whole number, at least 0")

    def under(self, stronger: "Options") -> "Options":
        """These options, overridden by those that `stronger` sets."""
        chosen = {field.name: getattr(stronger, field.name) for field in fields(stronger)}
        chosen = {name: value for name, value in chosen.items() if value is not None}
        chosen["faults"] = {**(self.faults or {}), **(stronger.faults or {})}
        chosen["promises"] = (*(self.promises or ()), *(stronger.promises or ())) or None
        return replace(self, **chosen)


@overload
def audit(program: F, /) -> F: ...
@overload
def audit(program: None = None, /, **options: Any) -> Callable[[F], F]: ...
def audit(program: Any = None, /, **options: Any) -> Any:
    """Make a function of `world` a test that explores every schedule within a fault budget.

    The faults of one run, at most, by the names of `sim.faults`: crash=1, reply_lost=1, request_lost=1,
    pause=1, late=0, conflict=0, throttled=0, duplicated=0, skew=0, notification_delayed=0,
    power_loss=0. Besides: processes (how many the function must spawn; it is given the number when it has a
    parameter of that name), strategy, seed, seconds, schedules, steps_max, wait_rounds, depth,
    undecided ("fail" or "pass"), enough ("no-faults", "one-fault" or "all": the stage that must hold),
    shared_fixtures, promises (ready properties, such as ["queue=jobs/"]), promises_only.
    """
    chosen = options_of(options)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        return _audited(function, chosen)

    return decorate if program is None else decorate(program)


def options_of(given: Mapping[str, Any]) -> Options:
    """Options from the arguments of `audit`."""
    faults = {name: given[name] for name in FAULTS if name in given}
    rest = {name: value for name, value in given.items() if name not in FAULTS}
    known = [field.name for field in fields(Options) if field.name not in ("faults", "token")]
    for name in rest:
        if name not in known:
            raise TypeError(f"audit knows no {name!r}; it knows {', '.join([*FAULTS, *known])}")
    if "promises" in rest and not isinstance(rest["promises"], str):
        rest["promises"] = tuple(rest["promises"] or ())
    return Options(faults=faults, **rest)


def profile_of(name: str, own: Mapping[str, Any]) -> Options:
    """Return the options of a profile, given the profiles of the project; raise ValueError for a mistake."""
    if name not in PROFILES and name not in own:
        known = ", ".join(dict.fromkeys((*PROFILES, *own)))
        raise ValueError(
            f"there is no profile {name!r}; there are {known}, and [tool.fencepost.profiles.{name}]"
        )
    given = own.get(name, {})
    if not isinstance(given, Mapping):
        raise ValueError(
            f"[tool.fencepost.profiles] {name} is no table; write [tool.fencepost.profiles.{name}]"
        )
    try:
        return options_of({**PROFILES.get(name, {}), **given})
    except (TypeError, ValueError) as error:
        raise ValueError(f"the profile {name!r}: {error}") from None


def _audited(function: Callable[..., Any], options: Options) -> Callable[..., Any]:
    check_program(function)
    inner = inspect.signature(function)
    given = {"world"} if options.processes is None else {"world", "processes"}
    outer = inner.replace(
        parameters=[parameter for name, parameter in inner.parameters.items() if name not in given],
        return_annotation=inspect.Signature.empty,
    )

    @functools.wraps(function)
    def test(*args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        arguments = outer.bind(*args, **kwargs)
        arguments.apply_defaults()
        run(function, options, arguments.arguments)

    vars(test)["__signature__"] = outer  # pytest looks for no fixture called `world`
    vars(test)["__fencepost__"] = (function, options)
    return test


def unwrapped(function: Any) -> tuple[Callable[..., Any], Options]:
    """The function below `@fencepost.audit` and the options given there; any other as it is."""
    found: tuple[Callable[..., Any], Options] = getattr(function, "__fencepost__", (function, Options()))
    return found


def check_program(function: Any) -> None:
    """Refuse, with the reason, what cannot set up a world."""
    name = getattr(function, "__qualname__", repr(function))
    if isinstance(function, type) or not callable(function):
        raise TypeError(f"an audit needs a function of world, and {name} is none")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{name} is async, and the world runs ordinary blocking functions, with a switch at every store "
            "call; write `def`, and let the processes use a blocking client"
        )
    if inspect.isgeneratorfunction(function):
        raise TypeError(f"{name} yields; set the world up and return: the world runs the processes itself")
    parameters = inspect.signature(function).parameters
    if "world" not in parameters:
        raise TypeError(f"{name} needs a parameter `world`, which is made anew for every schedule")
    if any(parameter.kind in _OPEN for parameter in parameters.values()):
        raise TypeError(f"{name} takes *args or **kwargs; name its parameters, for they belong to the bound")


_OPEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)


def run(function: Callable[..., Any], options: Options, arguments: Mapping[str, Any]) -> "AuditResult":
    """Audit `function(world=world, **arguments)`, as the test that is running or by itself."""
    __tracebackhide__ = True
    test = _present()
    if test is not None:
        options = test.weaker.under(options).under(test.stronger)
    if options.strategy in (None, *SEARCHES) and options.seconds is None and options.schedules is None:
        options = replace(options, seconds=TEST_SECONDS)
    name = test.name if test is not None else function.__qualname__
    found = _result(function, options, arguments, name, test.memory if test is not None else None)
    why, result = shortcoming(found, options), found.result()
    if test is not None:
        test.record(result, why)
    if not why:
        return result
    again = ""
    if found.counterexamples:
        token = found.counterexamples[0].token
        again = test.command(token) if test is not None else _command(function, arguments, token)
    from fencepost.reports.audit_text import failure_text

    raise AuditFailed(failure_text(result, why, again), result)


def _result(
    function: Callable[..., Any],
    options: Options,
    arguments: Mapping[str, Any],
    name: str,
    memory: Path | None,
) -> "AuditOutcome":
    from fencepost.sim.explore import BadToken, Diverged

    __tracebackhide__ = True
    try:
        return _explored(request_of(function, options, arguments, name), options.token, memory)
    except Diverged as error:
        raise AuditFailed(f"{name} does not repeat itself: {error}") from None
    except (StoreError, BadToken) as error:
        raise AuditFailed(f"{name}: {error}") from None
    except Exception as error:  # noqa: BLE001 - raised again with the traceback of the user's code alone
        raise error.with_traceback(_outside(error.__traceback__)) from None


def _explored(request: "AuditRequest", token: str | None, memory: Path | None) -> "AuditOutcome":
    """The result of the token, else of the failure remembered from the last time, else of a whole audit."""
    from fencepost.sim.explore.reporting import run_audit, run_token

    if token is not None:
        return run_token(request, token)
    if memory is not None and memory.exists():
        result = run_token(request, memory.read_text())
        if result.counterexamples:
            bound = "a schedule that failed before still breaks a property; no other was tried"
            return replace(result, strategy=request.strategy, bound=bound)
        memory.unlink()
    result = run_audit(request)
    if result.interrupted:
        raise KeyboardInterrupt
    if memory is not None and result.counterexamples:
        memory.write_text(result.counterexamples[0].token)
    return result


def request_of(
    function: Callable[..., Any], options: Options, arguments: Mapping[str, Any], name: str, **more: Any
) -> "AuditRequest":
    """The audit that the options describe."""
    from fencepost.sim.explore import AuditRequest
    from fencepost.sim.explore.reporting import bind
    from fencepost.sim.world import Budget

    given = dict(arguments)
    if options.processes is not None and "processes" in inspect.signature(function).parameters:
        given["processes"] = options.processes
    limits = ("strategy", "seed", "seconds", "schedules", "steps_max", "wait_rounds", "depth", "enough")
    return AuditRequest(
        bind(_promising(_counted(function, options.processes), options), name, given),
        name,
        {name: _plain(value) for name, value in given.items() if name != "self"},
        Budget(**(options.faults or {})),
        **{limit: getattr(options, limit) for limit in limits if getattr(options, limit) is not None},
        **{"cpu": True, **more},
    )


def _counted(function: Callable[..., Any], processes: int | None) -> Callable[..., Any]:
    """`function`, held to the number of processes that its audit speaks of."""
    if processes is None:
        return function

    def counted(**given: Any) -> None:
        function(**given)
        spawned = len(given["world"].processes)
        if spawned != processes:
            raise Misuse(f"processes={processes} is declared, and {spawned} were spawned")

    return counted


def _promising(function: Callable[..., Any], options: Options) -> Callable[..., Any]:
    """`function`, with the promises of its audit."""
    if not options.promises and not options.promises_only:
        return function

    def promising(**given: Any) -> None:
        world = given["world"]
        if options.promises_only:
            world.judge_promises_only()
        function(**given)
        for text in options.promises or ():
            world.promise(text)

    return promising


def shortcoming(result: "AuditOutcome", options: Options) -> str:
    """The reason why a result is not a pass; empty when it is one."""
    if result.verdict == "error":
        return f"it cannot be audited: {result.bound}"
    if result.counterexamples:
        return f"{result.counterexamples[0].property}: {result.counterexamples[0].reason}"
    if result.strategy == "replay":
        return "" if result.verdict == "holds" else result.findings[0]
    if result.coverage.covers_nothing():
        return "nothing was covered: no two steps of different processes conflicted, and no fault landed"
    if result.suffices or result.strategy not in SEARCHES or options.undecided == "pass":
        return ""
    if result.findings:
        return result.findings[0]
    return (
        "undecided: the limit was reached before every schedule was explored; raise it (seconds=, or "
        "--fencepost-budget), allow fewer faults, accept what holds with few faults (enough='one-fault'), "
        "or accept it (undecided='pass')"
    )


def _command(function: Callable[..., Any], arguments: Mapping[str, Any], token: str) -> str:
    """The command that replays a failure found outside of pytest."""
    words = ["fencepost", "audit", f"{inspect.getsourcefile(function) or 'FILE'}:{function.__qualname__}"]
    for name, value in arguments.items():
        words += ["--set", f"{name}={value}"]
    return shlex.join([*words, "--replay", token])


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def _outside(trace: TracebackType | None) -> TracebackType | None:
    """A traceback from where it leaves the harness: the lines of the function that sets up."""
    inside = trace
    while inside is not None:
        module = str(inside.tb_frame.f_globals.get("__name__", ""))
        if not module.startswith(("fencepost.testing", "fencepost.sim.")):
            return inside
        inside = inside.tb_next
    return trace


def _present() -> Any:
    """The test that pytest is running, when it is running one."""
    plugin = sys.modules.get("fencepost.pytest_plugin")
    return None if plugin is None else plugin.present
