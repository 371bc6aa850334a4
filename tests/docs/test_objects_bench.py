"""The table of servers says what one of them could not do."""

import http.server
import threading
from collections.abc import Iterator

import pytest

from bench.objects import Client, Missing, Target, headline, is_whole

FOUND = {
    "workers": 2,
    "fencepost": {"LIST x1": 5.0, "PUT x1": 7.0},
    "s3rver": {"LIST x1": "32 of 32 requests failed: GET answered 500", "PUT x1": 9.0},
    "rclone": {"not measured": "rclone is not installed"},
}


def test_a_row_that_a_peer_cannot_do_says_why() -> None:
    rows = dict(headline(FOUND))
    assert rows["LIST x1, a second; 2 workers, durable"] == (
        "5.0, s3rver none (32 of 32 requests failed: GET answered 500)"
    )
    assert rows["rclone"] == "not measured: rclone is not installed"


@pytest.mark.parametrize(
    "found", [{"PUT x1": "1 of 9 requests failed"}, {"not measured": "it did not start"}]
)
def test_a_run_without_all_our_rows_is_no_success(found: dict[str, str]) -> None:
    assert not is_whole(found)
    assert is_whole({"PUT x1": 1.0})


@pytest.fixture
def address() -> Iterator[str]:
    """Of a server that closes every connection without an answer."""

    class Silent(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.close_connection = True

    with http.server.HTTPServer(("127.0.0.1", 0), Silent) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_connection_that_ends_is_a_request_that_failed(address: str) -> None:
    """A thread that dies of it would leave the rate as if all had been answered."""
    client = Client(Target(address, "key", "secret"))
    with pytest.raises(Missing, match="2 of 2 requests failed"):
        client.rate("GET", ["/one", "/two"], None, 1)
