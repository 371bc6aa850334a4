"""`fencepost proxy`: what makes no sense is one line; the rest is in tests/sim/proxy."""

import socket
from typing import Any

import pytest

from fencepost.commands.exit_codes import Exit
from fencepost.commands.proxy import format_statistics
from fencepost.sim.proxy.statistics import Statistics
from tests.commands.running import exit_of


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (("nowhere",), "upstream 'nowhere' is no address"),
        (("http://h/bucket",), "say only http://host:port"),
        (("http://h", "--latency", "20"), "--latency: '20' is no delay"),
        (("http://h", "--latency", "post=20ms"), "no kind of request is called 'post'"),
        (("http://h", "--reply-lost", "1.5"), "a chance is from 0 to 1"),
        (("http://h", "--reply-lost", "60%", "--late", "60%"), "add up to 1.2"),
        (("http://h", "--late-after", "1s"), "give --late with it"),
        (("http://127.0.0.1:1",), "nobody answers at http://127.0.0.1:1: Connection refused; start"),
        (("http://no-host.invalid",), "nobody answers at http://no-host.invalid:80: "),
    ],
)
def test_what_makes_no_sense_is_one_line(
    words: tuple[str, ...], output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_of("proxy", *words) == Exit.BAD_REQUEST
    err = capsys.readouterr().err
    assert output in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("url", ["http://key:hunter2@h", "http://:hunter2@h/b", "http://key:hunter2@h:port"])
def test_a_secret_in_the_address_is_not_repeated(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_of("proxy", url) == Exit.BAD_REQUEST
    output = capsys.readouterr()
    assert "say http://host:port" in output.err
    assert "hunter2" not in output.err + output.out


def test_a_port_that_is_taken_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = ["proxy", f"http://127.0.0.1:{port}", "--listen", f"127.0.0.1:{port}"]
        assert exit_of(*words) == Exit.BAD_REQUEST
    assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err


def test_statistics_are_reported_by_kind() -> None:
    seen = Statistics()
    seen.fates["put"].update({"200": 1200, "landed, reply lost": 3})
    seen.landed_late["put 200"] = 2
    seen.took(seen.whole_s, "put", 0.0201)
    result: dict[str, Any] = seen.as_json()
    assert format_statistics(result) == [
        "1,203 requests, up to 0 in flight and 0 waiting",
        "  put     1,200 200, 3 landed, reply lost; p50 20.1 ms, p99 20.1 ms",
        "  landed late: put 200: 2",
    ]
