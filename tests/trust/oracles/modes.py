"""The endings of a program, found by the search in each of its modes."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from fencepost.sim.explore.checkpoint import load, save, unpack
from fencepost.sim.explore.pieces import split
from fencepost.sim.explore.plain import Plain
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.runs import Setting
from fencepost.sim.explore.sampling import Pct
from fencepost.sim.explore.sampling import Random as AtRandom
from fencepost.sim.world import Budget, Footprints, Program, World
from fencepost.sim.world.stamps import STAMPED

RUNS_MAX = 6_000
"""Runs after which a search is given up, and not compared."""
PLAIN_MAX = 300
SAMPLES = 15

Observe = Callable[[World], None]


class Eager(ReducedSearch):
    """Keeps every state, so that a mistake in merging shows in small programs."""

    def reset(self, footprints: Footprints) -> None:
        super().reset(footprints)
        self._states.worth_keeping = lambda *_: True  # type: ignore[method-assign]  # for this search only


class Undecided(Exception):
    """The search has more runs than a test may take."""


def by_search(kind: type[ReducedSearch], setting: Setting, observe: Observe, **options: Any) -> None:
    search = kind(setting, first_only=False, observe=observe, **options)
    search.explore(lambda found: found.runs > RUNS_MAX)
    _judge(search)


def by_plain(setting: Setting, observe: Observe) -> None:
    search = Plain(setting, first_only=False, observe=observe)
    search.explore(lambda found: found.schedules > PLAIN_MAX)
    _judge(search)


def resumed(setting: Setting, observe: Observe, file: Path, draw: Random) -> None:
    """Put the search down after a random number of runs, several times, and go on from the file."""
    search = ReducedSearch(setting, first_only=False, observe=observe)
    while True:
        until = search.runs + draw.choice([1, 2, 5, 20, 100])
        search.explore(lambda found, until=until: found.runs >= until)
        if search.exhausted or search.runs > RUNS_MAX:
            break
        save(search, file)
        search = ReducedSearch(setting, first_only=False, observe=observe)
        load(search, file)
    _judge(search)


def in_pieces(setting: Setting, observe: Observe, count: int) -> None:
    """Explore the pieces that operating-system processes would share."""
    for piece in split(ReducedSearch(setting, timed=STAMPED), count):
        search = ReducedSearch(setting, first_only=False, observe=observe)
        unpack(search, piece)
        search.explore(lambda found: found.runs > RUNS_MAX)
        if search.stale:
            raise Undecided  # what it learnt starts the whole search over, which `audit` does
        _judge(search)


def sampled(setting: Setting, kind: type[AtRandom] | type[Pct], observe: Observe) -> None:
    search = kind(setting)
    plain = search._after

    def after(world: World, ended: bool) -> None:
        plain(world, ended)
        if ended:
            observe(world)

    search._after = after  # type: ignore[method-assign]  # for this search only
    search.explore(lambda found: found.schedules >= SAMPLES)
    assert not search.failures, search.failures[0].violation


def _judge(search: Any) -> None:
    assert not search.failures, search.failures[0].violation
    if not search.exhausted or search.cut:
        raise Undecided


class Modes:
    """The endings of one program in one mode after another."""

    def __init__(
        self, program: Program, budget: Budget, ending_of: Callable[[World], Any], folder: Path, seed: int
    ) -> None:
        self._program = program
        self._budget = budget
        self._ending_of = ending_of
        self._folder = folder
        self._seed = seed

    def endings(self, mode: str) -> set[Any] | None:
        """Return the endings; None where there are more runs than a test may take."""
        found: set[Any] = set()

        def observe(world: World) -> None:
            found.add(self._ending_of(world))

        setting = Setting(self._program, self._budget, self._seed)
        try:
            self._explore(mode, setting, observe)
        except Undecided:
            return None
        return found

    def _explore(self, mode: str, setting: Setting, observe: Observe) -> None:
        match mode:
            case "plain":
                by_plain(setting, observe)
            case "not merged":
                by_search(ReducedSearch, setting, observe, merge=False)
            case "reduced":
                by_search(ReducedSearch, setting, observe)
            case "no sleep sets":
                by_search(ReducedSearch, setting, observe, sleep=False)
            case "every state kept":
                by_search(Eager, setting, observe)
            case "every state kept, times stamped":
                by_search(Eager, setting, observe, timed=STAMPED)
            case "resumed":
                resumed(setting, observe, self._folder / f"{self._seed}.json", Random(self._seed))
            case "pieces":
                in_pieces(setting, observe, 2 + self._seed % 9)
            case "random":
                sampled(setting, AtRandom, observe)
            case "pct":
                sampled(setting, Pct, observe)
            case _:
                raise AssertionError(mode)


EXACT = (
    "reduced",
    "not merged",
    "no sleep sets",
    "every state kept",
    "every state kept, times stamped",
    "resumed",
    "pieces",
    "plain",
)
SAMPLING = ("random", "pct")


def differences(modes: Modes, expected: set[Any], names: tuple[str, ...]) -> Iterator[str]:
    """Return what each mode misses or invents."""
    for name in names:
        found = modes.endings(name)
        if found is None:
            continue
        missed = set() if name in SAMPLING else expected - found
        invented = found - expected
        for text, endings in (("misses", missed), ("invents", invented)):
            if endings:
                yield f"{name} {text} {len(endings)} of {len(expected)}: {min(endings, key=repr)!r}"
