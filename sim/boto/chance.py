"""Stand-ins for randomness and identifiers: each process draws from a stream of its own.

The streams are the environment's: made from the seed of the run, the process's name and how often it was
restarted. So what is drawn depends on nothing that another process does, and a restarted process does not
draw the same again.

`secrets`, `uuid.uuid4` and `random.SystemRandom` all end at `os.urandom`. A `random.Random()` without a
seed takes one from the operating system, below Python; here it takes it from the stream.
"""

import os
import random
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from fencepost.sim.boto.present import REAL, controlled, kind_of

_FUNCTIONS = (
    "random uniform triangular randint choice randrange sample shuffle choices normalvariate lognormvariate "
    "expovariate vonmisesvariate gammavariate gauss betavariate paretovariate weibullvariate binomialvariate "
    "getstate setstate getrandbits randbytes seed"
).split()
_real_seed = random.Random.seed
_real_urandom = os.urandom
_real_getrandom = getattr(os, "getrandom", None)
_real_uuid1 = uuid.uuid1


def stream() -> Any:
    """The stream of whoever asks; only when a world is in control."""
    return controlled().env.stream("python.random")


def _drawing(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        if controlled() is None or kind_of(sys._getframe(1)) == REAL:
            return real(*args, **kwargs)
        return getattr(stream(), name)(*args, **kwargs)

    return stand_in


def _seed(self: Any, a: Any = None, version: int = 2) -> None:
    if a is None and controlled() is not None:
        a = stream().getrandbits(128)
    _real_seed(self, a, version)


def _urandom(size: int, /) -> bytes:
    if controlled() is None or kind_of(sys._getframe(1)) == REAL:
        return _real_urandom(size)
    return bytes(stream().randbytes(size))


def _getrandom(size: int, flags: int = 0) -> bytes:
    if controlled() is None or kind_of(sys._getframe(1)) == REAL:
        assert _real_getrandom is not None
        return bytes(_real_getrandom(size, flags))
    return bytes(stream().randbytes(size))


def _uuid1(node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
    if controlled() is None or kind_of(sys._getframe(1)) == REAL:
        return _real_uuid1(node, clock_seq)
    # The clock is left out: reading it would be a step.
    return uuid.UUID(int=stream().getrandbits(128), version=1)


def stand_ins() -> Iterator[tuple[Any, str, Any]]:
    """Where each belongs: module or class, name, and what stands in."""
    for name in _FUNCTIONS:
        if hasattr(random, name):
            yield random, name, _drawing(name, getattr(random, name))
    yield random.Random, "seed", _seed
    yield random, "_urandom", _urandom
    yield os, "urandom", _urandom
    if _real_getrandom is not None:
        yield os, "getrandom", _getrandom
    yield uuid, "uuid1", _uuid1
