"""The fixture `s3_server`: a server for each test, in a process that ends with the session."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
TESTS = """
import os
import pytest

@pytest.mark.parametrize("number", range(3))
def test_the_server_is_empty(s3_server, number):
    s3 = s3_server.client()
    assert s3.list_buckets()["Buckets"] == []
    s3.create_bucket(Bucket="data")
    s3.put_object(Bucket="data", Key="k", Body=b"%d" % number, IfNoneMatch="*")
    assert s3.get_object(Bucket="data", Key="k")["Body"].read() == b"%d" % number

def test_other_clients_find_it_in_the_environment(s3_server, monkeypatch):
    import boto3

    for name, value in s3_server.environ.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3").create_bucket(Bucket="data")
    assert [one.name for one in s3_server.resource().buckets.all()] == ["data"]

def test_requests_fail_as_the_test_says(s3_server):
    s3 = s3_server.client()
    s3.create_bucket(Bucket="data")
    s3_server.fail({"effect": "reply_lost", "operation": "put", "keys": "m/*", "first": 2, "count": 1})
    s3.put_object(Bucket="data", Key="m/1", IfNoneMatch="*")
    with pytest.raises(s3.exceptions.ClientError) as raised:
        s3.put_object(Bucket="data", Key="m/2", IfNoneMatch="*")  # the SDK sends it again
    assert raised.value.response["Error"]["Code"] == "PreconditionFailed"
    assert [one["key"] for one in s3_server.struck] == ["m/2"]
    with pytest.raises(ValueError, match="fault 1: effect = 'no'"):
        s3_server.fail({"effect": "no"})

def test_the_server_answers_as_another_store(s3_server):
    s3 = s3_server.client()
    s3.create_bucket(Bucket="data")
    s3_server.answer_as("b2")
    with pytest.raises(s3.exceptions.ClientError, match="NotImplemented"):
        s3.put_object(Bucket="data", Key="k", IfNoneMatch="*")
    s3_server.answer_as()
    s3.put_object(Bucket="data", Key="k", IfNoneMatch="*")

def test_the_process_is_a_child(_s3_servers):
    print("child", _s3_servers._process.pid)
"""


@pytest.mark.server
def test_every_test_has_a_server_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-s", "-n", "0")
    result.assert_outcomes(passed=7)
    child = next(line.split()[-1] for line in result.outlines if "child " in line).rstrip(".")
    assert not Path(f"/proc/{child}").exists()


@pytest.mark.server
def test_a_server_that_cannot_start_says_why(pytester: pytest.Pytester) -> None:
    """More text on standard error than a pipe holds does not stop the server; its last line is the reason."""
    pytester.makeconftest(
        """
        import sys
        from fencepost import pytest_plugin
        noise = "import sys; sys.stderr.write('x' * 400_000 + chr(10)); sys.exit('the disk is missing')"
        real = pytest_plugin.subprocess.Popen
        pytest_plugin.subprocess.Popen = lambda _, **kwargs: real([sys.executable, "-c", noise], **kwargs)
        """
    )
    pytester.makepyfile("def test_it(s3_server): pass")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-n", "0")
    result.stdout.fnmatch_lines(["*the S3 server ended: the disk is missing"])


@pytest.mark.server
def test_the_process_ends_with_its_parent(tmp_path: Path) -> None:
    code = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-m', 'fencepost.impl.objects.temporary', sys.argv[1]],"
        " stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)\n"
        "child.stdin.write('start\\n'); child.stdin.flush()\n"
        "print(child.pid, child.stdout.readline(), flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    pid, address, *_ = ran.stdout.split()
    assert address.startswith("http://127.0.0.1:")
    wait_for(lambda: not Path(f"/proc/{pid}").exists())
    assert [*tmp_path.iterdir()] == []


def wait_for(condition: Callable[[], bool]) -> None:
    import time

    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)
