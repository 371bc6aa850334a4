"""A call that is remembered ends as the SDK ends it: the same results, errors, retries and schedules."""

import datetime as dt
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from unittest.mock import patch

import boto3
import pytest
from botocore.client import BaseClient
from botocore.config import Config
from botocore.endpoint import Endpoint
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.sim.boto import calls, serve
from fencepost.sim.explore import ReducedSearch, Setting
from fencepost.sim.explore.runs import final_state, run
from fencepost.sim.world import NO_FAULTS, Budget, World, frames, times
from tests.depth import examples

Call = tuple[str, dict[str, Any]]

LOADED_EARLY = boto3.client("s3", aws_access_key_id="x", aws_secret_access_key="x", region_name="us-east-1")
"""With the SDK's own defaults: signatures, checksums, retries."""


@contextmanager
def forgetful() -> Iterator[None]:
    """The SDK makes every call."""
    with patch.object(calls, "install"):
        calls.remove()
        yield


@contextmanager
def counted() -> Iterator[list[str]]:
    """The operations that the SDK itself is called for."""
    made: list[str] = []
    calls.remove()  # an earlier test may have left the world's places as they were in its audit
    real = calls._real_call

    def count(client: Any, operation: str, parameters: Any) -> Any:
        made.append(operation)
        return real(client, operation, parameters)

    with patch.object(calls, "_real_call", count), patch.object(BaseClient, "_make_api_call", count):
        calls.install()
        yield made
        calls.remove()


# Results.


def seen(value: Any) -> Any:
    """Everything that a caller can see of a result, as plain data."""
    if isinstance(value, dict):
        return (type(value).__name__, [(name, seen(one)) for name, one in dict.items(value)])
    if isinstance(value, list):
        return [seen(one) for one in value]
    if isinstance(value, dt.datetime):
        return (type(value).__name__, times.plain(value).isoformat())
    if hasattr(value, "read"):
        return (type(value).__name__, value._content_length, value.read(), value.read())
    return (type(value).__name__, value)


def wreck(value: Any) -> None:
    """Change a result, as its caller may."""
    for one in (
        list(dict.values(value)) if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        wreck(one)
    if isinstance(value, dict | list):
        value.clear()


class Caller:
    """Makes calls one after another; `{UploadId}` and its like stand for names in earlier results."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._names: dict[str, str] = {}

    def end(self, call: Call) -> Any:
        operation, parameters = call
        try:
            result = getattr(self._client, operation)(**self._named(parameters))
        except ClientError as error:
            found = (type(error).__name__, str(error), error.operation_name, seen(error.response))
            wreck(error.response)
            return found
        found = seen(result)
        for name in ("UploadId", "VersionId", "NextContinuationToken", "ETag"):
            if name in result:
                self._names.setdefault(f"{{{name}}}", result[name])
        wreck(result)
        return found

    def _named(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._named(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._named(one) for one in value]
        return self._names.get(value, value) if isinstance(value, str) else value


def ends(script: list[Call], options: Callable[[], dict[str, Any]] | None) -> list[Any]:
    """The ends of all calls in one run; without options by a client that was made when this was loaded."""

    def work(world: World) -> Any:
        client = LOADED_EARLY if options is None else world.boto3_client("s3", **options())
        caller = Caller(client)
        return [caller.end(call) for call in script]

    results: list[Any] = []

    def program(world: World) -> None:
        world.configure(part_bytes_min=1)
        world.boto3_bucket("b")
        world.boto3_bucket("v", versioned=True)
        world.spawn(work, world, name="ann")
        world.finally_("it ended", lambda view: results.append(view.result("ann")))

    run_once(program)
    return list(results[-1])


def run_once(program: Callable[[World], None]) -> None:
    world = World(None, NO_FAULTS)
    try:
        assert run(world, program, lambda _, enabled: (enabled[0], "ok"))
        assert world.violation is None
    finally:
        world.close()


ETAG = '"c4ca4238a0b923820dcc509a6f75849b"'
IN_B = {"Bucket": "b", "Key": "a"}
EVERY: list[Call] = [
    ("put_object", {**IN_B, "Body": b"1"}),
    ("put_object", {**IN_B, "Body": "1", "ContentType": "text/plain", "Metadata": {"who": "ann"}}),
    ("put_object", {**IN_B, "Body": b"2", "IfNoneMatch": "*"}),
    ("put_object", {**IN_B, "Body": b"2", "IfMatch": ETAG, "ServerSideEncryption": "AES256"}),
    ("put_object", {"Bucket": "b", "Key": "c/ä b", "Body": bytearray(b"3"), "ChecksumAlgorithm": "CRC32"}),
    ("get_object", IN_B),
    ("get_object", {**IN_B, "Range": "bytes=0-0"}),
    ("get_object", {**IN_B, "Range": "bytes=5-"}),
    ("get_object", {**IN_B, "IfNoneMatch": ETAG}),
    ("get_object", {"Bucket": "b", "Key": "c/ä b", "ChecksumMode": "ENABLED"}),
    ("get_object", {"Bucket": "b", "Key": "none"}),
    ("get_object", {"Bucket": "none", "Key": "none"}),
    ("get_object", {**IN_B, "IfModifiedSince": dt.datetime(2000, 1, 1, tzinfo=dt.UTC)}),
    ("get_object", {**IN_B, "IfModifiedSince": "2000-01-01T00:00:00Z"}),
    ("head_object", IN_B),
    ("head_object", {"Bucket": "b", "Key": "none"}),
    ("copy_object", {"Bucket": "b", "Key": "d", "CopySource": "b/a"}),
    ("copy_object", {"Bucket": "b", "Key": "d", "CopySource": {"Bucket": "b", "Key": "none"}}),
    ("create_multipart_upload", {"Bucket": "b", "Key": "e"}),
    ("upload_part", {"Bucket": "b", "Key": "e", "UploadId": "{UploadId}", "PartNumber": 1, "Body": b"1"}),
    (
        "upload_part_copy",
        {"Bucket": "b", "Key": "e", "UploadId": "{UploadId}", "PartNumber": 2, "CopySource": "b/a"},
    ),
    ("list_parts", {"Bucket": "b", "Key": "e", "UploadId": "{UploadId}"}),
    ("list_multipart_uploads", {"Bucket": "b"}),
    (
        "complete_multipart_upload",
        {
            "Bucket": "b",
            "Key": "e",
            "UploadId": "{UploadId}",
            "MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": ETAG}]},
        },
    ),
    ("abort_multipart_upload", {"Bucket": "b", "Key": "e", "UploadId": "{UploadId}"}),
    ("list_objects_v2", {"Bucket": "b", "MaxKeys": 2}),
    ("list_objects_v2", {"Bucket": "b", "ContinuationToken": "{NextContinuationToken}"}),
    ("list_objects_v2", {"Bucket": "b", "Delimiter": "/", "Prefix": ""}),
    ("list_objects", {"Bucket": "b", "MaxKeys": 1}),
    ("put_object", {"Bucket": "v", "Key": "a", "Body": b"1"}),
    ("put_object", {"Bucket": "v", "Key": "a", "Body": b"2"}),
    ("get_object", {"Bucket": "v", "Key": "a", "VersionId": "{VersionId}"}),
    ("get_object", {"Bucket": "v", "Key": "a", "VersionId": "null"}),
    ("delete_object", {"Bucket": "v", "Key": "a"}),
    ("list_object_versions", {"Bucket": "v"}),
    ("delete_objects", {"Bucket": "b", "Delete": {"Objects": [{"Key": "d"}, {"Key": "none"}]}}),
    ("delete_objects", {"Bucket": "b", "Delete": {"Objects": [{"Key": "a", "ETag": '"x"'}]}}),
    ("delete_object", {**IN_B, "IfMatch": '"x"'}),
    ("delete_object", IN_B),
    ("create_bucket", {"Bucket": "n"}),
    ("head_bucket", {"Bucket": "n"}),
    ("head_bucket", {"Bucket": "none"}),
    ("get_bucket_location", {"Bucket": "n"}),
    ("get_bucket_versioning", {"Bucket": "v"}),
    ("put_bucket_versioning", {"Bucket": "n", "VersioningConfiguration": {"Status": "Enabled"}}),
    ("delete_bucket", {"Bucket": "n"}),
    ("delete_bucket", {"Bucket": "v"}),
    ("list_buckets", {}),
    ("list_buckets", {}),
]

_BUCKET = st.sampled_from(("b", "b", "v", "none"))
_KEY = st.sampled_from(("a", "c", "ä b"))
_BODY = st.sampled_from((b"", b"1", "1", bytearray(b"1"), b"22"))
_TAG = st.sampled_from((ETAG, '"x"', "{ETag}"))


def _calls(operation: str, required: dict[str, Any], optional: dict[str, Any]) -> Any:
    parameters = st.fixed_dictionaries({"Bucket": _BUCKET, **required}, optional=optional)
    return st.tuples(st.just(operation), parameters)


_CALLS = st.one_of(
    _calls(
        "put_object",
        {"Key": _KEY, "Body": _BODY},
        {
            "IfMatch": _TAG,
            "Metadata": st.dictionaries(st.sampled_from(("x", "y")), st.sampled_from(("1", "2"))),
            "ContentType": st.sampled_from(("a/b", "c/d")),
            "CacheControl": st.sampled_from(("no-store", "private")),
            "ServerSideEncryption": st.sampled_from(("AES256", "aws:kms")),
            "ChecksumAlgorithm": st.sampled_from(("CRC32", "SHA256")),
        },
    ),
    _calls(
        "get_object",
        {"Key": _KEY},
        {
            "Range": st.sampled_from(("bytes=0-0", "bytes=1-", "bytes=9-")),
            "IfMatch": _TAG,
            "IfNoneMatch": _TAG,
            "ChecksumMode": st.just("ENABLED"),
            "ResponseContentType": st.sampled_from(("a/b", "c/d")),
        },
    ),
    _calls("head_object", {"Key": _KEY}, {"VersionId": st.sampled_from(("{VersionId}", "null", "no"))}),
    _calls("delete_object", {"Key": _KEY}, {"IfMatch": _TAG}),
    _calls(
        "copy_object",
        {"Key": _KEY, "CopySource": st.sampled_from(("b/a", "v/a", {"Bucket": "b", "Key": "c"}))},
        {"CopySourceIfMatch": _TAG, "MetadataDirective": st.sampled_from(("COPY", "REPLACE"))},
    ),
    _calls(
        "list_objects_v2",
        {},
        {
            "MaxKeys": st.integers(0, 2),
            "Prefix": st.sampled_from(("", "a", "ä")),
            "StartAfter": st.sampled_from(("a", "b")),
            "FetchOwner": st.booleans(),
        },
    ),
    _calls("list_object_versions", {}, {"MaxKeys": st.integers(1, 2)}),
    _calls(
        "delete_objects",
        {
            "Delete": st.fixed_dictionaries(
                {"Objects": st.lists(st.builds(dict, Key=_KEY), min_size=1, max_size=2)}
            )
        },
        {},
    ),
)

CONFIGURATIONS: dict[str, Callable[[], dict[str, Any]] | None] = {
    "as the world makes it": dict,
    "as loaded early": None,
    "legacy": lambda: {"config": Config(retries={"mode": "legacy"})},
    "standard": lambda: {"config": Config(retries={"mode": "standard", "max_attempts": 2})},
    "adaptive": lambda: {"config": Config(retries={"mode": "adaptive"})},
    "virtual": lambda: {"config": Config(s3={"addressing_style": "virtual"})},
    "signed": lambda: {
        "aws_access_key_id": "x",
        "aws_secret_access_key": "y",
        "config": Config(signature_version="s3v4", s3={"payload_signing_enabled": True}),
    },
    "checksums": lambda: {
        "config": Config(
            request_checksum_calculation="when_supported", response_checksum_validation="when_supported"
        )
    },
}


@pytest.mark.parametrize("options", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_every_operation_ends_as_without_memory(options: Any) -> None:
    assert {name for name, _ in EVERY} == {
        "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
        .strip("_")
        .replace("objects_v2", "objects_v2")
        for name in serve.OPERATIONS
    }
    with forgetful():
        expected = ends(EVERY, options)
    for _ in range(3):
        for call, wanted, found in zip(EVERY, expected, ends(EVERY, options), strict=True):
            assert wanted == found, call


@given(script=st.lists(_CALLS, max_size=12))
@settings(max_examples=examples(15, 400), deadline=None)
def test_any_calls_end_as_without_memory(script: list[Call]) -> None:
    with forgetful():
        expected = ends(script, dict)
    for _ in range(2):
        assert ends(script, dict) == expected


def test_calls_are_remembered() -> None:
    def options() -> dict[str, Any]:
        return {"region_name": "eu-west-3"}  # a client of this test's own

    ends(EVERY, options)
    with counted() as made:
        ends(EVERY, options)
    # Two conditions on time, and a version `null`, whose error depends on the bucket.
    assert made == ["GetObject"] * 3


def test_a_mock_of_moto_ends_remembering_only_while_it_is_active() -> None:
    """Once moto is imported, it adds a handler to every client that is made later."""
    stubber = import_module("moto.core.models").botocore_stubber
    client = boto3.session.Session().client(
        "s3", region_name="eu-west-3", aws_access_key_id="a", aws_secret_access_key="b"
    )
    memo = calls._Memo(client)
    with patch.object(stubber, "enabled", False):
        assert memo.is_pure(client)
    assert stubber in memo._mocks  # there is one more for each import of moto
    with patch.object(stubber, "enabled", True):
        assert not memo.is_pure(client)


def test_the_adaptive_mode_decides_by_the_clock() -> None:
    script = EVERY[:3]
    ends(script, CONFIGURATIONS["adaptive"])
    with counted() as made:
        ends(script, CONFIGURATIONS["adaptive"])
    assert made == ["PutObject"] * 3


# Parameters.


def test_equal_values_of_other_types_are_other_parameters() -> None:
    for one, other in ((1, True), (1, 1.0), ("1", b"1"), (b"1", bytearray(b"1")), ({"a": 1}, {"a": True})):
        assert calls.key_of({"Body": one}) != calls.key_of({"Body": other})
    assert calls.key_of({"a": 1, "b": 2}) != calls.key_of({"a": 1})


@pytest.mark.parametrize(
    "value", [object(), dt.datetime(2000, 1, 1, tzinfo=dt.UTC), uuid.UUID(int=1), b"x" * (1 << 17)]
)
def test_other_values_are_not_remembered(value: Any) -> None:
    assert calls.key_of({"Body": value}) is None
    assert calls.key_of({"Body": {"a": [value]}}) is None or isinstance(value, bytes)


# Where it must not be used.


def put(s3: Any, times_: int = 3) -> None:
    for _ in range(times_):
        s3.put_object(Bucket="b", Key="a", Body=b"1")


def once(work: Callable[[Any], Any]) -> Any:
    """The result of `work` in one run."""
    results: list[Any] = []

    def program(world: World) -> None:
        world.boto3_bucket("b")
        world.spawn(work, world.boto3_client("s3"), name="ann")
        world.finally_("it ended", lambda view: results.append(view.result("ann")))

    run_once(program)
    return results[-1]


def test_handlers_of_the_user_are_called_every_time() -> None:
    def work(s3: Any) -> Any:
        named: list[str] = []
        put(s3)
        s3.meta.events.register("before-call.s3", lambda model, **_: named.append(model.name))
        put(s3)
        return named

    for _ in range(3):
        assert once(work) == ["PutObject"] * 3


def test_a_stubbed_client_answers_itself() -> None:
    def work(s3: Any) -> Any:
        put(s3)
        with Stubber(s3) as stub:
            stub.add_response("put_object", {"ETag": "stubbed"})
            stubbed = s3.put_object(Bucket="b", Key="a", Body=b"1")["ETag"]
        put(s3)
        return stubbed

    once(lambda s3: put(s3, 7))  # the world knows every call and its answer
    for _ in range(2):
        assert once(work) == "stubbed"


def test_a_patched_sdk_is_called() -> None:
    def work(s3: Any) -> Any:
        put(s3)
        found = []

        def answer(_self: Any, operation: str, _parameters: Any) -> Any:
            return {"instead": operation}

        with patch("botocore.client.BaseClient._make_api_call", answer):
            found.append(s3.put_object(Bucket="b", Key="a", Body=b"1"))
        real = Endpoint.make_request

        def observing(self: Any, model: Any, request: Any) -> Any:
            found.append(model.name)
            return real(self, model, request)

        with patch.object(Endpoint, "make_request", observing):
            put(s3, 2)
        return found

    for _ in range(2):
        assert once(work) == [{"instead": "PutObject"}, "PutObject", "PutObject"]
    assert BaseClient._make_api_call is calls._real_call


def test_what_the_code_draws_is_the_same() -> None:
    def work(s3: Any) -> Any:
        put(s3)
        return str(uuid.uuid4())

    with forgetful():
        expected = once(work)
    assert [once(work), once(work)] == [expected] * 2


@pytest.mark.parametrize("seconds", [60, 30])
def test_a_copy_shows_when_it_landed(seconds: int) -> None:
    """Also where the same request was answered at another time in the run before."""

    def work(s3: Any, wait: Callable[[float], None]) -> Any:
        s3.put_object(Bucket="b", Key="a", Body=b"1")
        found = []
        for _ in range(3):
            copied = s3.copy_object(Bucket="b", Key="c", CopySource="b/a")["CopyObjectResult"]
            found.append(copied["LastModified"].timestamp())
            wait(seconds)
        return [later - found[0] for later in found]

    def program(world: World) -> None:
        world.boto3_bucket("b")
        world.spawn(work, world.boto3_client("s3"), world.store().env.sleep, name="ann")
        world.finally_("times", lambda view: view.result("ann") == [0, seconds, 2 * seconds])

    run_once(program)


# Schedules.


def racing(world: World) -> None:
    """Two writers that swap one key, and give up when they cannot."""
    world.boto3_bucket("b")
    client = world.boto3_client("s3")
    for name in ("ann", "bob"):
        world.spawn(swap, client, name, name=name)


def swap(s3: Any, name: str) -> str:
    s3.put_object(Bucket="b", Key=name, Body=b"1")
    try:
        s3.put_object(Bucket="b", Key="c", Body=name, IfNoneMatch="*")
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return str(s3.get_object(Bucket="b", Key="c")["Body"].read())


def searched(program: Callable[[World], None], budget: Budget) -> Any:
    """Everything that a search counts, and what it finds.

    It compares histories: what frames hold cannot be read in a call that the SDK makes, so there are more
    schedules without memory.
    """
    search = ReducedSearch(Setting(program, budget, exact_costs=True))
    search.explore(lambda search: search.runs >= 200)
    found = [(str(one.violation), one.choices) for one in search.failures]
    return search.schedules, search.merged, search.pruned, search.steps, search.coverage.summary(), found


FAULTS = {
    "none": NO_FAULTS,
    "a lost reply": Budget(reply_lost=1, request_lost=0, crash=0, pause=0),
    "a crash, and throttling": Budget(crash=1, throttled=1, pause=0),
}


@pytest.mark.parametrize("budget", FAULTS.values(), ids=FAULTS)
def test_the_schedules_are_the_same(budget: Budget) -> None:
    with forgetful():
        expected = searched(racing, budget)
    assert searched(racing, budget) == expected
    assert searched(racing, budget) == expected


def carrying(world: World) -> None:
    """Each keeps what it read in a variable alone, while the object is overwritten."""

    def carry(s3: Any, name: str) -> None:
        s3.put_object(Bucket="b", Key="c", Body=name)
        seen = s3.get_object(Bucket="b", Key="c")["Body"].read()
        s3.put_object(Bucket="b", Key="c", Body=b"")
        s3.put_object(Bucket="b", Key=name, Body=seen)

    world.boto3_bucket("b")
    client = world.boto3_client("s3")
    for name in ("ann", "bob"):
        world.spawn(carry, client, name, name=name)


@pytest.mark.parametrize(
    ("program", "budget", "ends", "fewer"),
    [
        (racing, Budget(crash=1, throttled=1, reply_lost=0, request_lost=0, pause=0), 4, True),
        (carrying, NO_FAULTS, 7, False),
    ],
)
def test_the_ends_are_the_same_where_frames_are_compared(
    program: Callable[[World], None],
    budget: Budget,
    ends: int,
    fewer: bool,
) -> None:
    """Frames can be read in calls that are remembered, which may leave out schedules, and no end."""

    def explored(*, exact: bool) -> tuple[set[Any], int]:
        found: set[Any] = set()
        search = ReducedSearch(
            Setting(program, budget, exact_costs=exact), observe=lambda world: found.add(final_state(world))
        )
        search.explore()
        assert search.exhausted
        return found, search.schedules

    with forgetful():
        expected, made = explored(exact=True)
        assert explored(exact=False)[0] == expected
    assert len(expected) == ends
    for _ in range(2):
        found, remembered = explored(exact=False)
        assert found == expected
        assert (remembered < made) == (fewer and frames.IS_SUPPORTED)


@pytest.mark.parametrize("mode", ["legacy", "standard"])
def test_lost_replies_are_sent_again(mode: str) -> None:
    def program(world: World) -> None:
        world.boto3_bucket("b")
        client = world.boto3_client("s3", config=Config(retries={"mode": mode}))
        world.spawn(swap, client, "ann", name="ann")
        world.finally_("no error", lambda view: view.result("ann") != "PreconditionFailed")

    with forgetful():
        expected = searched(program, FAULTS["a lost reply"])
    for _ in range(2):
        found = searched(program, FAULTS["a lost reply"])
        assert found == expected
        assert found[-1]  # the second attempt meets what the first one left
