"""Logs of others: what they show becomes events, and no order is claimed that they do not show."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.impl.store.events import Event
from fencepost.sim.trace import Problem, TraceError, events_of
from fencepost.sim.trace.foreign import read_foreign
from tests.commands.running import exit_of

CLOUDTRAIL = {
    "eventTime": "2026-11-20T04:00:01Z",
    "eventSource": "s3.amazonaws.com",
    "eventName": "PutObject",
    "sourceIPAddress": "192.0.2.1",
    "userIdentity": {"arn": "arn:aws:iam::1:user/ann"},
    "requestParameters": {"bucketName": "b", "key": "claims/1", "Host": "b.s3.amazonaws.com"},
    "responseElements": {"x-amz-version-id": "v1"},
}
MINIO = {
    "time": "2026-11-20T04:00:01.500000000Z",
    "api": {
        "name": "PutObject",
        "bucket": "b",
        "object": "claims/1",
        "statusCode": 200,
        "timeToResponse": "2000000ns",
    },
    "remotehost": "192.0.2.1",
    "accessKey": "ann",
    "requestHeader": {"If-None-Match": "*", "Authorization": "AWS4-HMAC-SHA256 Signature=feed"},
    "responseHeader": {"ETag": '"e1"'},
}


def span(name: str, begin_s: float, end_s: float, **attributes: Any) -> dict[str, Any]:
    words = {"rpc.service": "S3", "rpc.method": name, "aws.s3.bucket": "b", "aws.s3.key": "claims/1"}
    given = [{"key": key.replace("__", "."), "value": {"stringValue": value}} for key, value in
             {**words, **attributes}.items()]  # fmt: skip
    begin, end = (str(int(1e9 * at)) for at in (begin_s, end_s))
    return {"name": f"S3.{name}", "startTimeUnixNano": begin, "endTimeUnixNano": end, "attributes": given}


def otel(*spans: dict[str, Any], process: str = "ann") -> dict[str, Any]:
    resource = {"attributes": [{"key": "service.instance.id", "value": {"stringValue": process}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": list(spans)}]}]}


ACCESS = {
    "schema_version_id": "V_1_0",
    "bucket_name": "b",
    "request_time": "2026-11-20T04:00:01.250Z",
    "remote_ip": "192.0.2.1",
    "requester": "ann",
    "operation": "REST.PUT.OBJECT",
    "key_name": "claims/1",
    "http_status": 412,
    "error_code": "PreconditionFailed",
}


def read(tmp_path: Path, name: str, *documents: Any) -> list[Event]:
    path = tmp_path / "log.json"
    path.write_text("\n".join(map(json.dumps, documents)))
    problems: list[Problem] = []
    found = events_of(read_foreign([path], name, problems.append))
    assert problems == []
    return found


def test_a_data_event_of_cloudtrail(tmp_path: Path) -> None:
    """It has seconds and no duration: no request of it is before another that came minutes later."""
    for documents in ([CLOUDTRAIL], [{"Records": [CLOUDTRAIL, {"eventSource": "kms.amazonaws.com"}]}]):
        request, response = read(tmp_path, "cloudtrail", *documents)
        assert (request.run, request.kind, request.key, request.process) == (
            "b", "put", "claims/1", "arn:aws:iam::1:user/ann@192.0.2.1",
        )  # fmt: skip
        assert (response.outcome, response.version, response.etag) == ("done", "v1", "")
        assert response.t_ns - request.t_ns > 60 * 10**9
    refused = {**CLOUDTRAIL, "errorCode": "PreconditionFailed"}
    assert read(tmp_path, "cloudtrail", refused)[1].outcome == "exists"


def test_an_audit_record_of_minio_has_conditions_and_etags(tmp_path: Path) -> None:
    request, response = read(tmp_path, "minio-audit", MINIO)
    assert (request.condition, response.outcome, response.etag) == ("absent", "done", "e1")
    assert request.process == "ann@192.0.2.1"
    assert response.t_ns - request.t_ns > 4_000_000
    assert "feed" not in str([request, response])


def test_spans_are_requests_where_they_carry_enough(tmp_path: Path) -> None:
    done = {"http.response.status_code": "200", "http.response.header.etag": '"e1"'}
    conditional = {"http.request.header.if-none-match": "*"}
    lost = span("PutObject", 3, 4)
    lost["status"] = {"code": 2}
    found = read(tmp_path, "otel", otel(span("PutObject", 1, 2, **done, **conditional), lost))
    first, second = (one for one in found if one.phase == "response")
    assert (first.outcome, first.etag, second.outcome) == ("done", "e1", "unknown")
    assert found[0].condition == "absent"
    assert {one.process for one in found} == {"ann"}


def test_access_logs_as_json_and_as_parquet(tmp_path: Path) -> None:
    found = read(tmp_path, "access-json", ACCESS)
    assert [(one.phase, one.outcome) for one in found] == [("request", ""), ("response", "exists")]
    assert found == read(tmp_path, "access-json", {"timestamp": 1, "message": json.dumps(ACCESS)})
    path = tmp_path / "log.parquet"
    pq.write_table(pa.Table.from_pylist([{**ACCESS, "total_time": 7}]), path)
    assert len(read_foreign([path], "access-json", print)) == 2


def test_a_delete_of_many_keys_that_are_not_logged_is_a_gap(tmp_path: Path) -> None:
    """Without it the objects would seem lost to the next reader."""
    etag = {"http.response.status_code": "200", "http.response.header.etag": '"e1"'}
    gone = span("GetObject", 5, 6, **{"http.response.status_code": "404", "error.type": "NoSuchKey"})
    deleted = span("DeleteObjects", 3, 4, **{"http.response.status_code": "200"})
    path = tmp_path / "log.json"
    verdicts = []
    for spans in ([deleted], []):
        path.write_text(json.dumps(otel(span("PutObject", 1, 2, **etag), *spans, gone)))
        exit_of(
            "replay", str(path), "--from", "otel", "--all-writers", "--json", str(tmp_path / "found.json")
        )
        verdicts.append(json.loads((tmp_path / "found.json").read_text())["verdict"])
    assert verdicts == ["undecided", "violated"]
    trail = {**CLOUDTRAIL, "eventName": "DeleteObjects", "requestParameters": {"bucketName": "b"}}
    assert [one.kind for one in read(tmp_path, "cloudtrail", trail)] == ["gap"]


def test_clients_have_counters_of_their_own(tmp_path: Path) -> None:
    """So the clocks of two programs order nothing between them."""
    other = json.loads(json.dumps(MINIO).replace("ann", "bob"))
    assert sorted(one.seq for one in read(tmp_path, "minio-audit", MINIO, other)) == [0, 0, 1, 1]


def test_records_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    lines = [json.dumps(MINIO), "{", '{"api": 7}', "[]", json.dumps({**MINIO, "time": "soon"})]
    path.write_text("\n".join(lines))
    problems: list[Problem] = []
    assert len(read_foreign([path], "minio-audit", problems.append)) == 2
    assert sum(problem.lines for problem in problems) == 3
    with pytest.raises(TraceError, match="is an S3 request"):
        read_foreign([path], "otel", problems.append)


def test_replay_takes_them(tmp_path: Path) -> None:
    """A create that was answered twice contradicts itself, whatever the clocks."""
    path = tmp_path / "audit.json"
    later = {**MINIO, "time": "2026-11-20T04:00:09.5Z", "responseHeader": {"ETag": '"e2"'}}
    path.write_text("\n".join(map(json.dumps, (MINIO, later))))
    assert exit_of("replay", str(path), "--from", "minio-audit") == 1
    path.write_text(json.dumps(MINIO))
    assert exit_of("replay", str(path), "--from", "minio-audit") == 0
    layout = tmp_path / "mine.toml"
    layout.write_text("[promises]\ncreated_once = ['claims/.*']\n")
    assert exit_of("replay", str(path), "--from", "minio-audit", "--layout", str(layout)) == 0
    assert (
        exit_of("replay", str(path), "--from", "minio-audit", "--layout", str(layout), "--model", "publish")
        == 2
    )
