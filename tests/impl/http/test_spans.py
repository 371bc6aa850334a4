"""Spans of requests, as a collector gets them."""

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.http import spans
from fencepost.impl.http.spans import Spans

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@contextlib.contextmanager
def collector(status: int = 200) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """The endpoint of a collector, and what it got."""
    got: list[tuple[str, bytes]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", got
        finally:
            server.shutdown()
            thread.join()


def spans_of(got: list[tuple[str, bytes]]) -> list[dict[str, Any]]:
    return [
        span
        for _, body in got
        for resource in json.loads(body)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def exported(rate: float, headers: list[list[tuple[bytes, bytes]]]) -> list[dict[str, Any]]:
    with collector() as (endpoint, got):
        found = Spans(endpoint, rate, "service", SeededEnvironment())
        for one in headers:
            found.add("PUT", "/bucket/key", 200, 0.25, one)
        found.close()
    return spans_of(got)


def parent(flags: str) -> list[tuple[bytes, bytes]]:
    return [(b"traceparent", f"00-{TRACE}-{PARENT}-{flags}".encode())]


def test_a_span_tells_what_was_answered_and_when() -> None:
    with collector() as (endpoint, got):
        env = SeededEnvironment(start_ns=2 * 10**9)
        found = Spans(f"{endpoint}/otlp/", 1.0, "fencepost-objects", env)
        found.add("PUT", "/bucket/key", 503, 0.25, parent("01"))
        found.close()
    assert [path for path, _ in got] == ["/otlp/v1/traces"]
    (resource,) = json.loads(got[0][1])["resourceSpans"]
    service = {"key": "service.name", "value": {"stringValue": "fencepost-objects"}}
    assert resource["resource"]["attributes"] == [service]
    (span,) = spans_of(got)
    assert (span["traceId"], span["parentSpanId"], len(span["spanId"])) == (TRACE, PARENT, 16)
    assert (span["startTimeUnixNano"], span["endTimeUnixNano"]) == ("1750000000", "2000000000")
    assert (span["name"], span["kind"], span["status"]) == ("PUT", 2, {"code": 2})
    assert {"key": "http.response.status_code", "value": {"intValue": "503"}} in span["attributes"]
    assert {"key": "url.path", "value": {"stringValue": "/bucket/key"}} in span["attributes"]


@pytest.mark.parametrize(("rate", "least", "most"), [(0.0, 0, 0), (0.25, 70, 130), (1.0, 400, 400)])
def test_a_share_of_the_requests_without_a_parent_is_sampled(rate: float, least: int, most: int) -> None:
    assert least <= len(exported(rate, [[]] * 400)) <= most


def test_a_parent_decides_for_its_requests() -> None:
    assert len(exported(0.0, [parent("01")] * 10)) == 10
    assert exported(1.0, [parent("00")] * 10) == []


@pytest.mark.parametrize("text", [b"", b"00-xyz", b"\xff", f"00-{TRACE}-{PARENT}".encode()])
def test_a_parent_that_is_none_is_no_parent(text: bytes) -> None:
    (span,) = exported(1.0, [[(b"traceparent", text)]])
    assert "parentSpanId" not in span


def test_spans_of_two_requests_are_of_two_traces() -> None:
    first, second = exported(1.0, [[], []])
    assert first["traceId"] != second["traceId"]
    assert first["spanId"] != second["spanId"]


def test_what_a_collector_does_not_take_is_lost_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with collector(status=429) as (endpoint, got):
        found = Spans(endpoint, 1.0, "service", SeededEnvironment())
        for _ in range(3):
            found.add("GET", "/", 200, 0.0, [])
        found.close()
        assert len(got) == 1
    assert caplog.messages == ["3 spans are lost: the collector answered 429"]


def test_spans_that_nobody_takes_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """Without the bound, a collector that is down fills the memory of the server."""
    found = Spans("http://127.0.0.1:1", 1.0, "service", SeededEnvironment())
    for _ in range(spans.WAITING_MAX + 7):
        found.add("GET", "/", 200, 0.0, [])
    assert len(found._waiting) <= spans.WAITING_MAX
    found.close()
    assert "the collector cannot be reached" in caplog.text


@pytest.mark.parametrize("endpoint", ["localhost:4318", "ftp://x", "http://", "http://u:p@x", "http://x?a"])
def test_an_endpoint_must_be_a_url(endpoint: str) -> None:
    with pytest.raises(ValueError, match="is no endpoint"):
        Spans(endpoint, 1.0, "service", SeededEnvironment())
