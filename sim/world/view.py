"""What a property may look at, and how it is judged.

Theory. Exploration runs one order of every class of runs that differ only by swapping independent
steps. A property that looked at intermediate states could miss one that only another order of the class
passes through. So a property is treated as one more participant: whatever it looked at, it *read*, as
part of the step it was judged after, and every step that changes something it looks at *writes* the
property itself. Steps that a property can see are thereby ordered among each other, every order of
them is explored, and nothing else pays for it. It costs exploration to look at much: a property that
reads a single key is cheaper than one that reads the whole bucket.

This only holds for what is looked at through the view: contents, versions, notes, results, the clock.
A property must not look at Python variables that processes change; write a note instead.

A check may return nothing or True (fine), False, or a text that says what is wrong, or raise
AssertionError. `eventually` and `sometimes` ask the check whether the good thing has happened.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fencepost.sim.world.objects import CLOCK, EVERY_STEP

Check = Callable[["View"], Any]

ALWAYS, EVENTUALLY, SOMETIMES, FINALLY = "always", "eventually", "sometimes", "finally"


class View:
    """The world read-only. What is read here is what a property depends on."""

    __slots__ = ("_world", "mask")

    def __init__(self, world: Any) -> None:
        self._world = world
        self.mask = EVERY_STEP

    def get(self, key: str) -> bytes | None:
        """The current body at `key`; None when nothing stands there."""
        self.mask |= self._world.objects.bit("key", key)
        body: bytes | None = self._world.bucket.body(key)
        return body

    def contents(self, prefix: str = "") -> Mapping[str, bytes]:
        """All current objects below `prefix`, in key order."""
        self.mask |= self._world.objects.listing("key", prefix)
        bodies: Mapping[str, bytes] = self._world.bucket.bodies(prefix)
        return bodies

    def keys(self, prefix: str = "") -> list[str]:
        """The keys below `prefix`, in order."""
        return list(self.contents(prefix))

    def notes(self, topic: str) -> list[Any]:
        """The values noted under `topic` so far, in the order in which they were noted."""
        return [value for _, value in self.signed_notes(topic)]

    def signed_notes(self, topic: str) -> list[tuple[str, Any]]:
        """The notes under `topic` with the process that made each."""
        self.mask |= self._world.objects.bit("note", topic)
        return list(self._world.noted.get(topic, ()))

    def result(self, name: str) -> Any:
        """What the process returned; None as long as it has not."""
        return self._process(name).result

    def results(self) -> dict[str, Any]:
        """What every process that has ended returned, by name. One that failed or is down is missing."""
        return {process.name: process.result for process in self._processes() if process.state == "done"}

    def state(self, name: str) -> str:
        """`running`, `done`, `failed` (an exception ended it), or `down` (crashed, and not restarted)."""
        return str(self._process(name).state)

    def states(self) -> dict[str, str]:
        return {process.name: process.state for process in self._processes()}

    def error(self, name: str) -> BaseException | None:
        """The exception that ended the process."""
        error: BaseException | None = self._process(name).error
        return error

    def now_ns(self) -> int:
        """The true time."""
        self.mask |= CLOCK
        return int(self._world.start_ns + self._world.clock_ns)

    def _processes(self) -> Iterator[Any]:
        for process in self._world.processes:
            self.mask |= self._world.objects.bit("end", process.name)
            yield process

    def _process(self, name: str) -> Any:
        for process in self._world.processes:
            if process.name == name:
                self.mask |= self._world.objects.bit("end", name)
                return process
        known = ", ".join(process.name for process in self._world.processes)
        raise LookupError(f"no process is called {name!r}; there are: {known}")


class Property:
    """One named check with its kind, and where it stands in this run."""

    __slots__ = ("bit", "check", "kind", "met", "name", "reads")

    def __init__(self, name: str, kind: str, check: Check) -> None:
        self.name = name
        self.kind = kind
        self.check = check
        self.reads = 0
        """What it looked at when it was judged last."""
        self.bit = 0
        self.met = False
        """Whether the good thing has happened in this run (eventually, sometimes)."""

    def judge(self, view: View) -> str | None:
        """Look, and say what is wrong. Never says anything for `sometimes` and `eventually`."""
        view.mask = EVERY_STEP
        try:
            verdict = self.check(view)
        except AssertionError as failure:
            verdict = _said(failure)
        except Exception as error:  # noqa: BLE001 - a check that breaks is reported with the run that broke it
            verdict = f"the check itself raised {type(error).__name__}: {error}"
        self.reads = view.mask & ~EVERY_STEP
        if self.kind in (EVENTUALLY, SOMETIMES):
            if verdict is not None and not isinstance(verdict, str) and verdict:
                self.met = True
            return None
        if verdict is None or verdict is True:
            return None
        return verdict if isinstance(verdict, str) else "the check said False"


def _said(failure: AssertionError) -> str:
    """The message without what pytest adds below it: that names objects by their address."""
    text = str(failure).split("\nassert ")[0]
    return (text.split("\n")[0] if text.startswith("assert ") else text) or "an assertion of the check failed"


class Violation:
    """What went wrong in a run: the property and the reason."""

    __slots__ = ("name", "reason")

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason

    def __repr__(self) -> str:
        return f"{self.name}: {self.reason}"
