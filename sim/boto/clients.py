"""Clients, resources and sessions whose requests the world answers.

A client takes tens of milliseconds to make, a run of a small program one. So clients are made once for
each way of asking for them and used in every run: what a client remembers of its retries is kept apart
(see `retries`), handlers that a program registers are taken away when the run ends.

They are set up as the caller says; where the caller says nothing, requests are not signed and carry no
checksum, which nobody here would look at. Variables of the environment (`AWS_RETRY_MODE`) count as
usual, the files below `~/.aws` do not.
"""

import copy
import functools
import os
from collections.abc import Iterator
from typing import Any

import boto3.session
import botocore.session
from botocore import UNSIGNED
from botocore.config import Config
from botocore.endpoint import Endpoint
from botocore.utils import parse_timestamp
from s3transfer.futures import NonThreadedExecutor
from s3transfer.manager import TransferManager

from fencepost.impl.store.errors import Misuse
from fencepost.sim.boto import patches, retries, serve
from fencepost.sim.boto.escapes import escape
from fencepost.sim.boto.listings import REGION
from fencepost.sim.boto.present import controlled, here, outside
from fencepost.sim.boto.wire import Message

_DEFAULTS = Config(
    signature_version=UNSIGNED,
    s3={"addressing_style": "path"},
    request_checksum_calculation="when_required",
    response_checksum_validation="when_required",
    # The SDK composes its own anew for every request, which takes a quarter of its time.
    user_agent="fencepost-world",
)


class Session(boto3.session.Session):
    """A session whose clients are the world's."""

    def client(self, service_name: str, region_name: str | None = None, **options: Any) -> Any:
        if service_name != "s3":
            raise Misuse(f"the world answers S3, not {service_name}: hand the code a stand-in for that")
        options = {name: value for name, value in options.items() if value is not None}
        # Who asks makes no difference here.
        options = {name: value for name, value in options.items() if not name.startswith("aws_")}
        options["region_name"] = region_name or self.region_name or REGION
        config = options.pop("config", None)
        key = _key(options, config)
        if key not in _clients:
            with outside():
                config = _DEFAULTS.merge(config) if config is not None else _DEFAULTS
                _clients[key] = _Client(super().client(service_name, config=config, **options))
        return _clients[key].client

    def resource(self, service_name: str, region_name: str | None = None, **options: Any) -> Any:
        key = (
            "resource",
            service_name,
            *_key({**options, "region_name": region_name}, options.get("config")),
        )
        if key not in _resources:
            _resources[key] = super().resource(service_name, region_name, **options)
        return _resources[key]


def _key(options: dict[str, Any], config: Any) -> tuple[Any, ...]:
    """What two ways of asking for a client have in common when they get the same."""
    said = {} if config is None else config._user_provided_options
    asked = {name: value for name, value in options.items() if name != "config"}
    return (repr(sorted(asked.items())), repr(sorted(said.items())))


class _Client:
    """A client, and its handlers as they were when it was made."""

    def __init__(self, client: Any) -> None:
        self.client = client
        events = client.meta.events
        retries.keep_apart(events)
        home = Message.host(client.meta.endpoint_url)

        def send(request: Any, event_name: str = "", **_: Any) -> Any:
            return serve.answer(request, home, event_name.rpartition(".")[2])

        # Behind the adaptive mode's handler, which may want to wait first.
        events.register_last("before-send", send)
        self._emitter = events._emitter
        self._handlers = copy.copy(self._emitter._handlers)
        self._named = dict(self._emitter._unique_id_handlers)
        self._clean = self._emitter._lookup_cache = {}

    def restore(self) -> None:
        """Take away what a program has registered."""
        emitter = self._emitter
        # The SDK makes a new cache whenever somebody registers.
        if emitter._lookup_cache is not self._clean:
            emitter._handlers = copy.copy(self._handlers)
            emitter._unique_id_handlers = dict(self._named)
            self._clean = emitter._lookup_cache = {}


_clients: dict[Any, _Client] = {}
_resources: dict[Any, Any] = {}
_sessions: list[Session] = []


def session() -> Session:
    """The one session that all worlds share."""
    if not _sessions:
        with outside():
            core = botocore.session.Session(session_vars={"profile": (None, None, None, None)})
            for name in ("config_file", "credentials_file"):
                core.set_config_variable(name, os.devnull)
            core.get_component("response_parser_factory").set_parser_defaults(
                timestamp_parser=functools.lru_cache(4096)(parse_timestamp)
            )
            _sessions.append(Session("fencepost", "fencepost", region_name=REGION, botocore_session=core))
    return _sessions[0]


def restore() -> None:
    """A run is over."""
    for client in _clients.values():
        client.restore()


# Where code makes its own.

_real_client = boto3.session.Session.client
_real_resource = boto3.session.Session.resource
_real_send = Endpoint._send
_real_manager = TransferManager.__init__


def _client(self: Any, service_name: str, region_name: str | None = None, *args: Any, **options: Any) -> Any:
    if controlled() is None or isinstance(self, Session):
        return _real_client(self, service_name, region_name, *args, **options)
    if service_name == "s3" and not args:
        return session().client(service_name, region_name or self.region_name, **options)
    with outside():
        return _real_client(self, service_name, region_name, *args, **options)


def _resource(
    self: Any, service_name: str, region_name: str | None = None, *args: Any, **options: Any
) -> Any:
    if controlled() is None or isinstance(self, Session) or service_name != "s3" or args:
        return _real_resource(self, service_name, region_name, *args, **options)
    return session().resource(service_name, region_name or self.region_name, **options)


def _send(self: Any, request: Any) -> Any:
    """Of a client that is not the world's: made when a module was loaded, or for another service."""
    if controlled() is None:
        return _real_send(self, request)
    if self._endpoint_prefix != "s3":
        raise escape(f"boto3 for {self._endpoint_prefix}", "the world answers S3: hand the code a stand-in")
    retries.keep_apart(self._event_emitter)
    return serve.answer(request, Message.host(self.host), "")


def _manager(
    self: Any, client: Any, config: Any = None, osutil: Any = None, executor_cls: Any = None
) -> None:
    """Transfers without threads, as `TransferConfig(use_threads=False)` has them."""
    if executor_cls is None and here() is not None:
        executor_cls = NonThreadedExecutor
    _real_manager(self, client, config, osutil, executor_cls)


def stand_ins() -> Iterator[tuple[Any, str, Any]]:
    yield boto3.session.Session, "client", _client
    yield boto3.session.Session, "resource", _resource
    yield Endpoint, "_send", _send
    yield TransferManager, "__init__", _manager


patches.sources.append(stand_ins)
