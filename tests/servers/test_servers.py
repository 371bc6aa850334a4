"""The endpoints are what they say: listening, apart from each other, honest or not."""

import contextlib
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import botocore.exceptions
import pytest

from tests.servers.endpoint import Endpoint
from tests.servers.moto_here import Here


def race(act: Callable[[int], Any], width: int) -> list[Any]:
    """`act(0)` to `act(width - 1)`, released together; what each returned."""
    answers: list[Any] = [None] * width
    gate = threading.Barrier(width)

    def run(at: int) -> None:
        gate.wait()
        answers[at] = act(at)

    threads = [threading.Thread(target=run, args=(at,)) for at in range(width)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def creates(endpoint: Endpoint, rounds: int, width: int = 8) -> int:
    """How many rounds of racing create-only puts had other than one winner."""
    bucket = urlsplit(endpoint.bucket()).netloc
    with contextlib.closing(endpoint.client(max_pool_connections=width)) as client:

        def create(key: str) -> bool:
            try:
                client.put_object(Bucket=bucket, Key=key, Body=b"x" * 4096, IfNoneMatch="*")
            except botocore.exceptions.ClientError:
                return False
            return True

        return sum(sum(race(lambda _, k=f"k{n}": create(k), width)) != 1 for n in range(rounds))


def test_honest_moto_has_one_winner_a_round(honest_moto: Here) -> None:
    assert creates(honest_moto, rounds=10) == 0


@pytest.mark.server
def test_honest_moto_process_has_one_winner_a_round(honest_moto_process: Endpoint) -> None:
    assert creates(honest_moto_process, rounds=50) == 0


@pytest.mark.server
def test_lying_moto_lies(lying_moto: Endpoint) -> None:
    """Or everything that is tested against it proves nothing."""
    assert any(creates(lying_moto, rounds=50) for _ in range(6))


@pytest.mark.server
def test_seaweedfs_answers(seaweedfs: Endpoint) -> None:
    assert creates(seaweedfs, rounds=3) == 0


def test_a_lost_reply_was_applied(honest_moto: Here) -> None:
    bucket = urlsplit(honest_moto.bucket()).netloc
    with contextlib.closing(honest_moto.client()) as client:
        honest_moto.lose_reply("PUT")
        with pytest.raises(botocore.exceptions.ConnectionClosedError):
            client.put_object(Bucket=bucket, Key="k", Body=b"v")
        assert client.get_object(Bucket=bucket, Key="k")["ETag"]


def test_an_answer_in_place_is_not_applied(honest_moto: Here) -> None:
    bucket = urlsplit(honest_moto.bucket()).netloc
    with contextlib.closing(honest_moto.client()) as client:
        honest_moto.answer("503 Slow Down", b"<Error><Code>SlowDown</Code></Error>")
        with pytest.raises(botocore.exceptions.ClientError, match="SlowDown"):
            client.put_object(Bucket=bucket, Key="k", Body=b"v")
        with pytest.raises(botocore.exceptions.ClientError, match="NoSuchKey"):
            client.get_object(Bucket=bucket, Key="k")
