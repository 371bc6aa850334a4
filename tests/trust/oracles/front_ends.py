"""Clients of S3 behind the calls that a random program makes: boto3, and HTTP requests of aiohttp.

A program that is written against one of them must end as it does on the store interface.
"""

import asyncio
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError, HTTPClientError

from fencepost.impl.store import Outcome
from fencepost.impl.store import requests as req
from fencepost.sim.boto import lost_shows_as
from fencepost.sim.world import Crash, World
from tests.trust.oracles.request_programs import Interpreter, RequestProgram

BUCKET = "b"
HOST = "http://store.test:9000"
ONCE = Config(retries={"mode": "standard", "total_max_attempts": 1})


def _outcome(status: int, code: str, when: Any = None) -> Outcome:
    """Return the outcome for an error response of S3 to a request with this condition."""
    if code == "NoSuchUpload":
        return Outcome.GONE
    if status == 412:
        return Outcome.EXISTS if when is not None and isinstance(when, req.Absent) else Outcome.CHANGED
    known = {404: Outcome.MISSING, 409: Outcome.CONFLICT, 503: Outcome.THROTTLED}
    return known[status]


def _reply(outcome: Outcome, **values: Any) -> Any:
    given = {"body": b"", "objects": (), "uploads": (), "upload": "", "etag": "", "info": None} | values
    return SimpleNamespace(outcome=outcome, done=outcome is Outcome.DONE, **given)


class BotoStore:
    """The calls of a program, on a client of boto3 without retries."""

    def __init__(self, s3: Any) -> None:
        self._s3 = s3

    def _call(self, method: str, when: Any = None, **given: Any) -> Any:
        try:
            found = getattr(self._s3, method)(Bucket=BUCKET, **given, **self._headers(when))
        except ClientError as refused:
            status = refused.response["ResponseMetadata"]["HTTPStatusCode"]
            return _outcome(status, refused.response["Error"]["Code"], when), {}
        except HTTPClientError:
            return Outcome.UNKNOWN, {}
        return Outcome.DONE, found

    @staticmethod
    def _headers(when: Any) -> dict[str, str]:
        if isinstance(when, req.Absent):
            return {"IfNoneMatch": "*"}
        return {"IfMatch": f'"{when.etag}"'} if isinstance(when, req.Matches) else {}

    def get(self, key: str) -> Any:
        outcome, found = self._call("get_object", Key=key)
        if not found:
            return _reply(outcome)
        return _reply(outcome, body=found["Body"].read(), info=SimpleNamespace(etag=found["ETag"].strip('"')))

    def head(self, key: str) -> Any:
        return _reply(self._call("head_object", Key=key)[0])

    def put(self, key: str, body: bytes, *, when: Any) -> Any:
        return _reply(self._call("put_object", when, Key=key, Body=body)[0])

    def delete(self, key: str, *, when: Any) -> Any:
        return _reply(self._call("delete_object", when, Key=key)[0])

    def list(self, prefix: str) -> Any:
        outcome, found = self._call("list_objects_v2", Prefix=prefix)
        return _reply(outcome, objects=[SimpleNamespace(key=one["Key"]) for one in found.get("Contents", ())])

    def list_uploads(self, prefix: str) -> Any:
        outcome, found = self._call("list_multipart_uploads", Prefix=prefix)
        return _reply(outcome, uploads=found.get("Uploads", ()))

    def create_upload(self, key: str) -> Any:
        outcome, found = self._call("create_multipart_upload", Key=key)
        return _reply(outcome, upload=found.get("UploadId", ""))

    def upload_part(self, key: str, upload: str, number: int, body: bytes) -> Any:
        outcome, found = self._call("upload_part", Key=key, UploadId=upload, PartNumber=number, Body=body)
        return _reply(outcome, etag=found.get("ETag", ""))

    def complete_upload(self, key: str, upload: str, parts: Any, *, when: Any) -> Any:
        chosen = {"Parts": [{"PartNumber": number, "ETag": etag} for number, etag in parts]}
        return _reply(
            self._call("complete_multipart_upload", when, Key=key, UploadId=upload, MultipartUpload=chosen)[0]
        )

    def abort_upload(self, key: str, upload: str) -> Any:
        return _reply(self._call("abort_multipart_upload", Key=key, UploadId=upload)[0])


class AiohttpStore:
    """The calls of a program, as HTTP requests on asyncio; those of a parallel step are tasks."""

    def __init__(self, session: Any, loop: Any, errors: tuple[type[Exception], ...]) -> None:
        self._session = session
        self._loop = loop
        self._errors = errors

    def send(self, request: Any) -> Any:
        return self._loop.run_until_complete(self._answer(request))

    def send_all(self, requests: Any) -> Any:
        async def together() -> Any:
            return await asyncio.gather(*[self._answer(request) for request in requests])

        return self._loop.run_until_complete(together())

    def get(self, key: str) -> Any:
        return self.send(req.Get(key))

    def head(self, key: str) -> Any:
        return self.send(req.Head(key))

    def list(self, prefix: str) -> Any:
        return self.send(req.List(prefix))

    def put(self, key: str, body: bytes, *, when: Any) -> Any:
        return self.send(req.Put(key, body, when))

    def delete(self, key: str, *, when: Any) -> Any:
        return self.send(req.Delete(key, when))

    async def _answer(self, request: Any) -> Any:
        methods = {req.Get: "GET", req.Head: "HEAD", req.List: "GET", req.Put: "PUT", req.Delete: "DELETE"}
        listing = type(request) is req.List
        url = f"{HOST}/{BUCKET}/" + (f"?list-type=2&prefix={request.prefix}" if listing else request.key)
        when = getattr(request, "when", None)
        headers = {"If-None-Match": "*"} if isinstance(when, req.Absent) else {}
        if isinstance(when, req.Matches):
            headers = {"If-Match": f'"{when.etag}"'}
        body = getattr(request, "body", None)
        try:
            async with self._session.request(
                methods[type(request)], url, data=body or None, headers=headers
            ) as found:
                status, content, etag = found.status, await found.read(), found.headers.get("ETag", "")
        except self._errors:
            return _reply(Outcome.UNKNOWN)
        if status >= 300:
            return _reply(_outcome(status, "", when))
        keys = re.findall(r"<Key>(.*?)</Key>", content.decode()) if listing else []
        return _reply(
            Outcome.DONE,
            body=content,
            info=SimpleNamespace(etag=etag.strip('"')),
            objects=[SimpleNamespace(key=key) for key in keys],
        )


@contextmanager
def aiohttp_store() -> Iterator[AiohttpStore]:
    """Give a store on a loop and a session of its own."""
    import aiohttp  # installed by `nox -s sdks` alone

    with asyncio.Runner() as runner:

        async def connect() -> Any:
            return aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))

        session = runner.run(connect())
        try:
            yield AiohttpStore(session, runner.get_loop(), (aiohttp.ClientError, TimeoutError))
        finally:
            if isinstance(sys.exception(), Crash):
                session.detach()  # a crash closes nothing, which would be a warning
            else:
                runner.run(session.close())


FrontEnd = Callable[[RequestProgram, World], None]


def on_boto3(program: RequestProgram, world: World) -> None:
    """Set a world up to run this program on boto3."""
    s3 = _bucket(program, world)

    def run(code: Any) -> Any:
        return Interpreter(world, BotoStore(s3)).run(code)

    _spawn(program, world, run)
    if program.daemon:
        daemon = program.daemon
        world.spawn(lambda: Interpreter(world, BotoStore(s3)).repeat(daemon), name="daemon", daemon=True)


def on_aiohttp(program: RequestProgram, world: World) -> None:
    """Set a world up to run this program on aiohttp."""
    _bucket(program, world)
    lost_shows_as(world, "timeout")  # aiohttp repeats a request whose connection closes
    world.s3_endpoint(HOST)

    def run(code: Any) -> Any:
        with aiohttp_store() as store:
            return Interpreter(world, store).run(code)

    _spawn(program, world, run)


def _bucket(program: RequestProgram, world: World) -> Any:
    world.configure(ticks=0, stamped=False, part_bytes_min=1, daemon_steps=program.daemon_steps or 1)
    world.boto3_bucket(BUCKET)
    s3 = world.boto3_client("s3", config=ONCE)
    for key, body in program.start.items():
        s3.put_object(Bucket=BUCKET, Key=key, Body=body.encode())
    return s3


def _spawn(program: RequestProgram, world: World, run: Callable[[Any], Any]) -> None:
    for number, code in enumerate(program.processes):
        world.spawn(run, code, name=f"p{number}", restart=program.restarts[number])


def without_bucket(ending: Any) -> Any:
    """Return an ending with the names of objects as the program gives them."""
    objects, *others = ending
    return (tuple((key.removeprefix(f"{BUCKET}/"), body) for key, body in objects), *others)
