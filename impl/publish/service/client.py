"""A catalog through a server: the calls of `Catalog`, with the server's address in place of a store's URL.

    with Catalog.open("http://127.0.0.1:8490", author="ann") as catalog:
        catalog.write(lambda txn: txn.append("order", [{"nr": "a1"}]))

Several places may be given, in the order in which they are tried: servers of one catalog, and as the last
one perhaps its store, where this process then commits by a handle of its own. Each change has a request id,
so it is committed once, wherever it arrives and however often it is sent.

Reading sends what a reader of the store sends, so snapshots are checked against the same digests. A change
that has read nothing depends on nothing: the server puts it behind all others, whatever they wrote. Branches,
merges and maintenance need the store itself.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from fencepost.impl.environment import Environment, SystemEnvironment
from fencepost.impl.http.numbers import whole_number
from fencepost.impl.publish import errors
from fencepost.impl.publish.cache import TableReader
from fencepost.impl.publish.catalog import Catalog, Transaction
from fencepost.impl.publish.commit import Published, Unknown
from fencepost.impl.publish.context import MAIN, BranchContext, Handle, Mode
from fencepost.impl.publish.documents import Manifest
from fencepost.impl.publish.errors import Invalid, PublishError, StaleView, StoreUnavailable
from fencepost.impl.publish.pace import WAIT_S, Pace
from fencepost.impl.publish.planner import Draft
from fencepost.impl.publish.pressure import Pressure
from fencepost.impl.publish.requests import Request
from fencepost.impl.publish.safeguards import STANDARD
from fencepost.impl.publish.service import wire
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Get, GetReply, List, ListReply, ObjectInfo, Outcome, R
from fencepost.impl.store.requests import Request as StoreRequest
from fencepost.impl.store.urls import open_store, without_user

CONNECT_S = 5.0
ANSWER_S = 30.0
"""Seconds for one answer."""
ORDER_S = 20.0
"""Seconds for which a server attempts an order before it answers that it is undecided."""
RETRY_AFTER_S_MAX = 30.0
"""The longest `Retry-After` that a client honours."""
_PLACES = ("http://", "https://")


class _Unanswered(Exception):
    """No answer, or one that decides nothing."""

    def __init__(self, text: str, *, sent: bool, retry_after_s: float = 0.0) -> None:
        super().__init__(text)
        self.sent = sent
        """The server may have received the request."""
        self.retry_after_s = retry_after_s


class Server:
    """One server's address, and its answers."""

    def __init__(self, url: str, client: httpx.Client, token: str) -> None:
        try:
            parts = urlsplit(url)
        except ValueError:
            parts = urlsplit("")
        if (
            not url.startswith(_PLACES)
            or not parts.hostname
            or parts.username
            or parts.query
            or parts.fragment
        ):
            raise Invalid(f"{without_user(url)} is no address of a server; write http://host:port")
        self.url = url.rstrip("/")
        self._client = client
        self._headers = {"authorization": f"Bearer {token}"} if token else {}

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """The answer, unless it decides nothing."""
        try:
            answer = self._client.request(method, f"{self.url}{path}", headers=self._headers, **more)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise _Unanswered(f"{self.url} cannot be reached ({error})", sent=False) from None
        except httpx.HTTPError as error:
            raise _Unanswered(f"{self.url} did not answer ({type(error).__name__})", sent=True) from None
        if answer.status_code in (408, 429) or answer.status_code >= 500:
            kind, message, _ = _refusal(answer)
            if kind != "damaged":
                after = float(whole_number(answer.headers.get("retry-after", ""), 99_999) or 0)
                text = f"{self.url} answered {answer.status_code} {kind}: {message}"
                raise _Unanswered(text, sent=kind == "undecided", retry_after_s=after)
        return answer


def _refusal(answer: httpx.Response) -> tuple[str, str, dict[str, Any]]:
    try:
        found = answer.json()
    except ValueError:
        found = None
    fields = found if isinstance(found, dict) else {}
    return str(fields.get("error", "")), str(fields.get("message", answer.text[:200])), fields


def _error(answer: httpx.Response) -> PublishError:
    """The error that the server's handle raised, or what is wrong with the request."""
    kind, message, fields = _refusal(answer)
    if kind in ("unauthenticated", "forbidden"):
        return Invalid(f"{message}; give a token that allows it")
    made = getattr(errors, str(fields.get("type", "")), None)
    if made is errors.Dangling:
        table, column = (str(fields.get(name, "")) for name in ("table", "column"))
        return errors.Dangling(message, table=table, column=column, value=fields.get("value"))
    if made is errors.Conflicted or not (isinstance(made, type) and issubclass(made, PublishError)):
        return Invalid(message or f"the server answered {answer.status_code}")
    return made(message)


class ServedStore(Store):
    """Reads the objects of a catalog: from the servers in turn, then from the store, if that is known."""

    def __init__(
        self, servers: Sequence[Server], fallback: Store | None, env: Environment, wait_s: float
    ) -> None:
        self.url = servers[0].url
        self.env = env
        self._servers = servers
        self._fallback = fallback
        self._wait_s = wait_s

    def send(self, request: StoreRequest[R]) -> R:
        """The reply of the first that answers. A server that is started again is waited for."""
        pace = Pace(self.env, self._wait_s)
        while True:
            try:
                return self._send(request)
            except _Unanswered as error:
                if not pace.pause():
                    raise StoreUnavailable(f"{error}; start it, or name another one") from None

    def _send(self, request: StoreRequest[R]) -> R:
        reply: Any
        unanswered = None
        for server in self._servers:
            try:
                if isinstance(request, Get):
                    reply = self._get(server, request)
                elif isinstance(request, List):
                    reply = self._list(server, request)
                else:
                    raise Invalid("a server takes commits only: open the store itself for this")
            except _Unanswered as error:
                unanswered = error
                continue
            answered: R = reply
            return answered
        if self._fallback is not None:
            return self._fallback.send(request)
        assert unanswered is not None, "there is at least one server"
        raise unanswered

    def verify(self) -> None:
        """A server that does not answer is found by the first request."""

    def _get(self, server: Server, request: Get) -> GetReply:
        body, start = b"", request.start
        while True:
            params = {"start": start} | ({} if request.stop is None else {"stop": request.stop})
            answer = server.ask("GET", f"/v1/objects/{quote(request.key)}", params=params)
            if answer.status_code == 404:
                return request.ends(Outcome.MISSING)
            _check(answer)
            body += answer.content
            start += len(answer.content)
            size = int(answer.headers["x-object-size"])
            if not answer.content or start >= min(size, size if request.stop is None else request.stop):
                info = ObjectInfo(request.key, answer.headers["x-object-etag"], size, 0)
                return GetReply(Outcome.DONE, body=body, info=info)

    def _list(self, server: Server, request: List) -> ListReply:
        names = ("prefix", "after", "delimiter", "limit", "token")
        answer = server.ask("GET", "/v1/keys", params={name: getattr(request, name) for name in names})
        _check(answer)
        found = answer.json()
        objects = tuple(ObjectInfo(**one) for one in found["objects"])
        return ListReply(Outcome.DONE, objects=objects, prefixes=tuple(found["prefixes"]), next=found["next"])


def _check(answer: httpx.Response) -> None:
    if answer.status_code != 200:
        raise _error(answer)


class ServedCatalog(Catalog):
    """See the top of this module."""

    def __init__(
        self, handle: Handle, servers: Sequence[Server], fallback: Store | None, close: Callable[[], None]
    ) -> None:
        super().__init__(handle, owns_store=False, pressure=Pressure(0, 0))  # the server has its own limits
        self._servers = servers
        self._fallback = fallback
        self._close = close
        self._own: Catalog | None = None
        """This process's own handle, once no server answered."""
        self._preferred = 0
        self._wait_s = handle.context.wait_s
        self._is_behind = False

    @property
    def manifest(self) -> Manifest:
        """The newest manifest, or one that shows all commits of this handle."""
        if self._is_behind:
            self.refresh()
        return self._handle.latest

    def refresh(self) -> Manifest:
        self._is_behind = False
        return super().refresh()

    def snapshot(self, id_: int | None = None) -> Any:
        if id_ is None and self._is_behind:
            self.refresh()
        return super().snapshot(id_)

    def _publish_now(self, drafts: Sequence[Draft]) -> list[Published | Unknown | PublishError]:
        """Publish each draft, in a commit that it may share with others."""
        self._handle.check_writable()
        ends: list[Published | Unknown | PublishError] = []
        for draft in drafts:
            try:
                ends.append(self._publish_one(draft))
            except PublishError as error:
                if len(drafts) == 1 and isinstance(error, StaleView):
                    self.refresh()
                ends.append(error)
        return ends

    def write(
        self,
        change: Callable[[Transaction], Any],
        *,
        attempts: int | None = None,
        wait_s: float | None = None,
        message: str = "",
    ) -> Published | Unknown:
        """Publish what `change` does; it is decided anew when what it has read was changed."""
        before, self._wait_s = self._wait_s, self._wait_s if wait_s is None else wait_s
        try:
            return super().write(change, attempts=attempts, wait_s=wait_s, message=message)
        finally:
            self._wait_s = before

    def settle(self, unknown: Unknown) -> Published | Unknown | None:
        """Return the end of an unknown request: Published, or still Unknown, because a server may have it."""
        for manifest in self.log(unknown.base):
            if any(one.id == unknown.plan for one in manifest.requests):
                return Published(manifest.id, manifest.plan)
        return unknown

    def close(self) -> None:
        if self._own is not None:
            self._own.close()
        self._close()

    def _publish_one(self, draft: Draft) -> Published | Unknown:
        order = self._order(draft)
        context = self._handle.context
        pace = Pace(context.env, self._wait_s)
        sent = False
        while True:
            why = ""
            for at in range(len(self._servers)):
                server = self._servers[(self._preferred + at) % len(self._servers)]
                try:
                    answer = server.ask("POST", f"/v1/branches/{quote(self.branch)}/commits", json=order)
                except _Unanswered as error:
                    sent, why = sent or error.sent, str(error)
                    after_s = error.retry_after_s
                    continue
                self._preferred = (self._preferred + at) % len(self._servers)
                return self._published(answer)
            if self._fallback is not None:
                return self._publish_alone(draft)
            if not pace.pause():
                break
            context.env.sleep(min(after_s, RETRY_AFTER_S_MAX, pace.left_s))
        if not sent:
            raise StoreUnavailable(f"{why}; start it, or name another one; nothing was published")
        return Unknown(order["request"], why, order["since"])

    def _order(self, draft: Draft) -> dict[str, Any]:
        if draft.merges is not None:
            raise Invalid("a merge needs the store itself: open that, not a server")
        changes = wire.to_json(draft.changes)
        if draft.request is None:
            draft.request = Request(self._handle.context.env.new_id(), self._handle.latest.id)
        has_read = isinstance(draft, Transaction) and any(one.verb == "read" for one in draft.changes)
        return {
            "request": draft.request.id,
            "since": draft.request.since,
            "author": self._handle.author,
            "message": draft.message,
            "snapshot": draft.snapshot.id if has_read and isinstance(draft, Transaction) else None,
            "changes": changes,
            "wait_s": ORDER_S,
        }

    def _published(self, answer: httpx.Response) -> Published:
        _check(answer)
        found = answer.json()
        self._is_behind = True
        return Published(int(found["manifest"]), str(found["plan"]))

    def _publish_alone(self, draft: Draft) -> Published | Unknown:
        """Publish by a handle of this process, as a server would: the request id makes that safe."""
        context = self._handle.context
        if self._own is None:
            self._own = Catalog.open(
                self._fallback or "", env=context.env, author=self._handle.author, mode=Mode.JOIN,
                branch=self.branch, stuck_after_s=context.stuck_after_s, wait_s=context.wait_s,
            )  # fmt: skip
        has_read = isinstance(draft, Transaction) and any(one.verb == "read" for one in draft.changes)
        alone = draft if has_read else Draft(draft.changes, draft.message, request=draft.request)
        pace = Pace(context.env, context.wait_s)
        while True:
            try:
                ended = self._own.publish(alone)
            except StaleView:
                if has_read or not pace.pause():
                    raise
                continue
            if isinstance(ended, Published) or not pace.pause():
                self._is_behind = True
                return ended


def open_served(
    places: str | Sequence[str],
    *,
    env: Environment | None = None,
    author: str = "",
    mode: Mode | str = Mode.CLAIM,
    branch: str = MAIN,
    token: str = "",
    wait_s: float = WAIT_S,
    layer: Callable[[Store], Store] = lambda store: store,
    client: httpx.Client | None = None,
) -> ServedCatalog:
    """Open a catalog through the servers at these addresses. The last place may be the URL of its store."""
    places = [places] if isinstance(places, str) else list(places)
    env = env or SystemEnvironment()
    with contextlib.ExitStack() as opened:
        if client is None:
            # Ignores the environment: a proxy variable meant for other programs would expose every token.
            client = httpx.Client(timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S), trust_env=False)
        opened.callback(client.close)
        fallback: Store | None = None
        if not places[-1].startswith(_PLACES):
            fallback = open_store(places.pop(), env)
            opened.callback(fallback.close)
        servers = [Server(url, client, token) for url in places]
        store = layer(ServedStore(servers, fallback, env, wait_s))
        context = BranchContext(store, env, branch, STANDARD, wait_s=wait_s)
        # A server joins the branch's writers: nothing that is opened through it claims.
        handle = Handle(
            context, TableReader(context), author or "somebody", Mode.READ if mode == Mode.READ else Mode.JOIN
        )
        handle.resolve()
        handle.join()
        return ServedCatalog(handle, servers, fallback, opened.pop_all().close)
