"""The world without control, as programs see it: what `World` is to them, as far as a real run can be.

How a round goes, and what its verdicts are worth, is in `run`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from fencepost.impl.store.interface import Store
from fencepost.sim.real.run import Member, RealRun
from fencepost.sim.world.declaring import Declaring

T = TypeVar("T")


class NotForReal(Exception):
    """The program needs what only the world under control has."""


class RealWorld(Declaring, RealRun):
    """One round. To programs it is what `World` is, as far as a real run can be."""

    @property
    def setting_up(self) -> bool:
        return not self._started

    def store(self) -> Store:
        return self._store

    def spawn(
        self,
        fn: Callable[..., Any],
        *args: Any,
        name: str = "",
        restart: bool = True,
        may_raise: tuple[type[BaseException], ...] = (),
        **kwargs: Any,
    ) -> str:
        del restart  # nobody crashes
        name = self._name_for(fn, name)
        self.processes.append(Member(name, fn, args, kwargs, may_raise))
        return name

    def share_nothing(self) -> None:
        """Of no use here."""

    def configure(self, *, versioned: bool = False, **_: Any) -> None:
        if versioned != self._raw.versioned():
            has = "keeps no versions" if versioned else "keeps versions"
            raise NotForReal(
                f"the program asks for a bucket {'with' if versioned else 'without'} versions, and the "
                f"store {has}; give --store another"
            )

    def follow(self, name: str, follower: Any) -> None:
        del follower
        self._find(f"{name}: not looked at, because nobody knows in which order a real store decided")

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Of no use here: what it costs is counted under control."""
        del name
        yield

    def at_most(self, name: str, **_: Any) -> None:
        self._find(f"cost of {name}: not judged, because nobody knows which faults a real store had")

    def note(self, topic: str, value: Any = None) -> None:
        with self._gate.passing():
            self.noted.setdefault(topic, []).append((self.me, value))
        self.tell("note", f"note {topic}: {value!r:.40}", "")
        self.look()

    def post(self, channel: str, message: Any) -> None:
        self._messages[channel].append(message)

    def receive(self, channel: str) -> Any:
        waiting = self._messages[channel]
        return waiting.popleft() if waiting else None

    def pick(self, name: str, options: Sequence[T]) -> T:
        return self._chance.stream(f"{self._number} {self.me} {name}").choice(options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("boto3"):
            raise NotForReal(
                "the program is written on boto3, whose buckets cannot be given a prefix of their own; "
                "--store runs programs on Fencepost's own interface"
            )
        raise NotForReal(
            f"the program uses world.{name}, which only the world under control has; leave out --store"
        )
