"""The agent's side of `POST /v1/batches`: sends the batches of the spool, in order, until none waits.

A batch leaves the spool on one response only: status 200, with a body that has this identity and the hash of
these very bytes. A 200 from another server (a captive portal, a mistaken port) deletes nothing.

    response                                     action
    200, our identity, our hash                  remove the batch
    a kind with `park` (see `refusals`)          park it, log an error, continue with the next
    a kind with `stop`                           try the other collectors; if all agree, give up
    anything else, or no response                try the next collector; after a whole round, pause

Pauses double from `pause_s` up to `pause_max_s`, each shortened by a random share so that agents that were
refused together do not return together; `Retry-After` makes a pause longer, never shorter.
"""

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx

from fencepost.impl.environment import Environment
from fencepost.impl.http.metrics import Metrics
from fencepost.impl.http.numbers import whole_number
from fencepost.impl.ingest.operator import DROP
from fencepost.impl.ingest.service.requests import KINDS
from fencepost.impl.ingest.service.spool import Batch, Spool
from fencepost.impl.store.urls import without_user

_LOG = logging.getLogger("fencepost.ingest")

ANSWER_BYTES_MAX = 64 * 1024
RETRY_AFTER_S_MAX = 300.0
"""The longest `Retry-After` that the agent honours."""


class Refused(Exception):
    """Every collector refuses all batches of this agent; the message has the last response."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    pause_s: float = 0.1
    pause_max_s: float = 30.0
    connect_s: float = 5.0
    answer_s: float = 60.0


@dataclass(slots=True)
class Sent:
    accepted: int = 0
    duplicates: int = 0
    parked: int = 0
    retries: int = 0
    left: int = 0


@dataclass(frozen=True, slots=True)
class _Answer:
    then: Literal["done", "duplicate", "park", "retry", "stop"]
    text: str
    body: Any = None
    retry_after_s: float = 0


class Sender:
    def __init__(
        self,
        spool: Spool,
        collectors: Sequence[str],
        token: str,
        *,
        env: Environment | None = None,
        timeouts: Timeouts | None = None,
        client: httpx.Client | None = None,
    ) -> None:
        self._spool = spool
        self._collectors = [_checked(url) for url in collectors]
        if not self._collectors:
            raise ValueError("name at least one collector, as http://host:port")
        self._token = token
        self._env = env or spool.env
        self._dice = self._env.stream("sending")
        self._timeouts = timeouts or Timeouts()
        self._client = client or _client(self._timeouts)
        self._at = self._dice.randrange(len(self._collectors))
        self.sent = Sent()
        self.metrics = Metrics()
        self._delivered = self.metrics.counter(
            "fencepost_agent_sent_total", "Batches that a collector accepted.", "duplicate", ("false", "true")
        )
        self._parked = self.metrics.counter(
            "fencepost_agent_parked_total", "Parked batches, which need an operator."
        )
        self._retries = self.metrics.counter(
            "fencepost_agent_retries_total", "Responses that decided nothing."
        )
        for name, text, read in (
            ("waiting", "Batches that wait to be sent.", lambda: len(spool)),
            ("parked_batches", "Batches parked now.", lambda: len(spool.parked())),
            ("spool_bytes", "Bytes of the frames in the spool.", lambda: spool.bytes_used),
        ):
            self.metrics.gauge(f"fencepost_agent_{name}", text, read)

    def drain(self, give_up_s: float | None = None) -> Sent:
        """Send until no batch waits, or until `give_up_s` have passed; the rest stays in the spool."""
        deadline = None if give_up_s is None else self._env.monotonic_ns() + round(give_up_s * 1e9)
        while batch := self._spool.first():
            if not self._settle(batch, deadline):
                break
        self.sent.left = len(self._spool)
        return self.sent

    def settle(self) -> int:
        """Read the decisions about parked conflicts, and drop batches that need not be kept; returns how
        many.

        If a collector does not answer, the rest is left to the next call.
        """
        dropped = 0
        for batch in self._spool.parked():
            answer = self._spool.why(batch).get("answer")
            if not isinstance(answer, dict) or answer.get("error") != "identity_conflict":
                continue
            try:
                decision = self._decision(batch)
            except httpx.HTTPError as error:
                _LOG.info("the parked batches wait: no response (%s)", type(error).__name__)
                break
            if decision == DROP:
                self._spool.drop(batch)
                dropped += 1
                _LOG.info("dropped %s %d-%d: %s", batch.boot_id, batch.seq_start, batch.seq_end, decision)
        return dropped

    def close(self) -> None:
        self._client.close()

    def _settle(self, batch: Batch, deadline: int | None) -> bool:
        """Send `batch` until its result is known; False when the deadline passed first."""
        frame = self._spool.frame(batch)
        failures = stops = 0
        while deadline is None or self._env.monotonic_ns() < deadline:
            answer = self._send(batch, frame)
            if answer.then in ("done", "duplicate", "park"):
                self._finish(batch, answer)
                return True
            failures += 1
            stops = stops + 1 if answer.then == "stop" else 0
            if stops >= len(self._collectors):
                raise Refused(answer.text)
            self.sent.retries += 1
            self._retries.inc()
            _LOG.debug("%s %d-%d not yet: %s", batch.boot_id, batch.seq_start, batch.seq_end, answer.text)
            self._at = (self._at + 1) % len(self._collectors)
            self._pause(failures, answer.retry_after_s)
        return False

    def _finish(self, batch: Batch, answer: _Answer) -> None:
        if answer.then == "park":
            self._spool.park(batch, {"why": answer.text, "answer": answer.body})
            self.sent.parked += 1
            self._parked.inc()
            _LOG.error("parked %s %d-%d: %s", batch.boot_id, batch.seq_start, batch.seq_end, answer.text)
            return
        self._spool.done(batch)
        self.sent.accepted += answer.then == "done"
        self.sent.duplicates += answer.then == "duplicate"
        self._delivered.labels(str(answer.then == "duplicate").lower()).inc()

    def _pause(self, failures: int, retry_after_s: float) -> None:
        rounds, within = divmod(failures, len(self._collectors))
        if within:
            return  # the next collector has not been tried yet
        longest = min(self._timeouts.pause_max_s, self._timeouts.pause_s * 2.0 ** min(rounds - 1, 32))
        self._env.sleep(max(longest * (1 - self._dice.random() / 2), min(retry_after_s, RETRY_AFTER_S_MAX)))

    def _send(self, batch: Batch, frame: bytes) -> _Answer:
        url = self._collectors[self._at]
        try:
            status, headers, body = self._post(url, batch, frame)
        except httpx.HTTPError as error:
            return _Answer("retry", f"{url} did not answer ({type(error).__name__}: {error})")
        return _interpret(url, status, headers, body, batch, hashlib.sha256(frame).hexdigest())

    def _decision(self, batch: Batch) -> str:
        """The decision about a parked batch; empty when there is none yet."""
        sha256 = hashlib.sha256(self._spool.frame(batch)).hexdigest()
        with self._client.stream(
            "GET",
            f"{self._collectors[self._at]}/v1/resolution",
            params={**_parameters(batch), "submitted_frame_sha256": sha256},
            headers=self._headers(),
        ) as response:
            body = _json(response) if response.status_code == 200 else None
        match body:
            case {"resolution": {"decision": str(decision)}}:
                return decision
        return ""

    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._token}", "accept-encoding": "identity"}

    def _post(self, url: str, batch: Batch, frame: bytes) -> tuple[int, httpx.Headers, Any]:
        with self._client.stream(
            "POST",
            f"{url}/v1/batches",
            params=_parameters(batch),
            content=frame,
            headers={**self._headers(), "content-type": "application/octet-stream"},
        ) as response:
            return response.status_code, response.headers, _json(response)


def _interpret(
    url: str, status: int, headers: httpx.Headers, body: Any, batch: Batch, sha256: str
) -> _Answer:
    """Return the answer by which the agent continues after a response about the batch."""
    fields = body if isinstance(body, dict) else {}
    kind, message = str(fields.get("error", "")), str(fields.get("message", ""))
    text = f"{url} answered {status}" + (f" {kind}: {message}" if kind else "")
    if status == 200:
        ours = {**_parameters(batch), "frame_sha256": sha256}
        if any(fields.get(name) != value for name, value in ours.items()):
            return _Answer("retry", f"{text}, but not about this batch: is it a collector?")
        return _Answer("duplicate" if fields.get("duplicate") is True else "done", text)
    known = KINDS.get(kind)
    if known is None or known.status != status:
        then: Literal["retry", "stop"] = "stop" if status in (401, 403) else "retry"
        return _Answer(then, text, body, _wait(headers))
    return _Answer(known.then, text, body, _wait(headers))


def _parameters(batch: Batch) -> dict[str, str | int]:
    return {
        "agent_id": batch.agent_id,
        "boot_id": batch.boot_id,
        "seq_start": batch.seq_start,
        "seq_end": batch.seq_end,
    }


def _wait(headers: httpx.Headers) -> float:
    return float(whole_number(headers.get("retry-after", ""), 99_999) or 0)


def _json(response: httpx.Response) -> Any:
    """The body as JSON; None if it is not JSON, or too long."""
    found = bytearray()
    for chunk in response.iter_bytes():
        found += chunk
        if len(found) > ANSWER_BYTES_MAX:
            return None
    try:
        return json.loads(found)
    except ValueError:
        return None


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        sound = False
    if not sound or parts.query or parts.fragment or parts.username:
        shown = without_user(url)
        raise ValueError(
            f"collector {shown!r} is not an address; write http://host:port or https://host:port"
        )
    return url.rstrip("/")


def _client(timeouts: Timeouts) -> httpx.Client:
    # Ignores the environment: a proxy variable meant for other programs would expose every token.
    return httpx.Client(timeout=httpx.Timeout(timeouts.answer_s, connect=timeouts.connect_s), trust_env=False)
