"""Clients, resources and sessions whose requests the world answers.

A client takes tens of milliseconds to make, a run of a small program one. So each configuration of a client
is made once and used in every run, by several processes; handlers that a program registers are removed when
the run ends. Three things inside of a client would carry over: the quota of the standard retry mode, the rate
limiter of the adaptive mode, and the random numbers that spread the waits. Each process gets its own, which a
crash takes away like the rest of its memory.

Clients are configured as the caller wants; where the caller says nothing, requests are not signed and carry
no checksum, which nothing here would verify. Variables of the environment (`AWS_RETRY_MODE`) count as usual,
the files below `~/.aws` do not.
"""

import copy
import os
import sys
from collections.abc import Iterator
from typing import Any

import boto3.session
import botocore.session
from botocore import UNSIGNED
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.endpoint import Endpoint
from botocore.loaders import JSONFileLoader
from botocore.retries import adaptive, bucket, quota, standard, throttling
from botocore.signers import RequestSigner
from botocore.utils import InstanceMetadataFetcher
from s3transfer.utils import signal_not_transferring, signal_transferring

from fencepost.impl.store.errors import Misuse
from fencepost.sim.boto import buckets, calls, moments, serve, sessions, transfers
from fencepost.sim.boto.http import Message
from fencepost.sim.boto.listings import REGION
from fencepost.sim.world import places
from fencepost.sim.world.escapes import escape
from fencepost.sim.world.present import controlled, here, making, memory, outside
from fencepost.sim.world.replacements import stream
from fencepost.sim.world.run import RunState

_DEFAULTS = Config(
    signature_version=UNSIGNED,
    s3={"addressing_style": "path"},
    request_checksum_calculation="when_required",
    response_checksum_validation="when_required",
    # The SDK composes its own anew for every request, which takes a quarter of its time.
    user_agent="fencepost-world",
)


class Session(boto3.session.Session):  # type: ignore[misc]  # boto3 ships no types
    """A session whose clients are the world's."""

    def client(self, service_name: str, region_name: str | None = None, **options: Any) -> Any:
        if service_name != "s3":
            raise Misuse(f"the world answers S3, not {service_name}: hand the code a stand-in for that")
        options = {name: value for name, value in options.items() if value is not None}
        # Credentials make no difference here.
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
    """Equal for requests that get the same client."""
    configured = {} if config is None else config._user_provided_options
    given = {name: value for name, value in options.items() if name != "config"}
    return (repr(sorted(given.items())), repr(sorted(configured.items())))


_CREATED = "request-created.s3"


class _Dead:
    """Takes the place of an endpoint's connections for ever. A request that gets here found no world."""

    def send(self, request: Any) -> Any:
        raise serve.used_after_the_run(request)

    def close(self) -> None:
        """There is nothing to close."""


class _Client:
    """A client, and its handlers as they were when it was made."""

    def __init__(self, client: Any) -> None:
        self.client = client
        client._endpoint.http_session = _Dead()
        events = client.meta.events
        _keep_apart(events)
        home = Message.host(client.meta.endpoint_url)

        def send(request: Any, event_name: str = "", **_: Any) -> Any:
            return serve.answer(request, home, event_name.rpartition(".")[2], calls.attempt())

        # Behind the adaptive mode's handler, which may want to wait first.
        events.register_last("before-send", send)
        # As every transfer does, which costs less where it was done before.
        events.register_first(_CREATED, signal_not_transferring, unique_id="s3upload-not-transferring")
        events.register_last(_CREATED, signal_transferring, unique_id="s3upload-transferring")
        self._emitter = events._emitter
        self._handlers = copy.copy(self._emitter._handlers)
        self._named = dict(self._emitter._unique_id_handlers)
        self._clean = self._emitter._lookup_cache = {}

    def restore(self) -> None:
        """Take away what a program has registered."""
        emitter = self._emitter
        # The SDK makes a new cache at every registration.
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
            core.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=moments.parse)
            core.register("after-call.s3", moments.watch_reply)
            _sessions.append(Session("fencepost", "fencepost", region_name=REGION, botocore_session=core))
    return _sessions[0]


def restore() -> None:
    """A run is over."""
    for client in _clients.values():
        client.restore()


def _enter() -> None:
    """Install the simulated buckets and reset the clients when a world closes, if it does not do so yet."""
    calls.install()
    run = here()
    if run is not None and restore not in run.closing:
        run.at_end(restore)
        buckets.install(run)


# The state of retries, one for every process.


class _Quota:
    """A `RetryQuota` that uses the running process's own, or outside of a world the real one."""

    def __init__(self, real: quota.RetryQuota) -> None:
        self.real = real

    def _mine(self) -> quota.RetryQuota:
        run = here()
        return self.real if run is None else _own(run, self, quota.RetryQuota)

    def acquire(self, amount: int) -> bool:
        return bool(self._mine().acquire(amount))

    def release(self, amount: int) -> None:
        run = here()
        mine = self.real if run is None else memory(run).get(self)
        if mine is not None:  # without one, nothing was taken
            mine.release(amount)

    @property
    def available_capacity(self) -> int:
        return int(self._mine().available_capacity)


class _Limiter:
    """A `ClientRateLimiter` of the adaptive mode that uses the running process's own."""

    def __init__(self, real: adaptive.ClientRateLimiter) -> None:
        self.real = real

    def _mine(self) -> adaptive.ClientRateLimiter:
        run = here()
        return self.real if run is None else _own(run, self, _limiter)

    def on_sending_request(self, request: Any, **kwargs: Any) -> None:
        self._mine().on_sending_request(request, **kwargs)

    def on_receiving_response(self, **kwargs: Any) -> None:
        self._mine().on_receiving_response(**kwargs)


def _own(run: RunState, owner: Any, make: Any) -> Any:
    known = memory(run)
    found = known.get(owner)
    if found is None:
        found = known[owner] = make()
    return found


def _limiter() -> adaptive.ClientRateLimiter:
    """As `adaptive.register_retry_handler` makes it."""
    clock = bucket.Clock()
    return adaptive.ClientRateLimiter(
        rate_adjustor=throttling.CubicCalculator(starting_max_rate=0, start_time=clock.current_time()),
        rate_clocker=adaptive.RateClocker(clock),
        token_bucket=bucket.TokenBucket(max_rate=1, clock=clock),
        throttling_detector=standard.ThrottlingErrorDetector(
            retry_event_adapter=standard.RetryEventAdapter()
        ),
        clock=clock,
    )


def _spread(real: Any) -> Any:
    return lambda: real() if controlled() is None else stream().random()


def _keep_apart(events: Any) -> None:
    """Replace what the retries of one client remember. Does nothing when that was done before."""
    handlers = _handlers(events, "needs-retry.s3.PutObject") + _handlers(events, "before-send.s3.PutObject")
    for handler in handlers:
        owner = getattr(handler, "__self__", None)
        if isinstance(owner, standard.RetryHandler):
            checker = owner._retry_quota
            if not isinstance(checker._quota, _Quota):
                checker._quota = _Quota(checker._quota)
                backoff = owner._retry_policy._retry_backoff
                backoff._random = _spread(backoff._random)
        elif isinstance(owner, adaptive.ClientRateLimiter):
            _stand_for(events, owner)


def _stand_for(events: Any, real: adaptive.ClientRateLimiter) -> None:
    limiter = _Limiter(real)
    events.unregister("before-send", real.on_sending_request)
    events.unregister("needs-retry", real.on_receiving_response)
    events.register("before-send", limiter.on_sending_request)
    events.register("needs-retry", limiter.on_receiving_response)


def _handlers(events: Any, name: str) -> list[Any]:
    emitter = getattr(events, "_emitter", events)
    return list(emitter._handlers.prefix_search(name))


# Clients that the code makes for itself.

_real_client = boto3.session.Session.client
_real_resource = boto3.session.Session.resource
_real_endpoint = Endpoint.__init__
_real_send = Endpoint._send
_real_load = JSONFileLoader.load_file
_real_signer = RequestSigner.get_auth_instance


def _client(self: Any, service_name: str, region_name: str | None = None, *args: Any, **options: Any) -> Any:
    if controlled() is None or isinstance(self, Session) or _is_asynchronous(self):
        return _real_client(self, service_name, region_name, *args, **options)
    if service_name == "s3" and not args:
        _enter()
        return session().client(service_name, region_name or self.region_name, **options)
    with outside():
        return _real_client(self, service_name, region_name, *args, **options)


def _resource(
    self: Any, service_name: str, region_name: str | None = None, *args: Any, **options: Any
) -> Any:
    if controlled() is None or isinstance(self, Session) or _is_asynchronous(self):
        return _real_resource(self, service_name, region_name, *args, **options)
    if service_name != "s3" or args:
        return _real_resource(self, service_name, region_name, *args, **options)
    _enter()
    return session().resource(service_name, region_name or self.region_name, **options)


def _is_asynchronous(made: boto3.session.Session) -> bool:
    """A session of aioboto3, whose clients connect through the loop."""
    return type(made._session).__module__.startswith("aiobotocore.")


def _made(self: Any, *args: Any, **kwargs: Any) -> None:
    """An endpoint made in a world never sends anything, not even after the world has ended."""
    _real_endpoint(self, *args, **kwargs)
    if making() and not type(self).__module__.startswith("aiobotocore."):  # those connect through the loop
        self.http_session = _Dead()


def _send(self: Any, request: Any) -> Any:
    """Of a client that is not the world's: made when a module was loaded, or for another service.

    A client that was used in a world is the world's from then on: a finalizer might use it at any time.
    """
    run = here()
    if run is None or (controlled() is None and not run.collecting):
        return _real_send(self, request)
    self.http_session = _Dead()
    if self._endpoint_prefix != "s3":
        raise escape(f"boto3 for {self._endpoint_prefix}", "the world answers S3: hand the code a stand-in")
    _enter()
    _keep_apart(self._event_emitter)
    return serve.answer(request, Message.host(self.host), "", calls.attempt())


_FAKE = Credentials("fencepost", "fencepost")
"""Credentials that sign requests where the code has none."""


def _no_metadata(self: Any, *_: Any, **__: Any) -> dict[str, Any]:
    """The SDK would fetch credentials from the instance metadata service."""
    return {
        "role_name": "fencepost",
        "access_key": "fencepost",
        "secret_key": "fencepost",
        "token": "fencepost",
        "expiry_time": "2999-01-01T00:00:00Z",
    }


async def _no_metadata_either(self: Any, *given: Any) -> dict[str, Any]:
    return _no_metadata(self, *given)


def _no_loop(real: Any) -> Any:
    def stand_in() -> Any:
        if controlled() is None:
            return real()
        raise escape(
            "fsspec's event loop",
            "it is one for all processes: audit s3fs with --over-http, or call aiobotocore",
            sys._getframe(1),
        )

    return stand_in


_files: dict[str, Any] = {}


def _load_file(self: Any, file_path: str) -> Any:
    """Descriptions of the service, which a client that is made in a run would parse in every run."""
    if controlled() is None:
        return _real_load(self, file_path)
    if file_path not in _files:
        _files[file_path] = _real_load(self, file_path)
    return _files[file_path]


def _signer(self: Any, *args: Any, **options: Any) -> Any:
    """Signatures of clients that were made where there were no credentials."""
    if self._credentials is None and len(args) < 4 and here() is not None:
        options["request_credentials"] = options.get("request_credentials") or _FAKE
    return _real_signer(self, *args, **options)


def _stand_ins() -> Iterator[tuple[Any, str, Any]]:
    yield boto3.session.Session, "client", _client
    yield boto3.session.Session, "resource", _resource
    yield Endpoint, "__init__", _made
    yield Endpoint, "_send", _send
    yield InstanceMetadataFetcher, "retrieve_iam_role_credentials", _no_metadata
    yield RequestSigner, "get_auth_instance", _signer
    yield JSONFileLoader, "load_file", _load_file
    yield from transfers.stand_ins()
    yield from sessions.stand_ins()
    files = sys.modules.get("fsspec.asyn")
    if files is not None:
        yield files, "get_loop", _no_loop(files.get_loop)
    asynchronous = sys.modules.get("aiobotocore.utils")
    if asynchronous is not None:
        fetcher = asynchronous.AioInstanceMetadataFetcher
        yield fetcher, "retrieve_iam_role_credentials", _no_metadata_either


places.sources.append(_stand_ins)
