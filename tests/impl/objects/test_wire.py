"""The codec against the SDK: what a client serializes the server reads, and the other way round.

The SDK is not ours, so a name or a place that we have misunderstood shows here, for every operation.
"""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import botocore.parsers
import botocore.serialize
import botocore.session
import pytest
from botocore.awsrequest import HeadersDict

from fencepost.impl.objects.bucket_settings import NOT_CONFIGURED
from fencepost.impl.objects.surface import KNOWN
from fencepost.impl.objects.wire import codec
from fencepost.impl.objects.wire.errors import CODES, S3Error, error_body
from fencepost.impl.objects.wire.service_model import Shape, service_model

MODEL = botocore.session.get_session().get_service_model("s3")
SERIALIZER = botocore.serialize.create_serializer("rest-xml", include_validation=False)
PARSER = botocore.parsers.create_parser("rest-xml")
WHEN = datetime(2026, 11, 19, 1, 2, 3, tzinfo=UTC)
OPERATIONS = sorted(
    name
    for name in MODEL.operation_names
    if not MODEL.operation_model(name).deprecated and not codec._NOT_OURS.fullmatch(name)
)


def example(shape: Any, depth: int = 0) -> Any:
    """A value of this shape with every member."""
    match shape.type_name:
        case "structure":
            if depth > 6:
                return {}
            members = shape.members.items()
            if shape.is_tagged_union:
                members = [*members][:1]
            return {
                name: example(part, depth + 1)
                for name, part in members
                if not part.serialization.get("eventstream")
            }
        case "list":
            return [example(shape.member, depth + 1)] * 2
        case "map":
            return {"name": "value"}
        case "integer" | "long":
            return 7
        case "boolean":
            return True
        case "timestamp":
            return WHEN
        case "blob":
            return b"content"
        case "string":
            return shape.enum[0] if shape.enum else "te<x>t & more"
        case other:
            pytest.skip(f"no example of a {other}")


def compare(ours: Shape, theirs: Any, place: str, seen: frozenset[str] = frozenset()) -> None:
    """Fail at the first place where a shape of ours is not that of the SDK."""
    assert ours.type_name == theirs.type_name, place
    assert ours.required_members == theirs.required_members, place
    unread = (
        "xmlNamespace",
        "contextParam",
        "eventpayload",
        "eventstream",
        "event",
        "hostLabel",
    )
    expected = {name: value for name, value in theirs.serialization.items() if name not in unread}
    assert ours.serialization == expected, place
    if theirs.name in seen:
        return
    seen = seen | {theirs.name}
    if theirs.type_name == "list":
        compare(ours.member, theirs.member, f"{place}[]", seen)
    if theirs.type_name == "structure":
        assert [*ours.members] == [*theirs.members], place
        for name, part in theirs.members.items():
            compare(ours.members[name], part, f"{place}.{name}", seen)


@pytest.mark.parametrize("name", MODEL.operation_names)
def test_the_model_of_the_codec_is_that_of_the_sdk(name: str) -> None:
    """If this fails, a parameter is taken for another, or not seen at all."""
    ours, theirs = service_model().operation_model(name), MODEL.operation_model(name)
    assert ours.http == theirs.http
    assert ours.deprecated == theirs.deprecated
    for mine, its in ((ours.input_shape, theirs.input_shape), (ours.output_shape, theirs.output_shape)):
        if its is None:
            assert not mine.members
        else:
            compare(mine, its, name)


def sent(
    name: str, parameters: dict[str, Any]
) -> tuple[str, str, str, dict[str, str], dict[str, str], bytes]:
    request = SERIALIZER.serialize_to_request(parameters, MODEL.operation_model(name))
    parts = urlsplit(request["url_path"])
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    for word, value in (request["query_string"] or {}).items():
        query[word] = (
            value
            if isinstance(value, str)
            else ",".join(value)
            if isinstance(value, list)
            else str(value).lower()
        )
    bucket, _, key = unquote(parts.path)[1:].partition("/")
    headers = {word.lower(): value for word, value in request["headers"].items()}
    return request["method"], bucket, key, query, headers, request["body"] or b""


def minimal(name: str) -> dict[str, Any]:
    shape = MODEL.operation_model(name).input_shape
    return (
        {} if shape is None else {member: example(shape.members[member]) for member in shape.required_members}
    )


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_is_recognized(name: str) -> None:
    method, bucket, key, query, headers, _ = sent(name, minimal(name))
    assert codec.read(method, bucket, key, query, headers).operation == name


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_parameters_arrive_as_the_sdk_sent_them(name: str) -> None:
    shape = MODEL.operation_model(name).input_shape
    if shape is None:
        return
    given = {
        member: example(part)
        for member, part in shape.members.items()
        if member in KNOWN[name] and member != "Body" and member != "Expires"
    }
    method, bucket, key, query, headers, body = sent(name, given)
    call = codec.read(method, bucket, key, query, headers)
    codec.refuse_unknown(call, KNOWN[name])
    found = codec.read_body(call, body if isinstance(body, bytes) else body.encode())
    assert {member: found[member] for member in given} == given


@pytest.mark.parametrize(
    "name", sorted(KNOWN.keys() - {"GetBucketLocation", *NOT_CONFIGURED})
)  # the SDK reads the first by hand, and the others never have a result
def test_results_arrive_as_the_server_wrote_them(name: str) -> None:
    described = MODEL.operation_model(name)
    shape = described.output_shape
    if shape is None:
        return
    given = {
        member: example(part)
        for member, part in shape.members.items()
        if not part.serialization.get("streaming")
    }
    given.pop("Expires", None)  # parsed to another type, and kept as text beside
    answer = codec.write(name, given)
    response = {"status_code": answer.status, "headers": HeadersDict(answer.headers), "body": answer.body}
    found = PARSER.parse(response, shape)
    assert {member: found.get(member) for member in given} == given


def test_a_parameter_that_is_not_implemented_is_refused() -> None:
    """An ignored key of the client's would store in the clear what the client wants encrypted."""
    name = "x-amz-server-side-encryption-customer-algorithm"
    call = codec.read("PUT", "bucket", "key", {}, {name: "AES256"})
    with pytest.raises(S3Error) as raised:
        codec.refuse_unknown(call, KNOWN["PutObject"])
    assert raised.value.code == "NotImplemented"
    assert raised.value.details == {"header": name}


@pytest.mark.parametrize(
    ("method", "query"), [("POST", {}), ("PUT", {"uploads": ""}), ("DELETE", {"acl": ""}), ("PATCH", {})]
)
def test_a_word_of_another_operation_is_no_plain_request(method: str, query: dict[str, str]) -> None:
    """`DELETE /bucket/key?acl` must not delete the object."""
    with pytest.raises(S3Error) as raised:
        codec.read(method, "bucket", "key", query, {})
    assert raised.value.code == "MethodNotAllowed"


@pytest.mark.parametrize(
    "body",
    [
        b"<Delete>",
        b"not xml",
        b'<!DOCTYPE x [<!ENTITY a "b">]><Delete><Object><Key>&a;</Key></Object></Delete>',
        b"<Delete><Object></Object></Delete>",
        b"<Delete>" + b" " * codec.XML_BYTES_MAX + b"</Delete>",
        b"<Tagging/>",
        "<Delete><Object><Key>\ufffe</Key></Object></Delete>".encode("utf-16"),
    ],
)
def test_bad_xml_is_malformed(body: bytes) -> None:
    call = codec.read("POST", "bucket", "", {"delete": ""}, {})
    with pytest.raises(S3Error) as raised:
        codec.read_body(call, body)
    assert raised.value.code == "MalformedXML"


@pytest.mark.parametrize(
    ("name", "text"), [("max-keys", "many"), ("max-keys", "9" * 30), ("fetch-owner", "maybe")]
)
def test_a_parameter_of_another_type_is_an_invalid_argument(name: str, text: str) -> None:
    with pytest.raises(S3Error) as raised:
        codec.read("GET", "bucket", "", {"list-type": "2", name: text}, {})
    assert raised.value.code == "InvalidArgument"


@pytest.mark.parametrize("code", sorted(CODES))
def test_the_sdk_reads_every_error(code: str) -> None:
    error = S3Error(code, bucket_name="a<b")
    response = {"status_code": 400, "headers": {}, "body": error_body(error, "/a&b", "ID")}
    found = PARSER.parse(response, MODEL.operation_model("GetObject").output_shape)
    assert found["Error"]["Code"] == code
    assert (found["Error"]["Message"] or "") == error.message
    assert found["Error"]["BucketName"] == "a<b"


def test_keys_with_characters_that_xml_cannot_hold_are_escaped() -> None:
    answer = codec.write("ListObjectsV2", {"Contents": [{"Key": "a\x01\n\r<&>"}]})
    assert b"<Key>a&#x1;\n&#xd;&lt;&amp;&gt;</Key>" in answer.body
