"""A search in pieces (`--jobs`) must see what plain enumeration sees, and so must one that was put down.

If this fails, a footprint on the path of a piece is out of date, or a piece leaves out what no other has.
"""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.sim.explore.checkpoint import load, save, unpack
from fencepost.sim.explore.pieces import split
from fencepost.sim.explore.plain import Plain
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.runs import Setting, final_state
from fencepost.sim.world import NO_FAULTS, Budget, World
from fencepost.sim.world.stamps import STAMPED
from tests.depth import examples
from tests.sim.explore.programs import MESSAGES, WATCHES, program_of, random_step

PLAIN_MAX = 1_000
NONE = {"crash": 0, "reply_lost": 0, "request_lost": 0, "pause": 0}
BUDGETS = [
    NO_FAULTS,
    Budget(**{**NONE, "crash": 1}),
    Budget(**{**NONE, "crash": 2}, restart=1),
    Budget(**{**NONE, "reply_lost": 1}, late=1),
    Budget(**{**NONE, "pause": 1}),
    Budget(**NONE, notification_delayed=1),
]
Seen = tuple[set[Any], set[str]]


def by_plain(setting: Setting) -> Seen | None:
    """The endings and the violations; None when there is too much to enumerate."""
    endings: set[Any] = set()
    plain = Plain(setting, first_only=False, observe=lambda world: endings.add(final_state(world)))
    plain.explore(lambda search: search.schedules + search.cut > PLAIN_MAX)
    if not plain.exhausted or plain.cut:
        return None
    return endings, {str(failure.violation) for failure in plain.failures}


def by_pieces(setting: Setting, count: int) -> Seen:
    """The same of at least `count` pieces together."""
    endings: set[Any] = set()
    violated: set[str] = set()

    def explore(piece: Any) -> None:
        search = ReducedSearch(
            setting, first_only=False, observe=lambda world: endings.add(final_state(world))
        )
        unpack(search, piece)
        search.explore()
        assert search.timed == STAMPED
        violated.update(str(failure.violation) for failure in search.failures)
        assert search.exhausted

    for piece in split(ReducedSearch(setting, timed=STAMPED), count):
        explore(piece)
    return endings, violated


def by_parts(setting: Setting, file: Path, runs: int) -> Seen:
    """The same of a search that is saved and loaded after every few runs."""
    endings: set[Any] = set()
    violated: set[str] = set()
    search: ReducedSearch | None = None
    while search is None or not search.exhausted:
        before = search
        search = ReducedSearch(
            setting, first_only=False, timed=STAMPED, observe=lambda world: endings.add(final_state(world))
        )
        if before is not None:
            load(search, file)
        limit = search.runs + runs
        search.explore(lambda s, limit=limit: s.runs >= limit)
        violated.update(str(failure.violation) for failure in search.failures)
        save(search, file)
    return endings, violated


def random_setting(draw: Random) -> Setting:
    codes = [
        [
            draw.choice(MESSAGES) if draw.random() < 0.15 else random_step(draw)
            for _ in range(draw.choice((1, 2, 2)))
        ]
        for _ in range(draw.choice((2, 2, 3)))
    ]
    return Setting(program_of(codes, draw.choice(WATCHES)), draw.choice(BUDGETS))


def compare(seed: int, file: Path) -> bool:
    """Whether the program of this seed could be enumerated."""
    draw = Random(seed)
    setting = random_setting(draw)
    every = by_plain(setting)
    if every is not None:
        assert by_pieces(setting, draw.choice((2, 5, 16, 60))) == every, seed
        assert by_parts(setting, file, draw.choice((1, 3, 20))) == every, seed
    return every is not None


def test_a_listing_that_another_piece_met_first_is_a_listing_in_every_piece() -> None:
    """What sleeps in the second piece was written before anything was listed."""

    def program(world: World) -> None:
        store = world.store()
        world.spawn(store.put, "a", b"", when=ANYTHING, name="writer")
        world.spawn(lambda: len(store.list("").objects), name="reader")

    setting = Setting(program, NO_FAULTS)
    assert by_pieces(setting, 2) == by_plain(setting)


def test_pieces_count_every_step_once() -> None:
    """Also the steps before the pieces begin: with no reduction, as many as one search counts."""

    def program(world: World) -> None:
        store = world.store()
        world.spawn(lambda: world.note("begun") or store.put("a", b"", when=ABSENT), name="one")
        world.spawn(lambda: store.put("a", b"", when=ABSENT), name="other")
        world.always("begun", lambda view: True, when=lambda view: view.notes("begun"))
        world.always("nothing begun", lambda view: True, when=lambda view: not view.notes("begun"))

    setting = Setting(program, Budget(**{**NONE, "reply_lost": 1}))
    options: dict[str, Any] = {"races": False, "sleep": False, "merge": False, "timed": STAMPED}
    alone = ReducedSearch(setting, **options)
    alone.explore()
    for count in (2, 5, 16):
        whole = ReducedSearch(setting, **options)
        total = whole.coverage
        for piece in split(whole, count):
            search = ReducedSearch(setting, **options)
            unpack(search, piece)
            search.explore()
            total.add(search.coverage)
        assert total.summary() == alone.coverage.summary()


def test_pieces_of_random_programs_end_like_the_whole(tmp_path: Path) -> None:
    assert sum(compare(seed, tmp_path / "search.json") for seed in range(3))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 1000, 100))
def test_pieces_of_many_random_programs_end_like_the_whole(start: int, tmp_path: Path) -> None:
    assert sum(compare(seed, tmp_path / "search.json") for seed in range(start, start + examples(10, 100)))
