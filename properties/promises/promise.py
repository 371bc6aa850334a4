"""The base of all promises: a property of a run that is judged by observations alone.

Soundness in an audit. Exploration runs one order of every class of runs that differ only by swapping
independent steps. Some rules judge what no such swap changes: the order of reads and writes of one key, the
order within one process, the end of the run. For all others the promise `orders` the observations on which
it depends, and the audit explores every order of them. `state` has everything on which later judgements
depend, and is the same in both orders of two independent steps.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import ClassVar

from fencepost.properties.promises.observation import Observation
from fencepost.properties.promises.targets import Target


class BadPromise(ValueError):
    """The text of a promise makes no sense."""


class Promise:
    """One promise about one target in one run."""

    kind: ClassVar[str] = ""
    meaning: ClassVar[str] = ""
    """The promise in one sentence."""
    options: ClassVar[Mapping[str, str]] = {}
    """Name to meaning."""
    needs_target: ClassVar[bool] = True
    has_memory: ClassVar[bool] = True
    reads_clock: ClassVar[bool] = False
    topic_target: ClassVar[bool] = False
    """The target is a topic of notes."""

    def __init__(self, target: str, given: Mapping[str, str] | None = None) -> None:
        self.given = dict(given or {})
        unknown = sorted(set(self.given) - set(self.options))
        if unknown:
            known = ", ".join(self.options) or "none"
            raise BadPromise(f"{self.kind} has no option {unknown[0]!r}; it has: {known}")
        if self.needs_target and not target:
            raise BadPromise(f"{self.kind} needs a target, as in {self.kind}=jobs/")
        self.target = Target(target)
        self.name = self.text()

    def text(self) -> str:
        """Return the promise as it is written on the command line."""
        parts = [self.target.text, *(f"{name}={value}" for name, value in self.given.items())]
        return f"{self.kind}={','.join(parts)}" if any(parts) else self.kind

    def seconds(self, name: str) -> int | None:
        """Return an option in nanoseconds; None if it is not given."""
        text = self.given.get(name)
        if text is None:
            return None
        try:
            return round(float(text) * 1e9)
        except ValueError:
            raise BadPromise(f"{self.kind}: {name}={text} is no number of seconds") from None

    def flag(self, name: str) -> bool:
        """Return an option that is yes or no."""
        text = self.given.get(name, "no")
        if text not in ("yes", "no"):
            raise BadPromise(f"{self.kind}: {name}={text} must be yes or no")
        return text == "yes"

    # Subclasses define the rest.

    def begin(self, objects: Mapping[str, tuple[bytes | None, str]]) -> None:
        """Take up the objects (content and hash) that exist at the beginning."""

    def orders(self, seen: Observation) -> bool:
        """Return True if the order of this and other such observations may decide."""
        del seen
        return False

    def observe(self, seen: Observation) -> str | None:
        """Take up one observation; return the reason if it breaks the promise."""
        raise NotImplementedError

    def finish(self, *, whole: bool) -> str | None:
        """Judge the end of a run; `whole`: every process came to its end, and none crashed for good."""
        del whole
        return None

    def state(self) -> Hashable:
        """Return everything on which later judgements depend."""
        raise NotImplementedError


def one_of(text: str, known: Iterable[str], what: str) -> str:
    """Return `text` if it is known."""
    names = sorted(known)
    if text not in names:
        raise BadPromise(f"no {what} is called {text!r}; known: {', '.join(names)}")
    return text
