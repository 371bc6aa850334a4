"""A search in pieces (`--jobs`) must see what plain enumeration sees, and so must one that was put down.

If this fails, a footprint on the path of a piece is out of date, or a piece leaves out what no other has.
"""

import json
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest

from fencepost.impl.store import ABSENT, ANYTHING, Matches, Outcome
from fencepost.sim.explore import audit, pieces
from fencepost.sim.explore.checkpoint import BadCheckpoint, load, pack_coverage, save, unpack
from fencepost.sim.explore.deepening import Deepening
from fencepost.sim.explore.pieces import Piece, Together, adopt, cut, explored, knowledge_of, split
from fencepost.sim.explore.plain import Plain
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.runs import Setting, final_state
from fencepost.sim.world import NO_FAULTS, Budget, World
from fencepost.sim.world.stamps import CLOCKED, STAMPED, UNTIMED
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


def by_cuts(setting: Setting, runs: int) -> Seen:
    """The same of pieces that are cut again and again, after every few runs."""
    endings: set[Any] = set()
    violated: set[str] = set()
    left = split(ReducedSearch(setting, timed=STAMPED), 2)
    while left:
        search = ReducedSearch(
            setting, first_only=False, observe=lambda world: endings.add(final_state(world))
        )
        unpack(search, left.pop())
        search.explore(lambda at: at.runs >= runs)
        violated.update(str(failure.violation) for failure in search.failures)
        if not search.exhausted:
            left += cut(search)
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
        assert by_cuts(setting, draw.choice((5, 20, 60))) == every, seed
    return every is not None


def test_a_listing_that_another_piece_met_first_is_a_listing_in_every_piece() -> None:
    """What sleeps in the second piece was written before anything was listed."""

    def program(world: World) -> None:
        store = world.store()
        world.spawn(store.put, "a", b"", when=ANYTHING, name="writer")
        world.spawn(lambda: len(store.list("").objects), name="reader")

    setting = Setting(program, NO_FAULTS)
    assert by_pieces(setting, 2) == by_plain(setting)


def test_what_sleeps_in_a_piece_wakes_at_the_first_listing() -> None:
    """Another piece explores what sleeps, so this one is the first to list anything."""

    def program(world: World) -> None:
        world.configure(stamped=False, ticks=0)  # nor does it wake when time passes
        store = world.store()
        world.spawn(store.put, "a/x", b"", when=ANYTHING, name="writer")
        world.spawn(store.put, "flag", b"", when=ANYTHING, name="other")
        world.spawn(lambda: store.get("flag").done and len(store.list("a/").objects), name="reader")

    setting = Setting(program, NO_FAULTS)
    assert by_pieces(setting, 3) == by_plain(setting)


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


def test_what_is_left_of_a_piece_is_not_explored_again() -> None:
    """With no reduction, pieces that are cut again and again have as many schedules as one search."""

    def program(world: World) -> None:
        store = world.store()
        for name in ("one", "other"):
            world.spawn(lambda: [store.put(key, b"", when=ABSENT) for key in "ab"] and None, name=name)

    setting = Setting(program, Budget(**{**NONE, "reply_lost": 1}))
    options: dict[str, Any] = {"races": False, "sleep": False, "merge": False, "timed": STAMPED}

    def schedules(runs: int) -> int:
        left, found = split(ReducedSearch(setting, **options), 2), 0
        while left and found < 1_000:
            search = ReducedSearch(setting, **options)
            unpack(search, left.pop())
            search.explore(lambda at: at.runs >= runs)
            found += search.schedules
            left += [] if search.exhausted else cut(search)
        return found

    assert schedules(10**6) == schedules(7)


class Disorderly:
    """Workers that end in an order of their own, and explore some pieces twice, as after a loss."""

    def __init__(self, setting: Setting, draw: Random) -> None:
        self.size = draw.choice((1, 3, 10))
        self._setting, self._draw = setting, draw
        self._given: list[Piece] = []

    def give(self, piece: Piece) -> None:
        self._given.append(piece)

    def take(self, timeout_s: float) -> list[Any]:
        piece = self._given.pop(self._draw.randrange(len(self._given)))
        if self._draw.random() < 0.3:
            explored(self._setting, piece.data, piece.runs_max)  # its worker was lost with the result
        return [(piece.order, explored(self._setting, piece.data, piece.runs_max))]

    def close(self) -> None:
        self._given.clear()


def rivals(world: World, *, fails: bool) -> None:
    """Each of three adds 1 to a counter; only one of them in vain."""
    store = world.store()

    def add(name: str) -> None:
        found = store.get("count")
        value = int(found.body) if found.info is not None else 0
        when = ABSENT if found.info is None else Matches(found.info.etag)
        put = store.put("count", b"%d" % (value + 1), when=when if name != "bob" else ANYTHING)
        if put.outcome is Outcome.DONE:
            world.note("added", name)

    for name in ("ann", "bob", "cid"):
        world.spawn(add, name, name=name)
    world.sometimes("all are counted", lambda view: view.get("count") == b"3")
    world.finally_("counts", lambda view: not fails or int(view.get("count")) >= len(view.notes("added")))


def disorderly(setting: Setting, seed: int, stop: Any = lambda _: False, **options: Any) -> Together:
    draw = Random(seed)
    together = Together(setting, 1, STAMPED, pool=lambda setting, _: Disorderly(setting, draw), **options)
    together.explore(stop)
    return together


def test_any_workers_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first failure in the order of pieces, and the counts of the pieces before it alone."""
    monkeypatch.setattr(pieces, "SAVE_S", 0.0)  # without a checkpoint there is nothing to save
    monkeypatch.setattr(pieces, "RUNS_FIRST", 20)
    monkeypatch.setattr(pieces, "RUNS_MAX", 60)
    for fails in (True, False):
        seen = set()
        for seed in range(2):
            setting = Setting(partial(rivals, fails=fails), NO_FAULTS)
            whole = disorderly(setting, seed).whole
            steps = [str(step) for failure in whole.failures for step in failure.steps]
            assert fails or not whole.coverage.findings()
            coverage = json.dumps(pack_coverage(whole.coverage), sort_keys=True)
            seen.add((whole.runs, whole.schedules, coverage, tuple(steps), whole.exhausted))
        assert len(seen) == 1
        ((*_, steps, exhausted),) = seen
        assert (bool(steps), exhausted) == (fails, not fails)


class AtOnce(Disorderly):
    """Workers that report all their pieces together."""

    def __init__(self, setting: Setting, *, backwards: bool) -> None:
        super().__init__(setting, Random(1))
        self.size = 100
        self._backwards = backwards

    def take(self, timeout_s: float) -> list[Any]:
        found = [(piece.order, explored(self._setting, piece.data, piece.runs_max)) for piece in self._given]
        self._given.clear()
        AtOnce.failures.append(sum(bool(report["failures"]) for _, report in found))
        return sorted(found, key=lambda one: one[0], reverse=self._backwards)

    failures: ClassVar[list[int]] = []


def test_of_several_failures_that_arrive_together_the_first_in_order_counts() -> None:
    """If this fails, the counterexample depends on which worker was the last."""
    found = []
    for backwards in (False, True):
        setting = Setting(partial(rivals, fails=True), NO_FAULTS)
        pool = partial(AtOnce, backwards=backwards)
        together = Together(setting, 1, STAMPED, pool=lambda setting, _, pool=pool: pool(setting))
        whole = together.explore(lambda _: False)
        found.append([str(step) for failure in whole.failures for step in failure.steps])
    assert AtOnce.failures[0] > 1
    assert found[0] == found[1]


def test_a_search_in_pieces_goes_on_with_those_that_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is explored twice, and nothing is left out: the counts are those of a search without a stop."""
    monkeypatch.setattr(pieces, "RUNS_FIRST", 20)
    monkeypatch.setattr(pieces, "RUNS_MAX", 60)
    monkeypatch.setattr(pieces, "SAVE_S", 0.0)
    file = tmp_path / "search.json"
    program = partial(rivals, fails=False)
    alone = disorderly(Setting(program, NO_FAULTS), 0).whole
    runs = 0
    for seed in range(20):
        together = Together(Setting(program, NO_FAULTS), 1, STAMPED, checkpoint=str(file))
        if runs:
            together.load(str(file))
        together._pool = lambda setting, _, seed=seed: Disorderly(setting, Random(seed))
        whole = together.explore(lambda at, runs=runs: at.runs > runs + 150)
        save(whole, file)
        runs = whole.runs
        if whole.exhausted:
            break
        with pytest.raises(BadCheckpoint, match="a search in pieces"):
            load(ReducedSearch(Setting(program, NO_FAULTS)), file)
    assert whole.exhausted
    assert seed
    assert (whole.schedules, whole.runs) == (alone.schedules, alone.runs)
    assert whole.coverage.summary() == alone.coverage.summary()
    assert whole.explored() == 1.0


def late_deadline(world: World) -> None:
    """Only the last step compares times, so no piece knows of the deadline at its beginning."""
    store = world.store()

    def wait() -> None:
        began = store.env.monotonic_ns()
        for key in ("a", "b"):
            store.put(key, b"", when=ANYTHING)
        if store.get("b").done and store.env.monotonic_ns() - began > 3_600 * 10**9:
            world.note("late")

    world.spawn(wait, name="ann", restart=False)
    world.spawn(lambda: store.put("b", b"", when=ANYTHING), name="bob", restart=False)


def test_a_piece_that_learns_something_has_all_pieces_start_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many schedules are explored as where it is known from the beginning."""
    monkeypatch.setattr(pieces, "RUNS_FIRST", 5)

    def explored_with(knowledge: Any, timed: int) -> tuple[ReducedSearch, Setting]:
        setting = Setting(late_deadline, Budget(**{**NONE, "pause": 1}))
        if knowledge is not None:
            adopt(setting, knowledge)
        together = Together(setting, 1, timed, pool=lambda setting, _: Disorderly(setting, Random(1)))
        return together.explore(lambda _: False), setting

    found, setting = explored_with(None, UNTIMED)
    known, _ = explored_with(knowledge_of(setting), found.timed)
    assert setting.deadlines.tried
    assert (found.schedules, found.exhausted) == (known.schedules, True)


class Stale(Disorderly):
    """Workers that learn something in every piece; `news`: each time something else."""

    begun = 0

    def __init__(self, setting: Setting, *, news: bool) -> None:
        super().__init__(setting, Random(1))
        Stale.begun += 1
        assert Stale.begun < 9, "the pieces start over for ever"
        self._loops = [f"loop {Stale.begun}"] if news else []

    def take(self, timeout_s: float) -> list[Any]:
        ((order, report), *_) = super().take(timeout_s)
        known = report["knowledge"]
        endless, starving = known["loops"]
        known = {**known, "loops": [sorted({*endless, *self._loops}), starving]}
        return [(order, {**report, "stale": True, "knowledge": known})]


@pytest.mark.parametrize(("news", "begun"), [(False, 1), (True, 4)])
def test_pieces_do_not_start_over_for_ever(news: bool, begun: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process explores what is left, and decides the same."""
    monkeypatch.setattr(pieces, "RESTARTS_MAX", 3)
    monkeypatch.setattr(Stale, "begun", 0)
    setting = Setting(partial(rivals, fails=True), NO_FAULTS)
    whole = Together(setting, 2, STAMPED, pool=lambda setting, _: Stale(setting, news=news)).explore(
        lambda _: False
    )
    alone = ReducedSearch(Setting(partial(rivals, fails=True), NO_FAULTS), timed=STAMPED)
    alone.explore()
    assert Stale.begun == begun
    assert [failure.choices for failure in whole.failures] == [one.choices for one in alone.failures]
    assert whole.failures


def late_write(world: World) -> None:
    """Only a pause between the two readings breaks the promise, and pieces begin after the second."""
    store = world.store()

    def write() -> None:
        began = store.env.monotonic_ns()
        store.put("a", b"", when=ANYTHING)
        if store.env.monotonic_ns() - began > 3_600 * 10**9:
            world.note("late")

    world.spawn(write, name="ann", restart=False)
    world.finally_("in time", lambda view: not view.notes("late"))


def test_pieces_are_split_again_where_splitting_them_showed_the_time() -> None:
    """Nodes that were made before have no pauses. If this fails, such a search holds and has tried none."""
    budget = Budget(**{**NONE, "pause": 1})
    together = Together(
        Setting(late_write, budget), 1, pool=lambda setting, _: Disorderly(setting, Random(1))
    )
    whole = together.explore(lambda _: False)
    assert [str(failure.violation) for failure in whole.failures] == ["in time: the check returned False"]


def test_an_audit_in_pieces_tries_pauses_where_the_rehearsal_saw_no_time(tmp_path: Path) -> None:
    """Only schedules other than that of the first run read the time."""

    def program(world: World) -> None:
        store = world.store()

        def write() -> None:
            if store.get("b").done:
                began = store.env.monotonic_ns()
                store.put("a", b"", when=ANYTHING)
                if store.env.monotonic_ns() - began > 3_600 * 10**9:
                    world.note("late")

        world.spawn(write, name="ann", restart=False)
        world.spawn(lambda: store.put("b", b"", when=ANYTHING), name="bob", restart=False)
        world.finally_("in time", lambda view: not view.notes("late"))

    budget = Budget(**{**NONE, "pause": 1})
    for jobs in (1, 2):
        file = str(tmp_path / f"{jobs}.json")
        assert audit(program, budget=budget, jobs=jobs, checkpoint=file).verdict == "violated"


def test_pieces_of_a_checkpoint_are_explored_again_where_more_is_known(tmp_path: Path) -> None:
    """The checkpoint holds what was learnt after they were made as well."""
    budget, file = Budget(**{**NONE, "pause": 1}), tmp_path / "search.json"
    learning = Setting(late_write, budget)
    ReducedSearch(learning).explore()
    before = Setting(late_write, budget)
    whole = ReducedSearch(before, timed=CLOCKED)
    whole.left = [[[at], 1.0, piece] for at, piece in enumerate(split(whole, 16))]
    adopt(before, knowledge_of(learning))
    save(whole, file)
    together = Together(
        Setting(late_write, budget), 1, pool=lambda setting, _: Disorderly(setting, Random(1))
    )
    together.load(str(file))
    assert together.explore(lambda _: False).failures


def test_pieces_start_over_with_the_endless_loops_that_one_of_them_met(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the writer sees the mark, the reader waits for ever."""

    def program(world: World) -> None:
        store = world.store()

        def write() -> None:
            if not store.put("mark", b"a", when=ABSENT).done:
                return
            store.put("go", b"", when=ANYTHING)

        def wait() -> None:
            store.put("mark", b"b", when=ABSENT)
            while not store.head("go").done:
                pass

        world.spawn(write, name="ann")
        world.spawn(wait, name="bob")

    begun = []

    def counted(search: ReducedSearch, count: int) -> list[dict[str, Any]]:
        begun.append(count)
        assert len(begun) < 5, "it starts over for ever"
        return split(search, count)

    monkeypatch.setattr(pieces, "split", counted)
    whole = Together(Setting(program, NO_FAULTS), 2, STAMPED).explore(lambda _: False)
    alone = ReducedSearch(Setting(program, NO_FAULTS), timed=STAMPED)
    alone.explore()
    assert (whole.exhausted, bool(whole.cut), whole.schedules) == (True, True, alone.schedules)
    assert len(begun) == 2


def test_an_endless_program_in_pieces_keeps_its_limit_of_steps() -> None:
    def program(world: World) -> None:
        store = world.store()

        def beat() -> None:
            count = 0
            while True:
                count += 1
                store.put("beat", b"%d" % count, when=ANYTHING)

        world.spawn(beat, name="ann")

    setting = Setting(program, NO_FAULTS, steps_max=20)
    whole = Deepening(setting, pool=lambda setting, _: Disorderly(setting, Random(1))).explore(
        lambda _: False
    )
    assert (whole.exhausted, whole.cut, whole.setting.steps_max) == (True, 1, 20)


COUNTED: list[str] = []


def test_workers_report_the_variables_that_processes_share(tmp_path: Path) -> None:
    """Only schedules other than those of the rehearsal change it. If it is shared, one of them counts."""

    def program(world: World) -> None:
        store = world.store()

        def count(name: str) -> None:
            if [store.get("n").body for _ in range(3)] == [b"", b"1", b"2"] and not COUNTED:
                COUNTED.append(name)
                world.note("counts", name)

        def step() -> None:
            for number in (b"1", b"2"):
                store.put("n", number, when=ANYTHING)

        for name in ("ann", "bob"):
            world.spawn(count, name, name=name)
        world.spawn(step, name="cid")
        world.finally_("one counts", lambda view: len(view.notes("counts")) < 2)

    for jobs in (1, 2):
        file = str(tmp_path / f"{jobs}.json")
        found = audit(program, budget=NO_FAULTS, jobs=jobs, checkpoint=file, minimise_seconds=0.1)
        assert found.verdict == "violated"


def test_a_piece_gives_the_same_in_every_worker() -> None:
    """A lost piece is explored again: what it finds may not depend on what its worker explored before."""
    setting = Setting(partial(rivals, fails=False), NO_FAULTS)
    first, second = split(ReducedSearch(setting, timed=STAMPED), 2)[:2]
    before = explored(setting, first, 5)
    explored(setting, second, 50)
    assert explored(setting, first, 5) == before
    assert before["left"]
    assert json.loads(json.dumps(before["left"])) == json.loads(
        json.dumps(explored(setting, first, 5)["left"])
    )


def test_pieces_of_random_programs_end_like_the_whole(tmp_path: Path) -> None:
    assert sum(compare(seed, tmp_path / "search.json") for seed in range(3))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 1000, 100))
def test_pieces_of_many_random_programs_end_like_the_whole(start: int, tmp_path: Path) -> None:
    assert sum(compare(seed, tmp_path / "search.json") for seed in range(start, start + examples(10, 100)))
