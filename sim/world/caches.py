"""Caches of `functools` in modules of the user, one for each life of each process.

The cache is written in C, and what it keeps cannot be exchanged. So the cached function is replaced while
worlds run. The replacement calls the real one until a run has kept a result in it (see `variables`). From
then on every life of a process has a cache of its own.
"""

import functools
from collections.abc import Callable
from typing import Any

from fencepost.sim.world import places
from fencepost.sim.world.present import here
from fencepost.sim.world.reachable import identity, results_of

CACHED = functools._lru_cache_wrapper


class OwnCache:
    """In the place of a function that `functools.cache` or `lru_cache` made."""

    __module__ = "functools"
    """Walks for variables and functions enter it, as they enter the real one."""

    def __init__(self, real: Any) -> None:
        functools.update_wrapper(self, real)
        self.__wrapped__ = real.__wrapped__
        _reals[self] = real

    @property
    def real(self) -> Any:
        """The real function, which is no attribute: the next audit would replace it there by this one."""
        return _reals[self]

    def size(self) -> int:
        """Return the number of results that the real cache keeps."""
        return int(self.real.cache_info().currsize)

    def has_results(self, besides: Callable[[Any], bool]) -> bool:
        """Return True if the real cache keeps a result other than those that `besides` accepts."""
        return not all(besides(result) for result in results_of(self.real))

    def _now(self) -> Any:
        run = here()
        if run is None or run.running is None or run.variables is None:
            return self.real
        machine: Any = run.running.machine
        if not run.variables.has_cache(self):
            return self.real
        found = machine.caches.get(self)
        if found is None:
            found = functools.lru_cache(**self.real.cache_parameters())(self.real.__wrapped__)
            machine.caches[self] = found
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._now()(*args, **kwargs)

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    def cache_info(self) -> Any:
        """Return the numbers of the cache of the running process."""
        return self._now().cache_info()

    def cache_clear(self) -> None:
        """Clear the cache of the running process."""
        self._now().cache_clear()

    def cache_parameters(self) -> Any:
        """Return the parameters with which the cache was made."""
        return self.real.cache_parameters()


_reals: dict[OwnCache, Any] = {}
_made: dict[int, OwnCache] = {}
"""By identity of the real function; a replacement is the same in every audit."""
_reached: list[OwnCache] = []
"""Replacements that the present program reaches."""


def look(_program: Any, reached: list[Any]) -> tuple[places.Originals, list[places.Place]]:
    """Return the replacement of every cached function that the program reaches."""
    found: places.Originals = {}
    for one in reached:
        if type(one) is CACHED:
            made = _made.get(identity(one))
            if made is None or made.real is not one:
                made = _made[identity(one)] = OwnCache(one)
            found[identity(one)] = (one, made)
            if made not in _reached:
                _reached.append(made)
    return found, []


places.lookers.append(look)


def reached() -> list[OwnCache]:
    """Return the replacements that programs reached so far."""
    return _reached
