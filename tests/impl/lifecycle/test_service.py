"""A service works in rounds until it is stopped; what an operator wants it does within a second or two."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from fencepost.impl.lifecycle import cursors
from fencepost.impl.lifecycle.engine import Change, Seen
from fencepost.impl.lifecycle.policy import Degraded, Mode
from fencepost.impl.lifecycle.service import Round, Service
from fencepost.impl.lifecycle.target import Unavailable
from fencepost.impl.lifecycle.worker import Handled

from .given import BUCKET, DAY, EVERYTHING, START, Given, S

EVERY_S = 60.0


class Runs:
    """A service of a bucket, and its rounds."""

    def __init__(self, given: Given, holder: str = "one", share_s: float = 20.0) -> None:
        self.given = given
        self.worker = given.new_worker(holder)
        self.rounds: list[tuple[int, Round]] = []
        self.service = Service(self.worker, every_s=EVERY_S, share_s=share_s, on_round=self.ended)
        self.at: list[tuple[int, Callable[[], object]]] = []
        """What happens at which time."""

    def ended(self, one: Round) -> None:
        self.rounds.append((self.given.env.now_ns(), one))

    def run(self, seconds: float) -> "Runs":
        until_ns = self.given.env.now_ns() + round(seconds * S)

        def stop() -> bool:
            self.given.flush()
            while self.at and self.at[0][0] <= self.given.env.now_ns():
                self.at.pop(0)[1]()
            return self.given.env.now_ns() >= until_ns

        self.service.run(stop)
        return self

    def after(self, seconds: float, act: Callable[[], object]) -> "Runs":
        self.at.append((self.given.env.now_ns() + round(seconds * S), act))
        return self

    @property
    def times(self) -> list[float]:
        return [(time_ns - START) / S for time_ns, _ in self.rounds]


def test_rounds_delete_what_is_due_and_leases_are_released() -> None:
    given = Given()
    runs = Runs(given).after(30, lambda: given.bucket.write("a", 1, {})).run(200)
    assert given.keys == []
    assert runs.times == [0, 60, 120, 180]
    assert all(one.failed == {} for _, one in runs.rounds)
    before = given.env.now_ns()
    Runs(given, "two").run(1)
    assert given.env.now_ns() - before == S  # it had not to wait for the leases of the other one
    assert all(epoch == 2 for epoch in epochs(given))


def epochs(given: Given) -> list[int]:
    fields = [
        given.worker.records.read(key) for key in given.store.contents() if key.startswith(cursors.FOLDER)
    ]
    return [one["epoch"] for one in fields if one is not None]


def test_a_policy_that_is_put_is_looked_at_at_once() -> None:
    given = Given()
    given.bucket.structures = []
    given.bucket.write("a", 1, {})

    def put() -> None:
        given.bucket.structures = [EVERYTHING]
        given.worker.records.wake()

    runs = Runs(given).after(90, put).run(100)
    assert runs.times == [0, 60, 91]
    assert given.keys == []


def test_run_now_walks_at_once() -> None:
    given = Given()
    runs = Runs(given).after(10, lambda: given.operator.run_now()).run(20)
    assert runs.times == [0, 11]
    assert given.worker.records.bucket(BUCKET).walked_ns == START + 11 * S


def test_a_pause_of_all_is_durable_and_ends_at_once() -> None:
    given = Given().written("a")
    given.operator.pause("migration")
    Runs(given).run(130)
    runs = Runs(given, "two").after(70, lambda: given.operator.unpause())
    assert runs.service.round().paused_for == "migration"
    assert given.keys == ["a"]
    runs.run(80)
    assert given.keys == []


def test_a_pause_ends_the_pass_under_way_after_the_items_in_hand() -> None:
    given = Given().written("a", "b", "c")
    given.env.sleep(DAY / S)
    looks = given.bucket.looks

    def slow() -> Callable[[], None]:
        given.env.sleep(2)
        if len(looks) == 1:
            given.operator.pause("stop this")
        return lambda: None

    looks.clear()
    given.bucket.before = slow
    Runs(given).run(20)
    given.bucket.before = lambda: lambda: None
    assert given.keys == ["b", "c"]
    given.operator.unpause()
    Runs(given, "two").run(1)
    assert given.keys == []


def test_a_stream_has_a_share_of_a_round_and_goes_on_in_the_next() -> None:
    given = Given().written(*"abcdef")
    given.env.sleep(DAY / S)
    given.bucket.before = lambda: given.env.sleep(1) or (lambda: None)  # type: ignore[func-returns-value]  # None on purpose
    runs = Runs(given, share_s=3).run(30)
    stopped = [Handled.STOPPED in one.handled.values() for _, one in runs.rounds]
    assert stopped[0]
    assert given.keys == []
    assert runs.times[1] - runs.times[0] < EVERY_S  # the next round followed at once


def test_what_a_pass_was_stopped_at_is_not_passed() -> None:
    """Though time is there again when the pass ends."""
    given = Given().written("a", "b")
    given.env.sleep(DAY / S)
    given.flush()
    allowed = [True, False, True, True, True]
    given.worker.proceed = lambda: allowed.pop(0)
    (stream,) = [one for one in given.worker.streams() if one.delay_ns == DAY]
    assert given.worker.sweep(stream) is Handled.STOPPED
    assert given.keys == ["b"]
    given.worker.proceed = lambda: True
    given.worker.sweep(stream)
    assert given.keys == []


@pytest.mark.parametrize("what", ["page", "rules", "buckets"])
def test_what_fails_keeps_nothing_else_from_its_turn(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = Given().written("a")
    given.env.sleep(DAY / S)
    given.operator.run_now()
    given.flush()

    def down(*_: object, **__: object) -> object:
        raise Unavailable("the bucket does not answer")

    runs = Runs(given)
    with monkeypatch.context() as patch:
        patch.setattr(given.bucket, what, down)
        result = runs.service.round()
        assert "the bucket does not answer" in result.failed.values()
        assert (given.keys == []) == (what == "page")  # its events are looked at
    assert runs.service.round().failed == {}
    assert given.keys == []


def test_a_date_is_kept_to_the_round() -> None:
    date = (START // S + 90) // 4 * 4
    rule = {
        "Status": "Enabled",
        "Filter": {"Prefix": ""},
        "Expiration": {"Date": datetime.fromtimestamp(date, UTC)},
    }
    given = Given(rule)
    given.bucket.write("a", 1, {})
    assert Runs(given).run(70).given.keys == ["a"]
    Runs(given, "two").run(80)
    assert given.keys == []
    (state,) = given.worker.records.bucket(BUCKET).actions.values()
    assert state.mode is Mode.SCAN_AT_DATE


def test_a_cursor_is_saved_every_thousand_events() -> None:
    given = Given({**EVERYTHING, "Filter": {"Prefix": "x"}})
    given.work()
    for number in range(2_500):
        change = Change(BUCKET, "k", None, Seen(given.env.now_ns(), 1, str(number)))
        given.log.add("x", given.env.now_ns(), change)
    given.env.sleep(DAY / S)
    given.flush()
    saved: list[str] = []

    class Crash(BaseException):
        pass

    def proceed() -> bool:
        saved.append(given.cursor().saved)
        if len(saved) > 2_400:
            raise Crash
        return True

    given.worker.proceed = proceed
    (stream,) = [one for one in given.worker.streams() if one.delay_ns == DAY]
    with pytest.raises(Crash):
        given.worker.sweep(stream)
    assert given.cursor().saved == cursors.position(START, 1_999)


def test_what_falls_behind_within_a_round_is_left_to_scans_before_its_events_are_lost() -> None:
    """Two objects are written in each second, and a look takes one."""
    given = Given()
    retention_ns = given.log.retention_ns = DAY + 100 * S

    def look() -> Callable[[], None]:
        given.env.sleep(1)
        for number in range(2):
            given.bucket.write(f"{given.env.now_ns()}-{number}", 1, {})
        given.flush()
        given.log.lose_before("x", given.env.now_ns() - retention_ns)
        return lambda: None

    runs = Runs(given)
    runs.service.round()
    given.bucket.before = look
    given.bucket.write("first", 1, {})
    given.env.sleep(5)
    (rule,) = given.bucket.rules(BUCKET)
    (action,) = rule.actions()
    for _ in range(100):
        look()
        runs.service.round()
        if given.worker.records.bucket(BUCKET).mode(action) is Mode.SCAN_ONLY:
            break
    assert given.worker.records.bucket(BUCKET).actions[str(action)].reason is Degraded.LAG_HIGH
