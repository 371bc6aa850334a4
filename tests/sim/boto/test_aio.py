"""Clients of S3 on asyncio are answered in process: tasks interleave at requests, also at cancelled ones.

If this fails, an audit says "holds" of code that relies on the order of its requests. Needs aiohttp and
aiobotocore, which wants a release of botocore of its own: `nox -s sdks`.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from fencepost.sim.boto import lost_shows_as
from fencepost.sim.explore import audit, replay
from fencepost.sim.world import NO_FAULTS, Budget, World

aiohttp = pytest.importorskip("aiohttp")

HOST = "http://store.test:9000"
LOST = Budget(crash=0, reply_lost=1, request_lost=0, pause=0, restart=0)
QUICK: dict[str, Any] = {"minimise_seconds": 0.5, "others": False}


async def send(session: Any, method: str, key: str, body: bytes = b"", **headers: str) -> Any:
    async with session.request(method, f"{HOST}/b/{key}", data=body or None, headers=headers) as found:
        return found.status, await found.read()


def program(work: Callable[[], Any], *names: str) -> Callable[[World], None]:
    def setting(world: World) -> None:
        world.configure(stamped=False, ticks=0)
        world.boto3_bucket("b")
        world.s3_endpoint(HOST)
        for name in names or ("ann",):
            world.spawn(work, name=name)

    return setting


def counting(session_work: Callable[[Any], Any]) -> Callable[[World], None]:
    """Two tasks add to a count."""

    async def both() -> int:
        async with aiohttp.ClientSession() as session:
            await send(session, "PUT", "count", b"0")
            add = session_work(session)
            await asyncio.gather(add(), add())
            return int((await send(session, "GET", "count"))[1])

    def setting(world: World) -> None:
        program(lambda: asyncio.run(both()))(world)
        world.finally_("both count", lambda view: view.result("ann") == 2)

    return setting


async def add_to(session: Any) -> None:
    count = int((await send(session, "GET", "count"))[1])
    await send(session, "PUT", "count", str(count + 1).encode())


def unlocked(session: Any) -> Any:
    return lambda: add_to(session)


def locked(session: Any) -> Any:
    lock = asyncio.Lock()

    async def add() -> None:
        async with lock:
            await add_to(session)

    return add


def test_tasks_interleave_at_requests() -> None:
    found = audit(counting(unlocked), budget=NO_FAULTS, **QUICK)
    assert [one.property for one in found.counterexamples] == ["both count"]
    assert any("test_aio.py:" in str(line) for line in found.counterexamples[0].lines)
    again = replay(counting(unlocked), found.counterexamples[0].token)
    assert again.violation is not None
    assert not again.misfit
    assert not audit(counting(locked), budget=NO_FAULTS).counterexamples


def test_the_request_of_a_cancelled_task_still_lands() -> None:
    async def run() -> bool:
        async with aiohttp.ClientSession() as session:
            task = asyncio.create_task(send(session, "PUT", "key", b"new"))
            for _ in range(8):
                await asyncio.sleep(0)
            task.cancel()
            await send(session, "PUT", "key", b"old")
            return bool((await send(session, "GET", "key"))[1] == b"old")

    results: set[Any] = set()

    def setting(world: World) -> None:
        program(lambda: asyncio.run(run()))(world)
        world.finally_("noted", lambda view: results.add(view.result("ann")))

    audit(setting, budget=NO_FAULTS, schedules=60, **QUICK)
    assert results == {True, False}


@pytest.mark.parametrize(
    ("how", "shows"), [("closed", "ServerDisconnectedError"), ("timeout", "SocketTimeoutError")]
)
def test_a_lost_reply_shows_as_on_a_network(how: str, shows: str) -> None:
    seen: set[str] = set()

    async def run() -> str:
        async with aiohttp.ClientSession() as session:
            try:
                return str((await send(session, "POST", "key?uploads"))[0])
            except aiohttp.ClientError as error:
                return type(error).__name__

    def setting(world: World) -> None:
        program(lambda: asyncio.run(run()))(world)
        lost_shows_as(world, how)
        world.finally_("noted", lambda view: seen.add(view.result("ann")) is None)

    assert audit(setting, budget=LOST).verdict == "holds"
    assert seen == {"200", shows}


def test_what_is_not_s3_is_an_escape() -> None:
    async def run() -> None:
        async with aiohttp.ClientSession() as session:
            await session.get("http://elsewhere.test/page")

    found = audit(program(lambda: asyncio.run(run())), budget=NO_FAULTS)
    assert found.verdict == "error"
    assert "GET http://elsewhere.test/page at " in found.bound
    assert "test_aio.py:" in found.bound


async def elect(aiobotocore: Any, name: str, *, look: bool) -> bool:
    async with aiobotocore.get_session().create_client("s3", region_name="us-east-1") as s3:
        if look:
            try:
                await s3.head_object(Bucket="b", Key="leader")
            except ClientError:
                await s3.put_object(Bucket="b", Key="leader", Body=name.encode())
                return True
            return False
        try:
            await s3.put_object(Bucket="b", Key="leader", Body=name.encode(), IfNoneMatch="*")
        except ClientError as error:
            if error.response["Error"]["Code"] != "PreconditionFailed":
                raise
        found = await s3.get_object(Bucket="b", Key="leader")
        return bool(await found["Body"].read() == name.encode())


def test_aiobotocore() -> None:
    aiobotocore = pytest.importorskip("aiobotocore.session")

    def electing(*, look: bool) -> Callable[[World], None]:
        def setting(world: World) -> None:
            program(lambda: None)(world)
            for name in ("bob", "cy"):
                world.spawn(lambda name=name: asyncio.run(elect(aiobotocore, name, look=look)), name=name)
            world.always("one leader", lambda view: sum(map(bool, view.results().values())) <= 1)
            world.finally_("somebody leads", lambda view: any(view.results().values()))

        return setting

    found = audit(electing(look=True), budget=NO_FAULTS, **QUICK)
    assert [one.property for one in found.counterexamples] == ["one leader"]
    assert audit(electing(look=False), budget=NO_FAULTS).verdict == "holds"


def test_sessions_of_aioboto3() -> None:
    """Which are boto3's own, with another core."""
    aioboto3 = pytest.importorskip("aioboto3")

    async def add(options: dict[str, str]) -> None:
        made = aioboto3.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1")
        async with made.client("s3", endpoint_url=HOST) as s3:
            while True:
                found = await s3.get_object(Bucket="b", Key="count")
                body = str(int(await found["Body"].read()) + 1).encode()
                given = {name: found[value] for name, value in options.items()}
                with contextlib.suppress(ClientError):
                    await s3.put_object(Bucket="b", Key="count", Body=body, **given)
                    return

    def setting(options: dict[str, str]) -> Callable[[World], None]:
        def made(world: World) -> None:
            program(lambda: asyncio.run(add(options)), "ann", "bob")(world)
            world.boto3_client("s3").put_object(Bucket="b", Key="count", Body=b"0")
            world.finally_("both count", lambda view: view.get("b/count") == b"2")

        return made

    found = audit(setting({}), budget=NO_FAULTS, **QUICK)
    assert [one.property for one in found.counterexamples] == ["both count"]
    assert audit(setting({"IfMatch": "ETag"}), budget=NO_FAULTS).verdict == "holds"


def test_s3fs_is_refused_with_what_to_do() -> None:
    s3fs = pytest.importorskip("s3fs")
    found = audit(program(lambda: s3fs.S3FileSystem(anon=True).exists("b/key")), budget=NO_FAULTS)
    assert found.verdict == "error"
    assert "fsspec's event loop at " in found.bound
    assert "--over-http" in found.bound
