"""Time and randomness of code in the world, however the code came by them; and all as before afterwards."""

import datetime
import datetime as dt
import logging
import os
import platform
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import uuid
from datetime import UTC, date
from datetime import datetime as Moment
from pathlib import Path
from random import choice, randint
from time import sleep
from time import time as now
from typing import Any

import pytest

from fencepost.sim.explore import replay
from fencepost.sim.world import NO_FAULTS, World
from fencepost.sim.world.present import outside
from tests.collecting import collecting
from tests.sim.boto.worlds import alone, explored

START_NS = World().start_ns
START = START_NS / 1e9


def by_default(wait: Any = time.sleep, clock: Any = time.time, *, other: Any = now) -> tuple[float, float]:
    wait(3)
    return clock(), other()


class Keeper:
    def wait(self, seconds: float, wait: Any = sleep) -> None:
        wait(seconds)


READINGS = {
    "time.time": (lambda: time.time(), START),
    "time.time_ns": (lambda: time.time_ns(), START_NS),
    "from time import time": (lambda: now(), START),
    "time.monotonic": (lambda: time.monotonic(), 0),
    "time.perf_counter_ns": (lambda: time.perf_counter_ns(), 0),
    "time.clock_gettime": (lambda: time.clock_gettime(time.CLOCK_REALTIME), START),
    "time.gmtime": (lambda: time.mktime(time.localtime()), START),
    "time.strftime": (lambda: time.strftime("%s"), str(int(START))),
    "datetime.now": (lambda: datetime.datetime.now().timestamp(), START),
    "dt.datetime.now(UTC)": (lambda: dt.datetime.now(dt.UTC).timestamp(), START),
    "from datetime import datetime": (lambda: Moment.now(UTC).timestamp(), START),
    "datetime.utcnow": (lambda: Moment.utcnow().replace(tzinfo=UTC).timestamp(), START),
    "date.today": (lambda: date.today(), Moment.fromtimestamp(START).date()),
}


@pytest.mark.parametrize("how", READINGS)
def test_clocks_read_the_worlds(how: str) -> None:
    read, expected = READINGS[how]
    assert alone(lambda s3: read()) == expected


def test_sleeping_moves_only_the_worlds_clock() -> None:
    def work(s3: Any) -> Any:
        begun = time.time()
        time.sleep(100)
        sleep(50)
        Keeper().wait(25)
        return time.time() - begun, by_default()

    # A second may pass by itself besides.
    assert alone(work) in [(175 + by_itself, (START + 178 + by_itself,) * 2) for by_itself in (0, 1)]


def test_a_timed_wait_is_a_sleep() -> None:
    """The usual way to sleep and yet be woken: nobody in the world can wake it."""

    def work(s3: Any) -> Any:
        waited = threading.Event().wait(7)
        condition = threading.Condition()
        with condition:
            return waited, condition.wait(3), time.monotonic()

    assert alone(work) == (False, False, 10)


def test_others_go_on_while_one_sleeps_or_are_slower() -> None:
    def program(world: World) -> None:
        world.boto3_bucket("b")
        s3 = world.boto3_client("s3")

        def late() -> None:
            time.sleep(10)
            s3.put_object(Bucket="b", Key="k", Body=b"late", IfNoneMatch="*")

        def early() -> None:
            s3.put_object(Bucket="b", Key="k", Body=b"early", IfNoneMatch="*")

        world.spawn(late, may_raise=(Exception,))
        world.spawn(early, may_raise=(Exception,))
        world.finally_("somebody wins", lambda view: view.get("b/k") is not None)
        world.sometimes("early wins", lambda view: view.get("b/k") == b"early")
        world.sometimes("late wins", lambda view: view.get("b/k") == b"late")

    assert explored(program).verdict == "holds"


def test_what_the_world_makes_are_plain_datetimes() -> None:
    def work(s3: Any) -> Any:
        made = Moment.now()
        given = Moment(2020, 1, 2)
        return (
            type(made) is type(given),
            isinstance(made, Moment),
            isinstance(made, datetime.date),
            issubclass(Moment, date),
            isinstance(date.today(), Moment),
            Moment.fromisoformat("2020-01-02") == given,
            Moment.strptime("2020", "%Y").year,
            s3.list_buckets()["Buckets"][0]["CreationDate"].year,
        )

    assert alone(work) == (True, True, True, True, False, True, 2020, 1970)


def drawn() -> list[Any]:
    return [
        random.random(),
        randint(0, 10**9),
        choice(range(10**9)),
        random.Random().random(),
        random.SystemRandom().random(),
        uuid.uuid4(),
        uuid.uuid1(),
        secrets.token_hex(),
        random.sample(range(1000), 5),
    ]


def test_randomness_repeats_and_is_each_processs_own() -> None:
    def program(world: World) -> None:
        world.boto3_bucket("b")
        for name in ("ann", "bob"):
            world.spawn(lambda s3: [drawn(), drawn()], world.boto3_client("s3"), name=name)

    first, second = (replay(program, "default").world.processes for _ in range(2))
    assert [process.result for process in first] == [process.result for process in second]
    everything = [value for process in first for draw in process.result for value in draw]
    assert len({str(value) for value in everything}) == len(everything)


def test_a_restarted_process_draws_anew() -> None:
    def program(world: World) -> None:
        world.boto3_bucket("b")
        s3 = world.boto3_client("s3")

        def work() -> None:
            s3.put_object(Bucket="b", Key=uuid.uuid4().hex, Body=b"")

        world.spawn(work, name="ann")
        world.finally_("kept", lambda view: len(view.keys("b/")) == len(set(view.keys("b/"))))

    replayed = replay(program, "ann:finish::1=crash", steps_max=40)
    assert len(replayed.world.bucket.contents()) == 2


def test_another_seed_draws_otherwise() -> None:
    def program(world: World) -> None:
        world.boto3_bucket("b")
        world.spawn(drawn, name="ann")

    one, other = (replay(program, "default", seed=seed).world.processes[0].result for seed in (1, 2))
    assert not set(map(str, one)) & set(map(str, other))


def originals() -> list[Any]:
    return [
        now,
        sleep,
        Moment,
        date,
        choice,
        time.time,
        time.sleep,
        datetime.datetime,
        random.random,
        random._urandom,
        random.Random.seed,
        uuid.uuid1,
        threading.Thread.start,
        threading.Condition.wait,
        by_default.__defaults__,
        by_default.__kwdefaults__["other"],
        Keeper.wait.__defaults__,
    ]


def test_everything_is_as_before_afterwards() -> None:
    before = originals()
    keep, kept = collecting()

    def work(s3: Any) -> None:
        keep(originals())

    alone(work)
    assert all(one is other for one, other in zip(before, originals(), strict=True))
    same = [one for one, other in zip(before, kept[-1], strict=True) if one is other]
    assert same == []
    import socket

    assert "connect" not in vars(socket.socket)


def test_everything_is_as_before_after_a_failure() -> None:
    before = originals()

    def program(world: World) -> None:
        world.boto3_client("s3")
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        explored(program)
    assert all(one is other for one, other in zip(before, originals(), strict=True))


def test_other_threads_have_the_real_clock() -> None:
    keep, seen = collecting()

    def elsewhere() -> None:
        keep(time.time())

    def work(s3: Any) -> float:
        with outside():
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
        return time.time()

    assert alone(work) == START
    assert abs(seen[0] - time.time()) < 60


def test_logging_is_no_step(caplog: pytest.LogCaptureFixture) -> None:
    """A log record reads the clock. The schedule must not depend on whether anybody listens."""

    def work(s3: Any) -> int:
        time.sleep(1)
        logging.getLogger("work").warning("hello")
        s3.put_object(Bucket="b", Key="k")
        return 1

    with caplog.at_level(logging.DEBUG):
        assert alone(work) == 1


def test_what_is_loaded_during_a_run_works_afterwards() -> None:
    name = "colorsys"
    sys.modules.pop(name, None)
    keep, kept = collecting()

    def work(s3: Any) -> Any:
        import types

        module = types.ModuleType("loaded_late")
        exec("from time import time, sleep\nfrom datetime import datetime", module.__dict__)
        keep(module)
        return module.time()

    assert alone(work) == START
    module = kept[-1]
    assert abs(module.time() - time.time()) < 60
    assert abs(module.datetime.now().timestamp() - time.time()) < 60


LATE = """
from datetime import datetime
from random import random
from time import sleep, time
from uuid import uuid4


def work(wait=sleep):
    sleep(3)
    wait(4)
    return time(), datetime.now().timestamp(), random(), uuid4().hex
"""


def test_a_module_that_is_imported_in_the_middle_of_a_run_is_the_worlds_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the run that imports it, in those that find it imported, and in the replay of any of them."""
    (tmp_path / "imported_late.py").write_text(LATE)
    monkeypatch.syspath_prepend(tmp_path)
    keep, seen = collecting()

    def program(world: World) -> None:
        def work(s3: Any) -> None:
            import imported_late

            keep((world.me, *imported_late.work()))

        client = world.boto3_client("s3")
        for name in ("ann", "bob"):
            world.spawn(work, client, name=name)

    for _ in range(3):
        assert not replay(program, "default", budget=NO_FAULTS).misfit
    del sys.modules["imported_late"]
    assert {(when, also) for _, when, also, *_ in seen} == {(START + 7, START + 7)}
    assert len(seen) == 6
    assert len(set(seen)) == 2, "each process draws the same in every run"


SDK_IN_THE_CODE = """
import sys
from fencepost.sim.explore import ReducedSearch, Setting
from fencepost.sim.world import NO_FAULTS

def work():
    import boto3
    s3 = boto3.client("s3", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="s")
    assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == []

def program(world):
    for name in ("ann", "bob"):
        world.spawn(work, name=name)

found = []
for _ in range(2):
    search = ReducedSearch(Setting(program, NO_FAULTS))
    assert found or "boto3" not in sys.modules, "the first run imports it"
    search.explore()
    found.append((search.runs, search.steps, [str(failure.violation) for failure in search.failures]))
print(found[0] == found[1], found)
"""


def test_an_sdk_that_a_process_imports_is_the_worlds_in_the_run_that_imports_it(tmp_path: Path) -> None:
    """A function that imports boto3 itself must not reach the network in the first run."""
    code = tmp_path / "sdk_in_the_code.py"
    code.write_text(SDK_IN_THE_CODE)
    done = subprocess.run([sys.executable, code], capture_output=True, text=True, check=True)
    assert done.stdout == "True [(1, 4, []), (1, 4, [])]\n"


def test_processes_have_ids_and_hosts_of_their_own() -> None:
    """Locks that name their owner by pid and host must not take one process for another."""
    keep, kept = collecting()

    def live(world: World) -> None:
        owner = (world.me, os.getpid(), socket.gethostname(), platform.node())
        assert owner[1:] == (os.getpid(), socket.gethostname(), platform.node()), "stable within a life"
        keep(owner)
        world.note("lived")

    def program(world: World) -> None:
        world.boto3_client("s3")
        for name in ("ann", "bob"):
            world.spawn(live, world, name=name)

    real = (os.getpid(), socket.gethostname())
    explored(program, crash=1)
    owners: set[tuple[str, int, str, str]] = set(kept)
    assert len({owner[1] for owner in owners}) == len(owners) == 4, "a restart is another process"
    assert {owner[0]: owner[2:] for owner in owners} == {
        "ann": ("host-1", "host-1"),
        "bob": ("host-2", "host-2"),
    }
    assert (os.getpid(), socket.gethostname()) == real
