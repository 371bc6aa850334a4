"""Nothing that an audit made reaches a network: not later in the run, not in a later run, not at exit."""

import gc
import os
import re
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.sim.explore import ReducedSearch, Setting, audit
from fencepost.sim.world import NO_FAULTS, World
from fencepost.sim.world.finalizers import PROPERTY

ROOT = Path(__file__).parent.parent.parent


@contextmanager
def listener() -> Iterator[tuple[str, list[object]]]:
    """The address of a listener on this machine, and the connections that it saw."""
    seen: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, peer = server.accept()
                except OSError:
                    return
                seen.append(peer)
                connection.close()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", seen
        server.shutdown(socket.SHUT_RDWR)


def run(body: str, *, credentials: bool = True) -> tuple[str, list[object]]:
    """Run an audit in a process of its own, to its exit: what it printed, and the connections it made.

    `body` defines `work(s3)` and may use `endpoint`; every place that the SDK could reach is the listener.
    """
    with listener() as (url, seen):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        environment |= {
            "AWS_ENDPOINT_URL": url,
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": url,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_MAX_ATTEMPTS": "1",
            "HTTP_PROXY": url,
            "HTTPS_PROXY": url,
        }
        if credentials:
            environment |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
        script = (
            f"endpoint = {url!r}\n" + textwrap.dedent(HEAD) + textwrap.dedent(body) + textwrap.dedent(TAIL)
        )
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            cwd=ROOT,
            check=False,
        )
        return done.stdout + done.stderr, seen


HEAD = """
import atexit, gc, weakref
import boto3, botocore.session
from fencepost.sim.explore import ReducedSearch, Setting, audit
from fencepost.sim.world import NO_FAULTS

kept = []

def delete(s3):
    s3.delete_objects(Bucket="b", Delete={"Objects": [{"Key": "k"}]})

class Closing:
    def __init__(self, s3):
        self.s3 = s3
    def __del__(self):
        delete(self.s3)
"""
TAIL = """
def program(world):
    world.boto3_bucket("b")
    world.spawn(work, world.boto3_client("s3", endpoint_url=endpoint), name="ann")

print(audit(program, budget=NO_FAULTS))
atexit.register(kept.clear)
print("exit")
"""

ESCAPES = {
    "kept until exit": "def work(s3): kept.append(Closing(s3))",
    "atexit": "def work(s3): atexit.register(delete, s3)",
    "weakref.finalize": """
        class Thing: pass
        def work(s3):
            kept.append(Thing())
            weakref.finalize(kept[-1], delete, s3)
        """,
    "a client of a session of botocore": """
        def work(s3):
            kept.append(Closing(botocore.session.Session().create_client("s3")))
        """,
    "a client that the world's session does not make": """
        def work(s3):
            kept.append(Closing(boto3.client("s3", "us-east-1", "2006-03-01")))
        """,
    "a client of a module": """
        module = boto3.client("s3")
        def work(s3):
            module.list_buckets()
            kept.append(Closing(module))
        """,
    "with no handler left": """
        def work(s3):
            kept.append(Closing(s3))
            emitter = s3.meta.events._emitter
            atexit.register(setattr, emitter, "_handlers", type(emitter._handlers)())
            s3.meta.events._emitter.emit = lambda *_, **__: []
        """,
}


@pytest.mark.parametrize("name", ESCAPES)
def test_no_request_leaves_the_process(name: str) -> None:
    printed, seen = run(ESCAPES[name])
    assert "exit" in printed, printed
    assert not seen, printed


@pytest.mark.parametrize("name", ["kept until exit", "a client of a module"])
def test_a_request_after_the_run_is_reported(name: str) -> None:
    """Where the interpreter still prints it, with the line of the user."""
    printed, _ = run(ESCAPES[name])
    assert "was used after the run" in printed
    assert "<string>:" in printed


def test_the_listener_would_see_it() -> None:
    """The tests above can fail: a client that no world made does reach the listener."""
    _, seen = run("""
        def work(s3): pass
        mine = boto3.client("s3")
        atexit.register(delete, mine)
        """)
    assert seen


def test_metadata_service_is_not_called() -> None:
    """Without credentials the SDK would fetch some from 169.254.169.254."""
    printed, seen = run(
        """
        def work(s3):
            boto3.client("s3").list_buckets()
            boto3.client("s3", "us-east-1", "2006-03-01").list_buckets()
            botocore.session.Session().create_client("s3").list_buckets()
        """,
        credentials=False,
    )
    assert not seen, printed
    assert "violated" not in printed, printed
    assert "NoCredentials" not in printed, printed


refusals = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""The interpreter prints what a finalizer raises, and pytest collects it."""


class Cycle:
    """Collected by the garbage collector only."""

    active = False

    def __init__(self, act: object) -> None:
        self.me = self
        self.act = act

    def __del__(self) -> None:
        if self.active:
            self.act()  # type: ignore[operator]  # any callable


@pytest.fixture
def active(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Finalizers act during the test, and not when pytest collects what is left at its own end."""
    monkeypatch.setattr(Cycle, "active", True)
    yield
    gc.collect()


@refusals
@pytest.mark.usefixtures("active")
def test_a_finalizer_of_a_cycle_is_found_in_its_run() -> None:
    """Otherwise it would act in a later run, whenever the collector happens to run."""

    def program(world: World) -> None:
        world.boto3_bucket("b")
        s3 = world.boto3_client("s3")

        def work() -> None:
            Cycle(lambda: s3.put_object(Bucket="b", Key="late"))

        world.spawn(work, name="ann")

    result = audit(program, budget=NO_FAULTS)
    assert result.verdict == "error"
    assert result.counterexamples[0].property == PROPERTY
    assert re.search(rf"{re.escape(__file__)}:\d+", result.counterexamples[0].reason)


@refusals
@pytest.mark.usefixtures("active")
def test_a_finalizer_on_the_native_interface_is_found_too() -> None:
    def program(world: World) -> None:
        store = world.store()

        def work() -> None:
            Cycle(lambda: store.put("late", b"", when=ABSENT))

        world.spawn(work, name="ann")

    result = audit(program, budget=NO_FAULTS)
    assert result.counterexamples[0].property == PROPERTY


@refusals
@pytest.mark.usefixtures("active")
def test_a_finalizer_after_a_crash_is_refused_silently() -> None:
    """A process that really crashes runs no finalizer, so the code is not at fault."""

    def program(world: World) -> None:
        store = world.store()

        def work() -> None:
            kept = Cycle(lambda: store.put("late", b"", when=ABSENT))
            store.get("k")
            kept.act = lambda: None

        world.spawn(work, name="ann", restart=False)

    result = audit(program)
    gc.collect()  # also what runs that were given up have left, while this test may ignore it
    assert result.coverage.faults["crash"]
    assert not result.counterexamples


def test_finalizers_do_not_run_in_the_middle_of_a_run() -> None:
    def program(world: World) -> None:
        world.spawn(gc.isenabled, name="ann")
        world.finally_("not enabled", lambda view: view.result("ann") is False)

    before = gc.isenabled()
    assert not audit(program, budget=NO_FAULTS).counterexamples
    assert gc.isenabled() == before


@refusals
@pytest.mark.usefixtures("active")
def test_finalizers_run_before_the_next_run_begins() -> None:
    """Also those of runs that were given up: else they would act in a later run, and be taken for its own."""
    run = 0
    acted: list[tuple[int, int]] = []

    def program(world: World) -> None:
        nonlocal run
        run += 1
        mine, store = run, world.store()

        def work(key: str) -> None:
            Cycle(lambda: acted.append((mine, run)))
            store.put(key, b"", when=ANYTHING)
            store.get("k")

        for key in ("k", "k", "l"):
            world.spawn(work, key)

    search = ReducedSearch(Setting(program, replace(NO_FAULTS, crash=1)))
    search.explore()
    assert search.pruned + search.merged
    assert acted
    assert all(made == at for made, at in acted)


@refusals
@pytest.mark.usefixtures("active")
def test_a_finalizer_of_a_result_is_refused_and_not_reported() -> None:
    """The miss that docs/explanations/what-can-still-be-wrong.md names."""
    stored: list[str] = []

    def program(world: World) -> None:
        store = world.store()

        def work() -> Cycle:
            return Cycle(lambda: store.put("late", b"", when=ABSENT))

        world.spawn(work, name="ann")
        world.finally_("stored", lambda view: stored.extend(view.keys()))

    found = audit(program, budget=NO_FAULTS).counterexamples
    Cycle.active = False  # an idle greenlet may hold the result still
    assert not found
    assert not stored
