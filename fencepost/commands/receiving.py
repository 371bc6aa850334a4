"""Receive notifications of a store: the options of commands that do, and what they run."""

import contextlib
import logging
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

import click

from fencepost.commands.exit_codes import BadRequest
from fencepost.commands.messages import say
from fencepost.commands.operating import bind
from fencepost.commands.values import Address, AddressType
from fencepost.impl.http.tokens import TOKEN_CHARACTERS_MIN

if TYPE_CHECKING:
    from fencepost.impl.notifications.receiving import Receiver

QUEUES = "Receive notifications: sqs://QUEUE?endpoint=URL&region=REGION, or `http` (see --receive)"
LOG = "log"
"""The source that is the change log of an object server."""
_SOURCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")

Sources = dict[str, SplitResult | None]
"""By name, the URL of a queue, None for a source that sends requests."""


def events_options(text: str = f"{QUEUES}.") -> tuple[Callable[[Any], Any], ...]:
    return (
        click.option("--events", multiple=True, metavar="NAME=SOURCE", help=text),
        click.option(
            "--receive",
            type=AddressType(),
            metavar="HOST:PORT",
            help="Where stores POST notifications, at /NAME; port 0 takes a free one.",
        ),
        click.option(
            "--receive-token-file", metavar="FILE", help="Holds the token that these requests have."
        ),
    )


def sources_of(
    events: tuple[str, ...], receive: Address | None, token_file: str | None, *, with_log: bool = False
) -> tuple[Sources, str]:
    """The sources that send notifications, and the name of the one that is a log, if there is one."""
    found: Sources = {}
    log = ""
    forms = "NAME=sqs://QUEUE, NAME=http or NAME=log" if with_log else "NAME=sqs://QUEUE or NAME=http"
    for text in events:
        name, equals, source = text.partition("=")
        url = None if source == "http" else urlsplit(source)
        if not equals or not _SOURCE.fullmatch(name) or name in (*found, log):
            raise BadRequest(f"{text!r} is no source of its own name; write {forms}")
        if with_log and source == LOG:
            if log:
                raise BadRequest(f"{text!r}: the store has one log, which {log} is; leave one of them out")
            log = name
            continue
        if url is not None and (url.scheme != "sqs" or not url.netloc or url.path.strip("/")):
            raise BadRequest(f"{source!r} is no queue; write sqs://QUEUE?endpoint=URL&region=REGION")
        found[name] = url
    if (None in found.values()) != (receive is not None) or (receive is None) != (token_file is None):
        raise BadRequest("--events NAME=http, --receive and --receive-token-file go together")
    return found, log


@contextlib.contextmanager
def receiving(
    sources: Sources,
    receivers: Mapping[str, "Receiver"],
    log: logging.Logger,
    verify: Callable[[], None],
    address: Address | None,
    token_file: str | None,
) -> Iterator[None]:
    """Receive until the end of the block."""
    from fencepost.impl.notifications.receiving import NotificationServer, Polling, queue_at

    with contextlib.ExitStack() as stack:
        for name, url in sources.items():
            if url is not None:
                polling = Polling(receivers[name], queue_at(url), log)
                stack.enter_context(contextlib.closing(polling))
        if address is not None:
            ours = {name: receivers[name] for name, url in sources.items() if url is None}
            service = NotificationServer(ours, read_token(token_file), verify)
            stack.enter_context(served(service, address, "receiving at"))
        yield


def receive_waiting(sources: Sources, receivers: Mapping[str, "Receiver"], log: logging.Logger) -> int:
    """Take what the queues have now; returns how many messages that were."""
    from fencepost.impl.notifications.receiving import queue_at, receive_once

    count = 0
    for name, url in sources.items():
        if url is not None:
            with contextlib.closing(queue_at(url)) as queue:
                while taken := receive_once(receivers[name], queue, log, 1):
                    count += taken
    return count


def read_token(file: str | None) -> str:
    """The token in a file; empty without one."""
    if file is None:
        return ""
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise BadRequest(f"cannot read {file}: {error.strerror}") from None
    token = data.decode(errors="replace").strip()
    if len(token) < TOKEN_CHARACTERS_MIN:
        raise BadRequest(
            f"{file} has a token of fewer than {TOKEN_CHARACTERS_MIN} characters; use a longer one"
        )
    return token


@contextlib.contextmanager
def served(service: Any, address: Address, what: str) -> Iterator[None]:
    """Serve in a thread, until the end of the block."""
    from fencepost.impl.http.server import Server

    with contextlib.closing(bind(address)) as bound:
        server = Server(service, on_listening=lambda url: say(f"{what} {url}"))
        thread = threading.Thread(target=server.run, args=([bound],), name="page", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.stop()
            thread.join()
            service.close()
