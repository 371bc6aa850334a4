"""Who may read, list, write and copy: by access, ACL, public access block, policy and named keys.

The oracle of the random sequences is the history of what owners did, read from its end; the server keeps no
history.
"""

import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.http.tokens import Holder, TokenFile, Tokens, grants_file
from fencepost.impl.objects.temporary import Unflushed
from tests.depth import examples
from tests.impl.objects.serving import ROOT_TOKEN, client, served
from tests.impl.objects.test_rest import Client

KEYS = ("a", "b/c")
Code = Callable[..., str]


def status_of(url: str, method: str = "GET", body: bytes | None = None, **headers: str) -> int:
    given = {name.replace("_", "-"): text for name, text in headers.items()}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, given, method=method)) as answer:
            answer.read()
            return int(answer.status)
    except HTTPError as error:
        with error:
            return error.code


def enrol(file: TokenFile[Holder], name: str, **grants: str) -> str:
    """Return the access key of a new named key; `grants` by the path with `__` for a slash."""
    rights = tuple(
        ("/" + path.replace("__", "/").replace("_", "-"), frozenset(text.split()))
        for path, text in grants.items()
    )
    return file.enrol(Holder(name, rights), SystemEnvironment()).partition(".")[0]


# What an owner closed is closed.

STEPS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(KEYS), st.sampled_from(["", "public", "private"])),
    st.tuples(st.just("rest put"), st.sampled_from(KEYS), st.sampled_from(["", "public", "private"])),
    st.tuples(st.just("acl"), st.sampled_from(KEYS), st.sampled_from(["public", "private"])),
    st.tuples(st.just("rest access"), st.sampled_from(KEYS), st.sampled_from(["public", "private"])),
    st.tuples(st.just("bucket"), st.just(""), st.sampled_from(["public", "private"])),
    st.tuples(st.just("bucket acl"), st.just(""), st.sampled_from(["public", "private"])),
    st.tuples(st.just("block"), st.just(""), st.sampled_from(["on", "off"])),
    st.tuples(st.just("policy"), st.sampled_from(KEYS), st.sampled_from(["allow", "deny", "off"])),
    st.tuples(st.just("move"), st.sampled_from(KEYS), st.just("")),
    st.tuples(st.just("other server"), st.just(""), st.just("")),
)
Step = tuple[str, str, str]


@dataclass
class History:
    """The steps of the owner so far, and what is open after them."""

    steps: list[Step] = field(default_factory=list)

    def last(self, kind: str) -> Step | None:
        return next((step for step in reversed(self.steps) if step[0] == kind), None)

    def exists(self, key: str) -> bool:
        for kind, at, _ in reversed(self.steps):
            if kind in ("put", "rest put") and at == key:
                return True
            if kind == "move" and at == key:
                return False
            if kind == "move" and at != key:
                return True
        return False

    def is_open(self, key: str) -> bool:
        policy = self.last("policy")
        if policy is not None and policy[1] == key and policy[2] in ("allow", "deny"):
            return policy[2] == "allow"
        block = self.last("block")
        if block is not None and block[2] == "on":
            return False
        own = self._own(key, len(self.steps))
        return own == "public" if own else self._bucket_is_open()

    def _bucket_is_open(self) -> bool:
        for kind, _, value in reversed(self.steps):
            if kind == "bucket" or (kind == "bucket acl" and value == "private"):
                return value == "public"
        return False

    def _own(self, key: str, until: int) -> str:
        """The access that the object of a key has of its own."""
        closed = False
        for at in reversed(range(until)):
            kind, named, value = self.steps[at]
            if kind == "bucket" and value == "private":
                closed = True
            if kind == "move" and named != key and self._at(at).exists(named):
                value = self._own(named, at)
            elif named != key or kind not in ("put", "rest put", "acl", "rest access"):
                continue
            return "" if value == "public" and closed else value
        return ""

    def _at(self, until: int) -> "History":
        return History(self.steps[:until])


@dataclass
class Owner:
    """Carries out steps at one of two servers on the same directory."""

    addresses: list[str]
    bucket: str
    history: History = field(default_factory=History)
    at: int = 0

    @property
    def address(self) -> str:
        return self.addresses[self.at]

    def do(self, step: Step) -> None:
        kind, key, value = step
        s3, rest = client(self.address), Client(self.address, ROOT_TOKEN)
        canned = {"public": "public-read", "private": "private"}.get(value, "")
        there = {"Bucket": self.bucket, "Key": key}
        path, bucket = f"/v1/{self.bucket}/{key}", f"/v1/buckets/{self.bucket}"
        if kind in ("acl", "rest access", "move") and not self.history.exists(key):
            return
        if kind == "put":
            s3.put_object(**there, Body=b"x", **({"ACL": canned} if canned else {}))
        elif kind == "rest put":
            own = {"x_object_access": value} if value else {}
            assert rest("PUT", path, b"x", **own).status == 200
        elif kind == "acl":
            s3.put_object_acl(**there, ACL=canned)
        elif kind == "rest access":
            assert rest("PATCH", path, {"access": value}).status == 200
        elif kind == "move":
            other = next(one for one in KEYS if one != key)
            assert rest("PATCH", path, {"key": other}).status == 200
        elif kind == "bucket":
            assert rest("PATCH", bucket, {"access": value}).json["access"] == value
        elif kind == "bucket acl":
            s3.put_bucket_acl(Bucket=self.bucket, ACL=canned)
        elif kind == "block":
            blocks = {"IgnorePublicAcls": value == "on"}
            s3.put_public_access_block(Bucket=self.bucket, PublicAccessBlockConfiguration=blocks)
        elif kind == "policy":
            self.set_policy(s3, key, value)
        else:
            self.at = 1 - self.at
            return
        self.history.steps.append(step)

    def set_policy(self, s3: Any, key: str, value: str) -> None:
        if value == "off":
            s3.delete_bucket_policy(Bucket=self.bucket)
            return
        statement = {
            "Effect": value.capitalize(),
            "Principal": "*",
            "Action": ["s3:GetObject", "s3:GetObjectVersion"],
            "Resource": f"arn:aws:s3:::{self.bucket}/{key}",
        }
        s3.put_bucket_policy(Bucket=self.bucket, Policy=json.dumps({"Statement": [statement]}))

    def check(self, stranger: Any) -> None:
        policy = self.history.last("policy")
        listing = self.history.last("bucket acl"), self.history.last("block")
        for address in self.addresses:
            lists = self._lists() and (listing[1] is None or listing[1][2] != "on")
            assert (status_of(f"{address}/{self.bucket}") == 200) == lists
            for key in KEYS:
                is_open = self.history.is_open(key) and self.history.exists(key)
                for path in (f"/{self.bucket}/{key}", f"/v1/{self.bucket}/{key}"):
                    for method in ("GET", "HEAD"):
                        found = status_of(address + path, method)
                        assert (found == 200) == is_open, (method, path, found, self.history.steps)
                    assert status_of(address + path, "PUT", b"y") in (401, 403)
                null = f"{address}/{self.bucket}/{key}?versionId=null"
                assert (status_of(null) == 200) == is_open
                assert (
                    status_of(f"{address}/{self.bucket}/{key}?attributes", x_amz_object_attributes="ETag")
                    == 403
                )
                copied = self._copies(stranger(address), key)
                assert copied == is_open, (key, self.history.steps)
                denied = policy is not None and policy[1:] == (key, "deny")
                if self.history.exists(key) and not denied:  # a signature of the owner's opens it
                    url = client(address).generate_presigned_url(
                        "get_object", Params={"Bucket": self.bucket, "Key": key}
                    )
                    assert status_of(url) == 200

    def _lists(self) -> bool:
        for kind, _, value in reversed(self.history.steps):
            if kind == "bucket acl":
                return value == "public"
            if kind == "bucket" and value == "private":
                return False
        return False

    def _copies(self, s3: Any, key: str) -> bool:
        try:
            s3.copy_object(Bucket="strangers", Key="k", CopySource={"Bucket": self.bucket, "Key": key})
        except ClientError as error:
            if error.response["Error"]["Code"] not in ("AccessDenied", "NoSuchKey"):
                raise
            return False
        return True


class World:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = grants_file(root / "tokens.json", "fencepost objects enrol")
        self.stranger = enrol(self.file, "stranger", strangers="read create append delete")
        self.buckets = 0


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("access"))


@pytest.fixture(scope="module")
def addresses(world: World) -> Iterator[list[str]]:
    """Two servers on one directory, as the workers of one are."""
    data = world.root / "data"
    with (
        served(data, disk=Unflushed(), tokens=Tokens(world.file)) as one,
        served(data, disk=Unflushed(), tokens=Tokens(world.file)) as other,
    ):
        client(one).create_bucket(Bucket="strangers")
        yield [one, other]


@settings(
    max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(STEPS, min_size=1, max_size=9))
@example([("acl", "a", "public"), ("bucket", "", "private")])
@example([("bucket", "", "public"), ("bucket", "", "private")])
@example(
    [("rest put", "a", "public"), ("bucket", "", "private"), ("move", "a", ""), ("bucket", "", "public")]
)
@example([("bucket", "", "public"), ("rest access", "a", "private"), ("move", "a", "")])
def test_what_an_owner_closed_is_closed(world: World, addresses: list[str], steps: list[Step]) -> None:
    world.buckets += 1
    bucket = f"bucket-{world.buckets}"
    client(addresses[0]).create_bucket(Bucket=bucket)
    owner = Owner(addresses, bucket)
    owner.do(("put", KEYS[0], ""))
    for step in steps:
        owner.do(step)
    owner.check(lambda address: client(address, world.stranger))


def test_closing_a_bucket_closes_what_is_in_it(tmp_path: Path) -> None:
    """What inherits, and what was opened by itself, would stay public. Also after a restart."""
    disk = Unflushed()
    with served(tmp_path, disk=disk) as address:
        s3, rest = client(address), Client(address, ROOT_TOKEN)
        rest("POST", "/v1/buckets", {"name": "open", "access": "public"})
        s3.put_object(Bucket="open", Key="inherits", Body=b"x")
        s3.put_object(Bucket="open", Key="own", Body=b"x", ACL="public-read")
        assert [status_of(f"{address}/open/{key}") for key in ("inherits", "own")] == [200, 200]
        rest("PATCH", "/v1/buckets/open", {"access": "private"})
        assert [status_of(f"{address}/open/{key}") for key in ("inherits", "own")] == [403, 403]
    with served(tmp_path, disk=disk) as address:
        assert [status_of(f"{address}/open/{key}") for key in ("inherits", "own")] == [403, 403]
        client(address).put_object_acl(Bucket="open", Key="own", ACL="public-read")
        assert [status_of(f"{address}/open/{key}") for key in ("inherits", "own")] == [403, 200]


def test_a_closed_server_answers_nobody_unsigned(tmp_path: Path) -> None:
    disk = Unflushed()
    with served(tmp_path, disk=disk) as address:
        client(address).create_bucket(Bucket="open", ACL="public-read-write")
        client(address).put_object(Bucket="open", Key="k", Body=b"x", ACL="public-read")
        assert status_of(f"{address}/open/k") == status_of(f"{address}/open") == 200
    with served(tmp_path, disk=disk, answers_unsigned=False) as address:
        for path in ("/open/k", "/open", "/v1/open/k"):
            assert status_of(address + path) in (401, 403), path
        assert status_of(f"{address}/open/k", "PUT", b"y") == 403
        assert client(address).get_object(Bucket="open", Key="k")["Body"].read() == b"x"


def test_a_write_that_began_before_a_closing_does_not_open(tmp_path: Path) -> None:
    """The object is published as public after its bucket was closed."""
    from fencepost.impl.objects.access import is_public, with_access
    from fencepost.impl.objects.buckets import Buckets
    from fencepost.impl.objects.credentials import ROOT, Caller
    from fencepost.impl.objects.surface import act

    buckets = Buckets(str(tmp_path), disk=Unflushed())
    buckets.create("open", access="public")
    put = act("PutObject", buckets, Caller(ROOT))
    with put({"Bucket": "open", "Key": "k", "ACL": "public-read"}) as receiving:
        buckets.change("open", lambda document: with_access(document, "private"))
        receiving.write(b"x")
        receiving.finish("9dd4e461268c8034f5c8564e155c67a6", {})
    with buckets.entered("open") as (store, document), store.opened("k") as found:
        assert found is not None
        assert not is_public(document, found.attributes.extra)
    buckets.close()


# Public access block and ownership.


def test_a_public_access_block_closes_and_refuses(aws: Any, bucket: str, endpoint: str, code: Code) -> None:
    at, url = {"Bucket": bucket, "Key": "k"}, f"{endpoint}/{bucket}/k"
    aws.put_object(**at, Body=b"x", ACL="public-read")
    assert status_of(url) == 200
    every = dict.fromkeys(
        ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"), True
    )
    assert code(aws.get_public_access_block, Bucket=bucket) == "NoSuchPublicAccessBlockConfiguration"
    aws.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=every)
    assert aws.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"] == every
    assert status_of(url) == 403
    assert code(aws.put_object, **at, Body=b"x", ACL="public-read") == "AccessDenied"
    assert code(aws.put_object_acl, **at, ACL="public-read") == "AccessDenied"
    assert code(aws.put_bucket_acl, Bucket=bucket, ACL="public-read") == "AccessDenied"
    assert code(aws.put_bucket_policy, Bucket=bucket, Policy=policy(bucket)) == "AccessDenied"
    aws.delete_public_access_block(Bucket=bucket)
    assert status_of(url) == 200


def test_a_public_policy_is_restricted(aws: Any, bucket: str, endpoint: str) -> None:
    aws.put_object(Bucket=bucket, Key="k", Body=b"x")
    aws.put_bucket_policy(Bucket=bucket, Policy=policy(bucket))
    assert aws.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"]["IsPublic"]
    assert status_of(f"{endpoint}/{bucket}/k") == 200
    blocks = {"RestrictPublicBuckets": True}
    aws.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=blocks)
    assert status_of(f"{endpoint}/{bucket}/k") == 403


def test_where_the_owner_owns_everything_acls_open_nothing(
    aws: Any, bucket: str, endpoint: str, code: Code
) -> None:
    at = {"Bucket": bucket, "Key": "k"}
    aws.put_object(**at, Body=b"x", ACL="public-read")
    rules = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    aws.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=rules)
    assert aws.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"] == rules
    assert status_of(f"{endpoint}/{bucket}/k") == 403
    assert code(aws.put_object, **at, Body=b"x", ACL="public-read") == "AccessControlListNotSupported"
    aws.delete_bucket_ownership_controls(Bucket=bucket)
    assert code(aws.get_bucket_ownership_controls, Bucket=bucket) == "OwnershipControlsNotFoundError"


def test_the_acl_of_a_bucket_opens_lists_and_writes(aws: Any, bucket: str, endpoint: str) -> None:
    url = f"{endpoint}/{bucket}"
    for acl, listed, written in (
        ("private", 403, 403), ("public-read", 200, 403), ("authenticated-read", 403, 403),
        ("public-read-write", 200, 200),
    ):  # fmt: skip
        aws.put_bucket_acl(Bucket=bucket, ACL=acl)
        grants = aws.get_bucket_acl(Bucket=bucket)["Grants"]
        aws.put_bucket_acl(
            Bucket=bucket, AccessControlPolicy={"Grants": grants, "Owner": {"ID": "fencepost"}}
        )
        assert (status_of(url), status_of(f"{url}/k", "PUT", b"x")) == (listed, written), acl
        assert status_of(f"{url}?acl") == status_of(f"{url}?policy") == 403
    assert status_of(f"{url}/k") == 403  # the bucket's ACL does not open its objects
    assert status_of(f"{url}/k", "DELETE") == 204


# Policies.


def policy(bucket: str, effect: str = "Allow", action: Any = "s3:GetObject", **more: Any) -> str:
    statement = {
        "Effect": effect, "Principal": "*", "Action": action, "Resource": f"arn:aws:s3:::{bucket}/*", **more,
    }  # fmt: skip
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def test_a_policy_opens_what_it_names_and_nothing_else(aws: Any, bucket: str, endpoint: str) -> None:
    url = f"{endpoint}/{bucket}"
    for key in ("open/a", "closed/a"):
        aws.put_object(Bucket=bucket, Key=key, Body=b"x")
    text = policy(bucket, Resource=f"arn:aws:s3:::{bucket}/open/*")
    aws.put_bucket_policy(Bucket=bucket, Policy=text)
    assert aws.get_bucket_policy(Bucket=bucket)["Policy"] == text
    assert (status_of(f"{url}/open/a"), status_of(f"{url}/closed/a"), status_of(url)) == (200, 403, 403)
    assert status_of(f"{url}/open/a", "PUT", b"y") == status_of(f"{url}/open/a?tagging") == 403
    aws.delete_bucket_policy(Bucket=bucket)
    assert status_of(f"{url}/open/a") == 403


def test_a_denial_wins_even_over_root_but_not_over_its_removal(
    aws: Any, bucket: str, endpoint: str, code: Code
) -> None:
    at = {"Bucket": bucket, "Key": "k"}
    aws.put_object(**at, Body=b"x", ACL="public-read")
    aws.put_bucket_policy(Bucket=bucket, Policy=policy(bucket, "Deny", "s3:*", Resource="*"))
    assert code(aws.get_object, **at) == code(aws.list_objects_v2, Bucket=bucket) == "AccessDenied"
    assert status_of(f"{endpoint}/{bucket}/k") == 403
    rest = Client(endpoint, ROOT_TOKEN)
    for method in ("GET", "DELETE"):
        assert rest(method, f"/v1/{bucket}/k").status == 403
    assert rest("GET", f"/v1/{bucket}").status == 403
    found = aws.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "k"}]})
    assert [one["Code"] for one in found["Errors"]] == ["AccessDenied"]
    aws.delete_bucket_policy(Bucket=bucket)
    assert aws.get_object(**at)["Body"].read() == b"x"


CONDITIONS = [
    ({"IpAddress": {"aws:SourceIp": "127.0.0.0/8"}}, {}, 200),
    ({"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, {}, 403),
    ({"NotIpAddress": {"aws:SourceIp": ["10.0.0.0/8", "127.0.0.1"]}}, {}, 403),
    ({"Bool": {"aws:SecureTransport": False}}, {}, 200),
    ({"Bool": {"aws:SecureTransport": "true"}}, {}, 403),
    ({"StringLike": {"aws:Referer": "https://*.example/*"}}, {"Referer": "https://a.example/"}, 200),
    ({"StringLike": {"aws:Referer": "https://*.example/*"}}, {}, 403),
    ({"StringNotEquals": {"aws:Referer": "x"}}, {}, 200),
    ({"StringEqualsIfExists": {"aws:Referer": "x"}}, {}, 200),
    ({"Null": {"aws:Referer": "true"}}, {}, 200),
    ({"Null": {"aws:Referer": "false"}}, {}, 403),
    ({"StringEquals": {"s3:ExistingObjectTag/team": "red"}}, {}, 200),
    ({"StringEquals": {"s3:ExistingObjectTag/team": "blue"}}, {}, 403),
    ({"StringNotEquals": {"s3:ExistingObjectTag/other": "blue"}}, {}, 200),
    ({"DateGreaterThan": {"aws:CurrentTime": "2020-01-01T00:00:00Z"}}, {}, 200),
    ({"DateLessThan": {"aws:CurrentTime": "2020-01-01T00:00:00Z"}}, {}, 403),
    ({"StringLike": {"aws:UserAgent": "*"}, "StringEquals": {"aws:Referer": "x"}}, {}, 403),
]


@pytest.mark.parametrize(("condition", "headers", "expected"), CONDITIONS)
def test_conditions(
    aws: Any, bucket: str, endpoint: str, condition: Any, headers: dict[str, str], expected: int
) -> None:
    aws.put_object(Bucket=bucket, Key="k", Body=b"x", Tagging="team=red")
    aws.put_bucket_policy(Bucket=bucket, Policy=policy(bucket, Condition=condition))
    assert status_of(f"{endpoint}/{bucket}/k", **headers) == expected


MALFORMED = [
    "",
    "nonsense",
    "[]",
    "{}",
    json.dumps({"Statement": [], "Other": 1}),
    json.dumps({"Version": "1", "Statement": []}),
    json.dumps({"Statement": ["x"]}),
    policy("other"),
    policy("bucket", effect="Perhaps"),
    policy("bucket", action="ec2:Run"),
    policy("bucket", NotAction="s3:GetObject"),
    policy("bucket", NotPrincipal="*"),
    policy("bucket", Principal={"Service": "x"}),
    policy("bucket", Principal={"AWS": "arn:aws:iam::1:role/x"}),
    policy("bucket", Condition={"StringEquals": {"aws:PrincipalOrgID": "o"}}),
    policy("bucket", Condition={"ForAllValues:StringEquals": {"s3:prefix": "o"}}),
    policy("bucket", Condition={"IpAddress": {"aws:SourceIp": "nowhere"}}),
    policy("bucket", Condition={"NumericLessThan": {"s3:max-keys": "many"}}),
    policy("bucket", Condition={"Null": {"s3:prefix": "perhaps"}}),
    policy("bucket", Sid="x" * 21_000),
    "[" * 100_000,
]


@pytest.mark.parametrize("text", MALFORMED)
def test_a_policy_that_would_be_evaluated_in_part_is_refused(aws: Any, text: str, code: Code) -> None:
    aws.create_bucket(Bucket="bucket")
    assert code(aws.put_bucket_policy, Bucket="bucket", Policy=text) == "MalformedPolicy"
    assert code(aws.get_bucket_policy, Bucket="bucket") == "NoSuchBucketPolicy"


# Named keys.


@pytest.fixture
def team(world: World, addresses: list[str]) -> Iterator[tuple[Any, Any, str]]:
    """Root, a named key with all rights below team/, and its access key."""
    root = client(addresses[0])
    root.create_bucket(Bucket="teams")
    for key in ("team/a", "teamwork/a"):
        root.put_object(Bucket="teams", Key=key, Body=b"x")
    key = enrol(world.file, "team", teams__team="read create append delete")
    yield root, client(addresses[0], key), key
    world.file.revoke(key)


def test_a_named_key_has_its_rights_and_no_others(team: tuple[Any, Any, str], code: Code) -> None:
    _, mine, _ = team
    at, other = {"Bucket": "teams", "Key": "team/a"}, {"Bucket": "teams", "Key": "teamwork/a"}
    assert mine.get_object(**at)["Body"].read() == b"x"
    mine.put_object(Bucket="teams", Key="team/b", Body=b"y")
    mine.put_object_tagging(**at, Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    assert [one["Key"] for one in mine.list_objects_v2(Bucket="teams", Prefix="team/")["Contents"]] == [
        "team/a", "team/b",
    ]  # fmt: skip
    mine.copy_object(Bucket="teams", Key="team/c", CopySource=at)
    upload = mine.create_multipart_upload(**at)["UploadId"]
    mine.abort_multipart_upload(**at, UploadId=upload)
    assert [one["Name"] for one in mine.list_buckets()["Buckets"]] == ["teams"]
    denied = [
        code(mine.get_object, **other), code(mine.put_object, **other, Body=b"y"),
        code(mine.delete_object, **other), code(mine.list_objects_v2, Bucket="teams"),
        code(mine.copy_object, Bucket="teams", Key="team/d", CopySource=other),
        code(mine.copy_object, **other, CopySource=at), code(mine.create_bucket, Bucket="mine"),
        code(mine.put_bucket_policy, Bucket="teams", Policy=policy("teams")),
        code(mine.put_bucket_acl, Bucket="teams", ACL="public-read"),
        code(mine.delete_bucket, Bucket="teams"), code(mine.get_object_tagging, **other),
        code(mine.create_multipart_upload, **other),
    ]  # fmt: skip
    assert denied == ["AccessDenied"] * len(denied)
    found = mine.delete_objects(
        Bucket="teams", Delete={"Objects": [{"Key": one["Key"]} for one in (at, other)]}
    )
    assert [one["Key"] for one in found["Deleted"]] == ["team/a"]
    assert [(one["Key"], one["Code"]) for one in found["Errors"]] == [("teamwork/a", "AccessDenied")]


def test_a_key_that_was_revoked_opens_nothing(world: World, team: tuple[Any, Any, str], code: Code) -> None:
    """Also what it presigned before."""
    _, mine, key = team
    params = {"Bucket": "teams", "Key": "team/a"}
    url = mine.generate_presigned_url("get_object", Params=params)
    assert status_of(url) == 200
    world.file.revoke("team")
    assert status_of(url) == 403
    assert code(mine.get_object, **params) == "InvalidAccessKeyId"
    again = enrol(world.file, "team", teams__team="read")
    assert again != key
    assert status_of(url) == 403
    world.file.revoke(again)


def test_no_name_makes_a_key_root(world: World, addresses: list[str], code: Code) -> None:
    key = enrol(world.file, "root", strangers="read")
    mine = client(addresses[0], key)
    assert code(mine.create_bucket, Bucket="mine") == "AccessDenied"
    assert (
        code(mine.delete_object, Bucket="strangers", Key="k", BypassGovernanceRetention=True)
        == "AccessDenied"
    )
    world.file.revoke(key)


def test_a_policy_names_a_key(world: World, team: tuple[Any, Any, str], code: Code) -> None:
    root, mine, key = team
    other = {"Bucket": "teams", "Key": "teamwork/a"}
    for principal in ("team", key, {"AWS": ["arn:aws:iam::123456789012:user/team"]}):
        root.put_bucket_policy(Bucket="teams", Policy=policy("teams", Principal=principal))
        assert mine.get_object(**other)["Body"].read() == b"x"
        assert code(mine.put_object, **other, Body=b"y") == "AccessDenied"
    root.put_bucket_policy(Bucket="teams", Policy=policy("teams", "Deny", Principal="team"))
    assert code(mine.get_object, Bucket="teams", Key="team/a") == "AccessDenied"
    root.delete_bucket_policy(Bucket="teams")


def test_secrets_are_in_no_log(
    world: World, team: tuple[Any, Any, str], addresses: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    _, mine, _ = team
    caplog.set_level("DEBUG", "fencepost")
    url = mine.generate_presigned_url("get_object", Params={"Bucket": "teams", "Key": "team/a"})
    assert status_of(url) == 200
    assert status_of(f"{url}x") == 403
    for _ in range(200):  # a request is logged once it was answered
        if sum("GET" in record.getMessage() for record in caplog.records) > 1:
            break
        threading.Event().wait(0.01)
    signature = urlsplit(url).query.rpartition("Signature=")[2][:20]
    text = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("fencepost"))
    assert "GET" in text
    assert signature not in text
    assert ROOT_TOKEN not in text


def test_a_refused_write_leaves_a_usable_connection(team: tuple[Any, Any, str], code: Code) -> None:
    """A body that is offered (`Expect: 100-continue`) and not asked for is never sent: the next
    request on the connection was taken for it."""
    _, mine, _ = team
    for _ in range(3):
        assert code(mine.put_object, Bucket="teams", Key="other", Body=b"y") == "AccessDenied"
        assert mine.get_object(Bucket="teams", Key="team/a")["Body"].read() == b"x"
