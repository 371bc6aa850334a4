"""A part of a moment that is shown, as the name of a folder is, may be another one after a pause.

Programs that name objects by the day or the hour compare no times. If this fails, an audit says that two
readings of a clock always give the same name.
"""

import datetime as dt
import time
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.impl.store import ANYTHING
from fencepost.sim.explore import audit
from fencepost.sim.world import Budget, World

PAUSED = Budget(crash=0, reply_lost=0, request_lost=0, pause=1)
SKEWED = Budget(crash=0, reply_lost=0, request_lost=0, pause=0, skew=1)
UTC = dt.UTC

SHOWN: dict[str, Callable[[], Any]] = {
    "strftime": lambda: dt.datetime.now(UTC).strftime("%Y/%m/%d"),
    "f-string": lambda: f"{dt.datetime.now(UTC):%Y-%m-%d}",
    "hour": lambda: f"{dt.datetime.now(UTC):%Y-%m-%d/%H}",
    "date of a moment": lambda: f"{dt.datetime.now(UTC).date()}",
    "today": lambda: str(dt.date.today()),  # noqa: DTZ011 - a form that programs use
    "today by a format": lambda: dt.date.today().strftime("%d"),  # noqa: DTZ011 - as above
    "beginning of a text": lambda: dt.datetime.now(UTC).isoformat()[:10],
    "hours of a text": lambda: dt.datetime.now(UTC).isoformat()[:13],
    "day": lambda: dt.datetime.now(UTC).day,
    "hour by itself": lambda: dt.datetime.now(UTC).hour,
    "yesterday": lambda: f"{dt.datetime.now(UTC) - dt.timedelta(days=1):%Y%m%d}",
    "time.strftime": lambda: time.strftime("%Y-%m-%d"),
    "whole hours": lambda: f"{int(time.time()) // 3600}",
    "whole weeks": lambda: str(time.time() // 604_800),
    "whole days, padded": lambda: f"{time.time_ns() // (86_400 * 10**9):08d}",
    "another zone": lambda: f"{dt.datetime.now(dt.timezone(dt.timedelta(hours=5, minutes=30))):%Y-%m-%d}",
}


def program(shown: Callable[[], Any]) -> Callable[[World], None]:
    def work(store: Any) -> bool:
        first = shown()
        store.put("k", b"", when=ANYTHING)
        return bool(first == shown())

    def declare(world: World) -> None:
        world.spawn(work, world.store(), name="p")
        world.finally_("one name", lambda view: view.result("p") is not False)

    return declare


@pytest.mark.parametrize("form", SHOWN)
def test_a_name_that_changes_with_time_is_tried_before_and_after(form: str) -> None:
    found = audit(program(SHOWN[form]), budget=PAUSED, others=False, minimise_seconds=0.0)
    assert [one.property for one in found.counterexamples] == ["one name"]


def test_a_folder_of_the_day_of_a_host_whose_clock_is_skewed() -> None:
    """Two hosts name the same day by different names around midnight."""

    def declare(world: World) -> None:
        def work(store: Any) -> str:
            name = SHOWN["f-string"]()
            store.put(name, b"", when=ANYTHING)
            return name

        for name in ("ann", "bob"):
            world.spawn(work, world.store(), name=name)
        world.finally_("one folder", lambda view: len(set(view.results().values()) - {None}) <= 1)

    assert audit(declare, budget=SKEWED, others=False, minimise_seconds=0.0).counterexamples


def test_a_name_that_is_made_once_holds() -> None:
    def declare(world: World) -> None:
        def work(store: Any) -> bool:
            name = SHOWN["f-string"]()
            store.put(f"{name}/data", b"", when=ANYTHING)
            store.put(f"{name}/done", b"", when=ANYTHING)
            return True

        world.spawn(work, world.store(), name="p")
        world.finally_("a mark has data", lambda view: len(view.keys()) % 2 == 0)

    found = audit(declare, budget=PAUSED)
    assert found.verdict == "holds"
    assert "86400 s" in found.bound, "the day did not end"
