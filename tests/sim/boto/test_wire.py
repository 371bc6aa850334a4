"""S3 clients on urllib3, requests and http.client are answered in process, with their own pools and retries.

If this fails, code on such a client cannot be audited, or an audit says "holds" of code that loses writes.
"""

import http.client
import io
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
import urllib3
from urllib3.util import Retry

from fencepost.sim.boto import lost_shows_as
from fencepost.sim.explore import audit, replay
from fencepost.sim.world import NO_FAULTS, Budget, World
from fencepost.sim.world.finalizers import PROPERTY
from tests.collecting import collecting
from tests.sim.boto.worlds import alone

HOST = "http://store.test:9000"
LOST = Budget(crash=0, reply_lost=1, request_lost=0, pause=0, restart=0)
QUICK: dict[str, Any] = {"minimise_seconds": 0.5, "others": False}
MODULE_POOL = urllib3.PoolManager()


def by_requests(method: str, key: str, body: bytes = b"", **headers: str) -> Any:
    found = requests.request(method, f"{HOST}/b/{key}", data=body, headers=headers, timeout=5)
    return found.status_code, found.content


def by_urllib3(method: str, key: str, body: bytes = b"", **headers: str) -> Any:
    found = MODULE_POOL.request(method, f"{HOST}/b/{key}", body=body, headers=headers)
    return found.status, found.data


def by_http_client(method: str, key: str, body: bytes = b"", **headers: str) -> Any:
    connection = http.client.HTTPConnection("store.test", 9000)
    connection.request(method, f"/b/{key}", body=body, headers=headers)
    found = connection.getresponse()
    return found.status, found.read()


def by_urllib(method: str, key: str, body: bytes = b"", **headers: str) -> Any:
    request = urllib.request.Request(f"{HOST}/b/{key}", data=body or None, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request) as found:
            return found.status, found.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


CLIENTS = [by_requests, by_urllib3, by_http_client, by_urllib]


def election(elect: Callable[..., bool], send: Any) -> Callable[[World], None]:
    def program(world: World) -> None:
        world.configure(stamped=False)
        world.boto3_bucket("b")
        world.s3_endpoint(HOST)
        for name in ("ann", "bob"):
            world.spawn(elect, send, name.encode(), name=name)
        world.always("one leader", lambda view: sum(map(bool, view.results().values())) <= 1)
        world.finally_("somebody leads", lambda view: any(view.results().values()))

    return program


def look_first(send: Any, name: bytes) -> bool:
    if send("GET", "leader")[0] == 200:
        return False
    return bool(send("PUT", "leader", name)[0] == 200)


def create(send: Any, name: bytes) -> bool:
    """The retry of a library may find what its first attempt left."""
    if send("PUT", "leader", name, **{"If-None-Match": "*"})[0] == 200:
        return True
    return bool(send("GET", "leader")[1] == name)


def create_and_trust(send: Any, name: bytes) -> bool:
    return bool(send("PUT", "leader", name, **{"If-None-Match": "*"})[0] == 200)


@pytest.mark.parametrize("send", CLIENTS)
def test_the_classic_mistake_is_found_and_its_fix_holds(send: Any) -> None:
    found = audit(election(look_first, send), budget=NO_FAULTS, **QUICK)
    assert [one.property for one in found.counterexamples] == ["one leader"]
    assert "test_wire.py:" in str(found.counterexamples[0].lines[0])
    again = replay(election(look_first, send), found.counterexamples[0].token)
    assert again.violation is not None
    assert not again.misfit
    assert audit(election(create, send), budget=NO_FAULTS).verdict == "holds"


def test_the_retries_are_the_library_s_own() -> None:
    """urllib3 sends a PUT again when its connection closes, and then finds what it created itself."""
    assert audit(election(create_and_trust, by_urllib3), budget=LOST, **QUICK).verdict == "violated"
    assert audit(election(create, by_urllib3), budget=LOST).verdict == "holds"


def sending(work: Callable[[], Any], *, how: str = "closed") -> Callable[[World], None]:
    def program(world: World) -> None:
        world.configure(stamped=False, ticks=0)
        world.boto3_bucket("b")
        world.s3_endpoint(HOST)
        lost_shows_as(world, how)
        world.spawn(work, name="ann")

    return program


@pytest.mark.parametrize(
    ("how", "shows"), [("closed", "ConnectionError"), ("timeout", "ReadTimeout"), ("error", "500")]
)
def test_a_lost_reply_shows_as_on_a_network(how: str, shows: str) -> None:
    keep, seen = collecting()

    def work() -> None:
        try:
            keep(str(by_requests("PUT", "key", b"1")[0]))
        except requests.RequestException as error:
            keep(type(error).__name__)

    assert audit(sending(work, how=how), budget=LOST).verdict == "holds"
    assert set(seen) == {"200", shows}


def test_503_and_a_crash() -> None:
    """urllib3 repeats what was refused with 503, if it is to; a crash comes between two requests."""
    retry = Retry(total=2, status_forcelist=[503], backoff_factor=0.1, allowed_methods=None)
    keep, seen = collecting()

    def work() -> None:
        with urllib3.PoolManager(retries=retry) as pool:
            keep(pool.request("PUT", f"{HOST}/b/key", body=b"1").status)
            pool.request("PUT", f"{HOST}/b/other", body=b"1")

    def program(world: World) -> None:
        sending(work)(world)
        world.sometimes("half", lambda view: view.state("ann") == "down" and view.keys("b/") == ["b/key"])

    found = audit(
        program, budget=Budget(crash=1, throttled=1, reply_lost=0, request_lost=0, pause=0, restart=0)
    )
    assert found.verdict == "holds", str(found)
    assert set(seen) == {200}
    assert "half" in found.coverage.met
    assert found.coverage.outcomes["put", "throttled"]


def test_bodies_in_chunks_and_streams() -> None:
    """What a stream shows is the object as it was when it was requested."""

    def work() -> bytes:
        requests.put(f"{HOST}/b/key", data=iter([b"a" * 20, b"b"]), timeout=5)
        with urllib3.PoolManager() as pool:
            found = pool.request("GET", f"{HOST}/b/key", preload_content=False)
            taken = found.read(4)
            by_requests("PUT", "key", b"new")
            for chunk in found.stream(5):
                taken += chunk
            found.release_conn()
        return bytes(taken)

    def program(world: World) -> None:
        sending(work)(world)
        world.finally_("as it was", lambda view: view.result("ann") == b"a" * 20 + b"b")

    assert not audit(program, budget=NO_FAULTS).counterexamples


def test_threads_of_a_session_interleave_at_requests() -> None:
    """A pool that blocks lets one thread send at a time; the update is lost all the same."""
    session = requests.Session()
    session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=1, pool_block=True))

    def add() -> None:
        count = int(session.get(f"{HOST}/b/count", timeout=5).content or b"0")
        session.put(f"{HOST}/b/count", data=str(count + 1).encode(), timeout=5)

    def work() -> None:
        by_requests("PUT", "count", b"0")
        with ThreadPoolExecutor(2) as pool:
            for future in [pool.submit(add), pool.submit(add)]:
                future.result()

    def program(world: World) -> None:
        sending(work)(world)
        world.finally_("both count", lambda view: view.get("b/count") == b"2")

    found = audit(program, budget=NO_FAULTS, **QUICK)
    assert [one.property for one in found.counterexamples] == ["both count"]


SIGNED = "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/{}/aws4_request, SignedHeaders=host, Signature=0"


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        ("https://b.s3.eu-west-1.amazonaws.com/key", {}),
        ("http://elsewhere.test/b/key", {"Authorization": SIGNED.format("s3")}),
        ("http://elsewhere.test/b/key?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=0", {}),
    ],
)
def test_what_looks_like_s3_is_answered(url: str, headers: dict[str, str]) -> None:
    def work() -> tuple[int, int]:
        put = requests.put(url, data=b"1", headers=headers, timeout=5).status_code
        return put, by_requests("GET", "key")[0]

    def program(world: World) -> None:
        sending(work)(world)
        world.finally_("stored", lambda view: view.result("ann") == (200, 200))

    assert not audit(program, budget=NO_FAULTS).counterexamples


@pytest.mark.parametrize("headers", [{}, {"Authorization": SIGNED.format("dynamodb")}])
def test_anything_else_is_an_escape(headers: dict[str, str]) -> None:
    found = alone(
        lambda s3: requests.get("http://elsewhere.test/page", headers=headers, timeout=5),
        finds="GET http://elsewhere.test/page at ",
    )
    assert found.property == PROPERTY
    assert "test_wire.py:" in found.reason
    assert "world.s3_endpoint(URL)" in found.reason


def test_minio() -> None:
    minio = pytest.importorskip("minio")
    client = minio.Minio("minio.test", "key", "secret", region="us-east-1")

    def claim(name: str, *, look: bool) -> bool:
        if look:
            try:
                client.stat_object("jobs", "leader")
            except minio.error.S3Error as error:
                if error.code != "NoSuchKey":
                    raise
                client.put_object("jobs", "leader", io.BytesIO(name.encode()), len(name))
                return True
            return False
        try:
            client._put_object("jobs", "leader", name.encode(), {"If-None-Match": "*"})
        except minio.error.S3Error as error:
            if error.code != "PreconditionFailed":
                raise
        return bool(client.get_object("jobs", "leader").data == name.encode())

    def electing(*, look: bool) -> Callable[[World], None]:
        def program(world: World) -> None:
            world.configure(stamped=False)
            world.boto3_bucket("jobs")
            for name in ("ann", "bob"):
                world.spawn(claim, name, look=look, name=name)
            world.always("one leader", lambda view: sum(map(bool, view.results().values())) <= 1)
            world.finally_("somebody leads", lambda view: any(view.results().values()))

        return program

    found = audit(electing(look=True), budget=NO_FAULTS, **QUICK)
    assert [one.property for one in found.counterexamples] == ["one leader"]
    assert audit(electing(look=False), budget=LOST).verdict == "holds"
