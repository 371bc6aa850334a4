"""The interface of `World` for programs that run against a real store, as far as a real run can offer it.

`run` describes a round and what its verdicts mean.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from fencepost.impl.store.interface import Store
from fencepost.sim.real.run import Member, RealRun
from fencepost.sim.world.declaring import Declaring

T = TypeVar("T")


class NotForReal(Exception):
    """The program needs a feature that only the simulated world has."""


class RealWorld(Declaring, RealRun):
    """One round, with the interface of `World` where a real run can offer it."""

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
        """No effect in a real run."""

    def configure(self, *, versioned: bool = False, **_: Any) -> None:
        if versioned != self._raw.versioned():
            has = "keeps no versions" if versioned else "keeps versions"
            raise NotForReal(
                f"the program needs a bucket {'with' if versioned else 'without'} versions, and the "
                f"store {has}; give --store another"
            )

    def follow(self, name: str, follower: Any) -> None:
        del follower
        self._find(f"{name}: not checked, because the order of effects in a real store is unknown")

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """No effect in a real run: costs are counted in the simulated world."""
        del name
        yield

    def at_most(self, name: str, **_: Any) -> None:
        self._find(f"cost of {name}: not checked, because the faults of a real store are unknown")

    def note(self, topic: str, value: Any = None) -> None:
        with self._gate.passing():
            self.noted.setdefault(topic, []).append((self.me, value))
        self.record("note", f"note {topic}: {value!r:.40}", "")
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
            f"the program uses world.{name}, which only the simulated world has; leave out --store"
        )
