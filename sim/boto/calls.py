"""Calls of the SDK, remembered: a search repeats the same calls with the same answers in run after run.

Of the time of an audited call, the SDK's own work takes most: it resolves the endpoint, serializes, emits
events, parses. All of that is a function of the client's configuration, the operation and its parameters,
and afterwards of the response. So the first time a call is made in a world, the SDK makes it and is
observed: the request of the store that it leads to is kept, and the result by the reply. The same call then
takes its step at once. With a known reply a new copy of the result is returned, or raised. With an unknown
one the SDK is called after the step, and finds the response to its first attempt waiting. Its
retries run as ever, and no call that took several attempts is remembered.

Not remembered:

- calls of a client that has a handler of the user's, or the adaptive mode of retries, which reads the clock;
- calls while debug logs are on, or while a function of the SDK between call and request is patched;
- parameters that are not plain data: files and streams, times, objects of the user's classes;
- replies that were lost, errors after which the SDK may retry, and responses that depend on more than the
  reply (`_depends`).

Signatures and dates differ between the SDK's requests, and the world reads neither.
"""

import datetime
import logging
from collections.abc import Callable
from functools import partial
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

from botocore.client import BaseClient
from botocore.credentials import Credentials
from botocore.endpoint import Endpoint
from botocore.exceptions import ClientError
from botocore.history import get_global_history_recorder
from botocore.httpchecksum import StreamingChecksumBody
from botocore.response import StreamingBody
from botocore.retries.standard import RetryQuotaChecker
from greenlet import getcurrent

from fencepost.impl.objects.wire.errors import S3Error
from fencepost.impl.store.requests import Outcome
from fencepost.sim.boto import sdk_requests as sdk
from fencepost.sim.boto import serve
from fencepost.sim.boto.buckets import NULL, Buckets
from fencepost.sim.boto.http import raw_of
from fencepost.sim.boto.moments import Headers
from fencepost.sim.world import places, times
from fencepost.sim.world.present import controlled, surely_here
from fencepost.sim.world.run import RunState
from fencepost.sim.world.sizes import Size

CALLS_MAX = 20_000
"""Calls and results that are remembered of one client; beyond that all are forgotten."""
BYTES_MAX = 1 << 16
"""A longer body is not remembered."""

_Key = tuple[Any, ...]
_Make = Callable[[], Any]


class _Unknown(Exception):
    """A value that is not plain data."""


# Parameters.

_PLAIN = frozenset({str, bytes, int, bool, float, type(None)})


def key_of(parameters: dict[str, Any]) -> _Key | None:
    """Return a key that only equal parameters have; None if they are not plain data."""
    values = parameters.values()
    kinds = tuple(map(type, values))
    body = parameters.get("Body")
    if isinstance(body, bytes | str | bytearray) and len(body) > BYTES_MAX:
        return None
    if _PLAIN.issuperset(kinds):
        return (*parameters.items(), kinds)
    try:
        return tuple((name, _frozen(value)) for name, value in parameters.items())
    except _Unknown:
        return None


def _frozen(value: Any) -> _Key:
    kind = type(value)
    if kind in _PLAIN:
        return (kind, value)
    if kind is dict:
        return (kind, tuple((_frozen(name), _frozen(one)) for name, one in value.items()))
    if kind in (list, tuple):
        return (kind, tuple(map(_frozen, value)))
    if kind is bytearray:
        return (kind, bytes(value))
    raise _Unknown


# Results.


def _maker(value: Any) -> _Make | None:
    """Return a function that makes a new copy of a part of a result; None for a value that cannot change."""
    kind = type(value)
    if kind in _PLAIN or kind is datetime.datetime or issubclass(kind, Size):
        return None
    if kind is dict:
        return _maker_of_dict(value)
    if kind is Headers:
        return partial(Headers, dict(zip(value.keys(), dict.values(value), strict=True)))
    if kind is list:
        return partial(
            _list, value.copy(), [(at, make) for at, one in enumerate(value) if (make := _maker(one))]
        )
    if kind is times.Stamp:
        return partial(times.stamp_moment, times.plain(value))
    if kind is StreamingBody:
        return partial(_body, value._raw_stream.getvalue(), value._content_length)
    if kind is StreamingChecksumBody:
        checksum, raw = type(value._checksum), value._raw_stream.getvalue()
        return lambda: StreamingChecksumBody(raw_of(raw), value._content_length, checksum(), value._expected)
    raise _Unknown


def _maker_of_dict(value: dict[str, Any]) -> _Make:
    makers = [(name, make) for name, one in value.items() if (make := _maker(one))]
    return partial(_dict, value.copy(), makers) if makers else value.copy().copy


def _dict(content: dict[str, Any], makers: list[tuple[str, _Make]]) -> dict[str, Any]:
    made = content.copy()
    for name, make in makers:
        made[name] = make()
    return made


def _list(content: list[Any], makers: list[tuple[int, _Make]]) -> list[Any]:
    made = content.copy()
    for at, make in makers:
        made[at] = make()
    return made


def _body(content: bytes, length: Any) -> StreamingBody:
    return StreamingBody(raw_of(content), length)


class _Result:
    """The end of a call: what it returns, or raises."""

    __slots__ = ("_error", "_make", "_operation")

    def __init__(self, response: dict[str, Any], error: type[ClientError] | None, operation: str) -> None:
        self._make = _maker_of_dict(response)
        self._error = error
        self._operation = operation

    def end(self, memo: "_Memo") -> Any:
        if self._error is not None:
            raise self._error(self._make(), self._operation)
        if memo.quota is not None:
            memo.quota.release_retry_quota({}, _SUCCESS)
        return self._make()


_SUCCESS = SimpleNamespace(status_code=200)


class _Call:
    """One call that is remembered, with its results by the reply."""

    __slots__ = ("prepared", "results", "timed")

    def __init__(self, prepared: serve.Prepared) -> None:
        self.prepared = prepared
        self.results: dict[Any, _Result] = {}
        self.timed = type(prepared.request) in (sdk.Copy, sdk.CopyPart)
        """True if its response shows when it landed."""

    def key_of(self, run: RunState, request_id: str, reply: Any) -> Any:
        """Return a key that only equal responses have; None if it must not be remembered."""
        if type(reply) is list:
            if any(one.outcome is Outcome.UNKNOWN for one in reply):
                return None
            reply = tuple(reply)
        elif isinstance(reply, Exception):
            if not isinstance(reply, S3Error):
                return None
            reply = (type(reply), reply.code, reply.message, *reply.details.items(), *reply.headers.items())
        elif reply.outcome is Outcome.UNKNOWN:
            return None
        return (request_id, reply, run.start_ns + run.stamp_ns) if self.timed else (request_id, reply)


def _depends(prepared: serve.Prepared) -> bool:
    """Return True if the response depends on more than the reply, or if making it is a look at the time."""
    parameters, request = prepared.message.parameters, prepared.request
    requests = request if type(request) is list else [request, getattr(request, "source", None)]
    return (
        "IfModifiedSince" in parameters
        or "IfUnmodifiedSince" in parameters
        or any(getattr(one, "version", "") == NULL for one in requests)
    )


# Clients.


class _Memo:
    """The calls of one client that are remembered."""

    def __init__(self, client: Any) -> None:
        self._emitter = getattr(client.meta.events, "_emitter", client.meta.events)
        self._endpoint = client._endpoint
        self._cache: Any = None
        """The SDK's cache of handlers when they were looked at last; every new handler makes another."""
        self._is_pure = False
        self._mocks: list[Any] = []
        """Handlers that moto, once imported, adds to every client. They do nothing until a mock starts."""
        self._sizes = (len(vars(client)), len(vars(client._endpoint)))
        mode = (client.meta.config.retries or {}).get("mode")
        credentials = client._request_signer._credentials
        self._is_plain = (
            client.meta.service_model.service_name == "s3"
            and mode != "adaptive"
            and (credentials is None or type(credentials) is Credentials)
            and client._request_signer._auth_token is None
        )
        self.quota: Any = None
        """In the standard mode of retries: gives back for every success what a retry takes."""
        self.calls: dict[_Key, _Call] = {}
        self._count = 0

    def is_pure(self, client: Any) -> bool:
        """Return True if calls of the client are a function of their parameters."""
        emitter = self._emitter
        if emitter._lookup_cache is not self._cache:
            self._cache = emitter._lookup_cache
            handlers = _handlers(emitter._handlers._root)
            self._mocks = [one for one in handlers if type(one).__module__ == _MOTO]
            self._is_pure = self._is_plain and all(
                map(_is_sdks, (one for one in handlers if one not in self._mocks))
            )
            owners = [getattr(handler, "__self__", None) for handler in handlers]
            self.quota = next((one for one in owners if type(one) is RetryQuotaChecker), None)
        return (
            self._is_pure
            and not any(one.enabled for one in self._mocks)
            and client._endpoint is self._endpoint
            and self._sizes == (len(vars(client)), len(vars(self._endpoint)))
            and _seams() == _SEAMS
            and not _history._enabled
            and not _logger.isEnabledFor(logging.DEBUG)
        )

    def keep(self, call: _Call, key: Any, result: _Result) -> None:
        self._count += 1
        if self._count > CALLS_MAX:
            self.calls.clear()
            self._count = 0
        call.results[key] = result


_MOTO = "moto.core.botocore_stubber"
_memos: WeakKeyDictionary[Any, _Memo] = WeakKeyDictionary()
_history = get_global_history_recorder()
_logger = logging.getLogger("botocore.endpoint")


def _seams() -> tuple[Any, ...]:
    """Return the functions between a call and its request, which tools patch that observe the SDK."""
    return (
        BaseClient._make_request,
        BaseClient._emit_api_params,
        BaseClient._convert_to_request_dict,
        BaseClient._resolve_endpoint_ruleset,
        Endpoint.make_request,
        Endpoint.create_request,
        Endpoint.prepare_request,
        Endpoint._send_request,
        Endpoint._get_response,
        Endpoint._do_get_response,
        Endpoint._needs_retry,
    )


_SEAMS = _seams()


def _handlers(node: dict[str, Any]) -> list[Any]:
    found = [one for values in node["values"] or () for one in values]
    for child in node["children"].values():
        found += _handlers(child)
    return found


def _is_sdks(handler: Any) -> bool:
    """Return True if a handler is the SDK's own, or the world's."""
    if type(handler) is partial:
        return _is_sdks(handler.func)
    if type(handler) is MethodType:
        return _is_sdks(handler.__func__) and _is_of_sdk(type(handler.__self__).__module__)
    return _is_of_sdk(str(handler.__module__ if type(handler) is FunctionType else type(handler).__module__))


def _is_of_sdk(module: str) -> bool:
    # Its stubber answers instead of the world.
    ours = module.startswith("fencepost.sim.boto.")
    return ours or (
        module.partition(".")[0] in ("botocore", "boto3", "s3transfer") and module != "botocore.stub"
    )


# Calls.

_real_call = BaseClient._make_api_call
_attempts: dict[Any, serve.Attempt] = {}
"""By greenlet: the first attempt of the call that it makes."""


def attempt() -> serve.Attempt | None:
    """Return the attempt of the call that runs here, if it is observed."""
    return _attempts.get(getcurrent())


def _call(self: Any, operation_name: str, api_params: Any) -> Any:
    run = controlled()
    if run is None or type(run.bucket) is not Buckets:
        return _real_call(self, operation_name, api_params)
    memo = _memos.get(self)
    if memo is None:
        memo = _memos[self] = _Memo(self)
    key = key_of(api_params) if memo.is_pure(self) else None
    if key is None:
        return _real_call(self, operation_name, api_params)
    key = (operation_name, key)
    call = memo.calls.get(key)
    if call is None:
        return _observed(self, operation_name, api_params, memo, key, serve.Attempt())
    found = serve.send(call.prepared)
    known = call.key_of(run, serve.request_id(run), found.reply)
    result = None if known is None else call.results.get(known)
    if result is not None:
        return result.end(memo)
    return _observed(self, operation_name, api_params, memo, key, serve.Attempt(call.prepared, found))


def _observed(
    client: Any, operation: str, parameters: Any, memo: _Memo, key: _Key, attempt: serve.Attempt
) -> Any:
    """Let the SDK make a call, and remember it."""
    here = getcurrent()
    before = _attempts.get(here)
    _attempts[here] = attempt
    try:
        response = _real_call(client, operation, parameters)
        _learn(memo, key, attempt, response, None, operation)
        return response
    except ClientError as refused:
        _learn(memo, key, attempt, refused.response, type(refused), operation)
        raise
    finally:
        if before is None:
            _attempts.pop(here, None)
        else:
            _attempts[here] = before


def _learn(
    memo: _Memo,
    key: _Key,
    attempt: serve.Attempt,
    response: dict[str, Any],
    error: type[ClientError] | None,
    operation: str,
) -> None:
    """Remember a call that the SDK made, and its result if it took one attempt."""
    if attempt.prepared is None or attempt.found is None or _depends(attempt.prepared):
        return
    call = memo.calls.get(key)
    if call is None:
        call = memo.calls[key] = _Call(attempt.prepared)
    known = call.key_of(surely_here(), attempt.request_id, attempt.found.reply)
    if attempt.count == 1 and known is not None and response["ResponseMetadata"]["HTTPStatusCode"] < 500:
        try:
            result = _Result(response, error, operation)
        except _Unknown:
            return
        memo.keep(call, known, result)


def install() -> None:
    """Have the calls of the SDK remembered, unless the function that makes them was replaced."""
    if BaseClient._make_api_call is _real_call and _is_original:
        BaseClient._make_api_call = _call


def remove() -> None:
    """Restore the SDK's own function."""
    _attempts.clear()
    if BaseClient._make_api_call is _call:
        BaseClient._make_api_call = _real_call


_inner = getattr(_real_call, "__wrapped__", None)
_is_original = (
    type(_real_call) is type(_inner) is FunctionType
    and not hasattr(_inner, "__wrapped__")
    and _inner.__globals__["__name__"] == "botocore.client"
)
"""False if somebody wrapped the function before: what they added would be left out."""
places.removers.append(remove)
