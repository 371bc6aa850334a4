"""Requests to parameters and results to responses, as the SDK's own service model of S3 describes them.

The model (JSON that ships with botocore) states for each operation its method, its path, the place of
each parameter (path, query, header, body) and the shape of the XML. A client serializes parameters and
parses results with it; a server does the reverse with the same text, so the two cannot disagree on a name.
The model leaves out the following, which is written here:

- Which operation a request is. Several share method and path and differ in a word of the query (`?tagging`),
  a parameter that only one requires (`uploadId`) or a header (`x-amz-copy-source`): of the operations whose
  words are all there, the one with most words is meant. `x-id` is ignored: it repeats the name of the
  operation.
- The name of the root element of each response (`ROOTS`), which clients ignore and people do not.
- A parameter that the server does not know. S3 ignores unknown headers, but a header of the model that we do
  not implement changes the meaning of a request, so it is refused (`Unimplemented`), never ignored.
"""

import base64
import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from fencepost.impl.http.numbers import whole_number
from fencepost.impl.objects.wire import elements
from fencepost.impl.objects.wire.errors import S3Error
from fencepost.impl.objects.wire.service_model import service_model

DECLARATION = b'<?xml version="1.0" encoding="UTF-8"?>\n'
NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
XML_BYTES_MAX = 2 << 20
"""Of a body that is XML: a thousand keys to delete, or ten thousand parts."""

ROOTS = {
    "CompleteMultipartUpload": "CompleteMultipartUploadResult",
    "CopyObject": "CopyObjectResult",
    "CreateMultipartUpload": "InitiateMultipartUploadResult",
    "DeleteObjects": "DeleteResult",
    "GetBucketAccelerateConfiguration": "AccelerateConfiguration",
    "GetBucketCors": "CORSConfiguration",
    "GetBucketEncryption": "ServerSideEncryptionConfiguration",
    "GetBucketOwnershipControls": "OwnershipControls",
    "GetBucketPolicyStatus": "PolicyStatus",
    "GetPublicAccessBlock": "PublicAccessBlockConfiguration",
    "GetBucketAcl": "AccessControlPolicy",
    "GetBucketLifecycleConfiguration": "LifecycleConfiguration",
    "GetBucketLocation": "LocationConstraint",
    "GetBucketLogging": "BucketLoggingStatus",
    "GetBucketNotificationConfiguration": "NotificationConfiguration",
    "GetBucketRequestPayment": "RequestPaymentConfiguration",
    "GetBucketTagging": "Tagging",
    "GetBucketVersioning": "VersioningConfiguration",
    "GetObjectAcl": "AccessControlPolicy",
    "GetObjectAttributes": "GetObjectAttributesResponse",
    "GetObjectLegalHold": "LegalHold",
    "GetObjectLockConfiguration": "ObjectLockConfiguration",
    "GetObjectRetention": "Retention",
    "GetObjectTagging": "Tagging",
    "ListBuckets": "ListAllMyBucketsResult",
    "ListMultipartUploads": "ListMultipartUploadsResult",
    "ListObjectVersions": "ListVersionsResult",
    "ListObjects": "ListBucketResult",
    "ListObjectsV2": "ListBucketResult",
    "ListParts": "ListPartsResult",
    "UploadPartCopy": "CopyPartResult",
}
_STATUS = {"PutBucketPolicy": 204}
"""What S3 answers where the model has another status."""
_TEXTS = {"GetBucketPolicy": "Policy"}
"""Responses whose body is the text of one value."""
_NOT_OURS = re.compile(r"ListDirectoryBuckets|CreateSession|WriteGetObjectResponse")
"""Operations of other endpoints, which share a method and a path with ours."""
_DUE_ANYWAY = frozenset({"ContentLength", "ChecksumAlgorithm", "ExpectedBucketOwner", "RequestPayer"})
"""Parameters without effect here: the length and the checksum are those of the body, and there is no bill."""


@dataclass(frozen=True)
class Call:
    """One request, understood: the operation, and its parameters by their names in the model."""

    operation: str
    parameters: dict[str, Any]
    streams: bool = False
    """True if its body is content (`Body`), not XML."""


class Answer(NamedTuple):
    """One response but for a body that is content."""

    status: int
    headers: dict[str, str]
    body: bytes = b""


@dataclass(frozen=True)
class _Route:
    name: str
    words: frozenset[str]
    """In the query, and in the headers, of every request that is this operation."""
    headers: frozenset[str]
    value: tuple[str, str] | None
    """A word of the query whose value matters: `list-type=2`."""

    def weight(self, words: frozenset[str], query: Mapping[str, str | None], headers: frozenset[str]) -> int:
        """Return the number of words that name this operation, or -1 if one is missing."""
        if not self.words <= words or not self.headers <= headers:
            return -1
        if self.value is not None and query[self.value[0]] != self.value[1]:
            return -1
        return len(self.words) + len(self.headers)


@functools.cache
def _routes() -> dict[tuple[str, str], tuple[_Route, ...]]:
    """By method and level ("service", "bucket", "object")."""
    routes: dict[tuple[str, str], list[_Route]] = {}
    for name in service_model().operation_names:
        operation = service_model().operation_model(name)
        if operation.deprecated or _NOT_OURS.fullmatch(name):
            continue
        path, _, query = operation.http["requestUri"].partition("?")
        words = {word: value for word, value in parse_qsl(query, keep_blank_values=True) if word != "x-id"}
        valued = next(((word, value) for word, value in words.items() if value), None)
        headers = set()
        shape = operation.input_shape
        for member in shape.required_members:
            where = shape.members[member].serialization
            if where.get("location") == "querystring":
                words[where["name"]] = ""
            elif where.get("location") == "header":
                headers.add(where["name"].lower())
        level = "object" if "{Key" in path else "bucket" if "{Bucket" in path else "service"
        route = _Route(name, frozenset(words), frozenset(headers), valued)
        routes.setdefault((operation.http["method"], level), []).append(route)
    return {place: tuple(found) for place, found in routes.items()}


def operation_of(method: str, level: str, query: Mapping[str, str], headers: Mapping[str, str]) -> str:
    """The name of the operation. A word that names another method's operation is no plain request."""
    values, names = _decisive(method, level)
    named = frozenset(name for name in names if name in headers)
    return _operation_of(method, level, frozenset(query), tuple(map(query.get, values)), named)


@functools.cache
def _decisive(method: str, level: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of the query whose values decide which operation a request is, and the headers that do."""
    routes = _routes().get((method, level), ())
    values = {route.value[0] for route in routes if route.value is not None}
    return tuple(values), tuple(frozenset().union(*(route.headers for route in routes)))


@functools.lru_cache(maxsize=256)
def _operation_of(
    method: str, level: str, words: frozenset[str], values: tuple[str | None, ...], headers: frozenset[str]
) -> str:
    decisive, _ = _decisive(method, level)
    query = dict.fromkeys(words, "") | dict(zip(decisive, values, strict=True))
    routes = _routes().get((method, level), ())
    weighed = [(route.weight(words, query, headers), route) for route in routes]
    best = max(weighed, key=lambda pair: pair[0], default=(-1, None))
    elsewhere = words & _subresources(level)
    if best[1] is None or best[0] < 0 or not elsewhere <= best[1].words:
        raise S3Error("MethodNotAllowed", resource_type=level.upper())
    name = best[1].name
    strange = words & _parameters(method, level) - _parameters_of(name)
    if strange and method != "GET":  # of a part without its number, the object would be overwritten
        raise S3Error(
            "InvalidArgument", "This operation does not accept a query-string.", argument=min(strange)
        )
    return name


@functools.cache
def _parameters_of(name: str) -> frozenset[str]:
    """The words of the query that an operation has, with a value."""
    shape = service_model().operation_model(name).input_shape
    places = [part.serialization for part in shape.members.values()]
    return frozenset(place["name"] for place in places if place.get("location") == "querystring")


@functools.cache
def _parameters(method: str, level: str) -> frozenset[str]:
    return frozenset().union(*(_parameters_of(route.name) for route in _routes().get((method, level), ())))


@functools.cache
def _subresources(level: str) -> frozenset[str]:
    """Return the words without a value in the query of some operation at this level: `tagging`, `uploads`."""
    found = set()
    for name in service_model().operation_names:
        path, _, query = service_model().operation_model(name).http["requestUri"].partition("?")
        if ("{Key" in path) == (level == "object"):
            found |= {word for word, value in parse_qsl(query, keep_blank_values=True) if not value}
    return frozenset(found)


# Requests.


@dataclass(frozen=True)
class _Places:
    """Places of the parameters of an operation: a member of the model and its shape, by the name there."""

    uri: dict[str, str]
    query: dict[str, tuple[str, Any]]
    header: dict[str, tuple[str, Any]]
    headers: dict[str, str]
    """Members by the common start of the names of several headers."""
    streams: bool


@functools.cache
def _places(operation: str) -> _Places:
    shape = service_model().operation_model(operation).input_shape
    places = _Places({}, {}, {}, {}, _payload(shape).get("streaming", False))
    for member, part in shape.members.items():
        where = part.serialization
        match where.get("location"):
            case "uri":
                places.uri[member] = where["name"]
            case "querystring":
                places.query[where["name"]] = member, part
            case "header":
                places.header[where["name"].lower()] = member, part
            case "headers":
                places.headers[where["name"].lower()] = member
    return places


def level_of(bucket: str, key: str) -> str:
    return "object" if key else "bucket" if bucket else "service"


def read(method: str, bucket: str, key: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Call:
    """Return the operation of a request, and its parameters but for those in its body.

    Header names are in lower case.
    """
    name = operation_of(method, level_of(bucket, key), query, headers)
    return Call(name, parameters_of(name, bucket, key, query, headers), streams=_places(name).streams)


def parameters_of(
    operation: str, bucket: str, key: str, query: Mapping[str, str], headers: Mapping[str, str]
) -> dict[str, Any]:
    """Return the parameters of a request, but for those in its body."""
    place = {"Bucket": bucket, "Key": key}
    present = _present(operation, tuple(query), tuple(headers))
    parameters: dict[str, Any] = {member: place[name] for member, name in present.uri}
    for given, known in ((query, present.query), (headers, present.header)):
        for word, member, part in known:
            text = given[word]
            parameters[member] = text if part is None else _scalar(part, text, member)
    for member, names in present.headers:
        parameters[member] = {name: headers[word] for name, word in names}
    return parameters


class _Present(NamedTuple):
    """The parameters of a request with these words in its query and these headers."""

    uri: list[tuple[str, str]]
    query: list[tuple[str, str, Any]]
    """Word, member, and its shape; None for one that is a string."""
    header: list[tuple[str, str, Any]]
    headers: list[tuple[str, list[tuple[str, str]]]]


@functools.lru_cache(maxsize=1024)
def _present(operation: str, words: tuple[str, ...], headers: tuple[str, ...]) -> _Present:
    places = _places(operation)

    def known(names: tuple[str, ...], places: Mapping[str, tuple[str, Any]]) -> list[tuple[str, str, Any]]:
        found = [(name, *places[name]) for name in names if name in places]
        return [(name, member, None if part.type_name == "string" else part) for name, member, part in found]

    prefixed = [
        (member, [(name.removeprefix(start), name) for name in headers if name.startswith(start)])
        for start, member in places.headers.items()
    ]
    return _Present(
        [*places.uri.items()],
        known(words, places.query),
        known(headers, places.header),
        [(member, names) for member, names in prefixed if names],
    )


@functools.cache
def words_of(operation: str) -> frozenset[str]:
    """Return the words of the query that make a request this operation: `uploads`, `list-type`."""
    return next(route.words for routes in _routes().values() for route in routes if route.name == operation)


def member_of(operation: str, name: str) -> str:
    """Return the parameter that a word of the query, or a header, holds; empty if it holds none."""
    places = _places(operation)
    member, _ = places.query.get(name) or places.header.get(name) or ("", None)
    return member


def refuse_unknown(call: Call, known: Iterable[str]) -> None:
    """Raise unless every parameter is one of `known`, or changes nothing."""
    unknown = call.parameters.keys() - {*known} - _DUE_ANYWAY
    if unknown:
        shape = service_model().operation_model(call.operation).input_shape
        name = min(unknown)
        raise S3Error("NotImplemented", header=shape.members[name].serialization.get("name", name))


def read_body(call: Call, body: bytes) -> dict[str, Any]:
    """Return the parameters with those that an XML body holds."""
    shape = service_model().operation_model(call.operation).input_shape
    payload = shape.serialization.get("payload")
    if payload is None or call.streams:
        return call.parameters
    if shape.members[payload].type_name == "string":
        return {**call.parameters, payload: _text(body)}
    if not body:
        if call.operation == "CompleteMultipartUpload":
            raise S3Error("MalformedXML")
        if payload in shape.required_members:
            raise S3Error("MissingRequestBodyError")
        return call.parameters
    return {**call.parameters, payload: parse(shape.members[payload], parse_xml(body))}


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise S3Error("MalformedPolicy") from error


def tagging_header(text: str) -> str:
    """Return the header that means the same tags as an XML document."""
    shape = service_model().operation_model("PutObjectTagging").input_shape
    tags = parse(shape.members["Tagging"], parse_xml(text.encode())).get("TagSet", [])
    return urlencode([(tag["Key"], tag["Value"]) for tag in tags])


def parse_xml(body: bytes) -> ET.Element:
    """Documents with a DOCTYPE are refused: entities can expand without bound. So are those that are not
    UTF-8, where it would be spelled otherwise."""
    try:
        text = body.decode("utf-8-sig")
        if len(body) > XML_BYTES_MAX or "<!DOCTYPE" in text or "<!ENTITY" in text:
            raise ValueError
        return ET.fromstring(text)  # noqa: S314  no document type, so no entities
    except (ET.ParseError, ValueError, LookupError) as error:
        raise S3Error("MalformedXML") from error


def parse(shape: Any, element: ET.Element) -> Any:
    """The value that an element holds, as the model describes it; elements of other names are ignored."""
    if shape.type_name == "structure":
        values: dict[str, Any] = {}
        for member, part in shape.members.items():
            name = part.serialization.get("name", member)
            if part.serialization.get("xmlAttribute"):
                text = element.get(f"{{{elements.INSTANCE}}}{name.partition(':')[2]}")
                if text is not None:
                    values[member] = text
                continue
            if part.type_name == "list" and part.serialization.get("flattened"):
                name = part.serialization.get("name", part.member.serialization.get("name", member))
                found = [parse(part.member, child) for child in element if _local(child) == name]
                if found:
                    values[member] = found
                continue
            child = next((child for child in element if _local(child) == name), None)
            if child is not None:
                values[member] = parse(part, child)
        missing = [name for name in shape.required_members if name not in values]
        if missing:
            raise S3Error("MalformedXML")
        return values
    if shape.type_name == "list":
        return [parse(shape.member, child) for child in element]
    return _scalar(shape, element.text or "", _local(element), code="MalformedXML")


def _local(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _payload(shape: Any) -> Mapping[str, Any]:
    payload = shape.serialization.get("payload")
    found: Mapping[str, Any] = shape.members[payload].serialization if payload else {}
    return found


def _scalar(shape: Any, text: str, name: str, *, code: str = "InvalidArgument") -> Any:
    try:
        match shape.type_name:
            case "integer" | "long":
                number = whole_number(text.strip().removeprefix("-"), 10**18 - 1)
                if number is None:
                    raise ValueError
                return -number if text.strip().startswith("-") else number
            case "boolean":
                return {"true": True, "false": False}[text.strip().lower()]
            case "timestamp":
                return parse_time(text.strip())
            case "list":  # in a header or the query
                return [part.strip() for part in text.split(",") if part.strip()]
            case "blob":
                return base64.b64decode(text, validate=True)
    except (ValueError, KeyError, OverflowError) as error:
        raise S3Error(code, argument=name, value=text) from error
    return text


def parse_time(text: str) -> datetime:
    """In any form that the SDKs write: RFC 822, ISO 8601, seconds since 1970. Raises ValueError."""
    try:
        if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", text):
            return datetime.fromtimestamp(float(text), UTC)
        found = datetime.fromisoformat(text) if text[:1].isdigit() else parsedate_to_datetime(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (OverflowError, OSError) as error:
        raise ValueError(text) from error


# Responses.


@dataclass(frozen=True)
class _Results:
    """Places of the values of a response."""

    status: int
    header: dict[str, str]
    """Member to name."""
    headers: dict[str, str]
    """Member to what the names of several headers start with."""
    shape: Any


@functools.cache
def _results(operation: str) -> _Results:
    described = service_model().operation_model(operation)
    shape = described.output_shape
    parts = {member: part.serialization for member, part in shape.members.items()}
    of: dict[str, dict[str, str]] = {
        location: {
            member: where["name"] for member, where in parts.items() if where.get("location") == location
        }
        for location in ("header", "headers")
    }
    return _Results(described.http.get("responseCode", 200), **of, shape=shape)


def write(operation: str, values: Mapping[str, Any], status: int | None = None) -> Answer:
    """The response to an operation that succeeded. `Body`, if it has one, is the caller's to send."""
    results = _results(operation)
    headers: dict[str, str] = {}
    in_headers = _in_headers(operation, tuple(values))
    for member in in_headers:
        value = values[member]
        if value is None:
            continue
        if member in results.header:
            part = None if type(value) is str else results.shape.members[member]
            headers[results.header[member]] = elements.text_of(part, value, in_header=True)
        else:
            headers |= {f"{results.headers[member]}{name}": text for name, text in value.items()}
    body = b""
    if operation in _TEXTS:
        body = str(values[_TEXTS[operation]]).encode()
        headers["Content-Type"] = "application/json"
    elif operation in ROOTS:
        inside = values
        if in_headers:
            inside = {member: value for member, value in values.items() if member not in in_headers}
        body = _document(operation, results.shape, inside)
        headers["Content-Type"] = "application/xml"
    return Answer(status or _STATUS.get(operation, results.status), headers, body)


@functools.lru_cache(maxsize=1024)
def _in_headers(operation: str, members: tuple[str, ...]) -> tuple[str, ...]:
    """Return the members of a response that its headers hold."""
    results = _results(operation)
    return tuple(member for member in members if member in results.header or member in results.headers)


def _document(operation: str, shape: Any, inside: Mapping[str, Any]) -> bytes:
    payload = shape.serialization.get("payload")
    if payload is not None:
        shape, inside = shape.members[payload], inside.get(payload) or {}
    root = ROOTS[operation]
    if operation == "GetBucketLocation":  # the root is the value
        content = escape(str(inside.get("LocationConstraint") or ""))
    else:
        content = elements.content(shape)(inside)
    return DECLARATION + f'<{root} xmlns="{NAMESPACE}">{content}</{root}>'.encode()
