"""Clients of streams on nodes that are killed: each takes a name through many lives, and keeps account.

A life: create, appends with reads between, a read of everything, and an end by delete, by expiry, or by the
end of the test. A request without an answer, or answered 503, is sent again if the protocol makes that safe;
an append without a producer is not, and may be in the stream once or not at all. The content type of every
life differs, so that a creation that meets an earlier life is refused instead of joining it. Half of them
have a new name: what nobody creates anew must be reaped, though the node that knew of it lost its disk.
"""

import http.client
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from fencepost.impl.store import Store
from fencepost.impl.store.requests import Get, List
from fencepost.impl.streams.manifest import Manifest, parse_key

from .streams_fleet import Nodes

TTL_S = 8
REQUEST_S = 120.0
"""Longer than anything takes here: an append that was given up must not be applied later."""
HEALED_S = 120.0
Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Life:
    number: int
    ttl: bool
    producer: bool
    sent: list[bytes] = field(default_factory=list)
    acknowledged: dict[int, int | None] = field(default_factory=dict)
    """By number of the append: where it ends, if the answer says so."""
    seen: bytes = b""
    """What one reader has read, from offset to offset, at any node."""
    offset: str = "-1"
    used: float = 0.0
    """When the last answered request was sent."""

    @property
    def content_type(self) -> str:
        return f"text/plain; life={self.number}"

    def check(self, content: bytes) -> None:
        """Every acknowledged append once, in order and where it was answered; no other more than once."""
        lines = content.splitlines(keepends=True)
        found = [int(line.split(b" ")[1]) for line in lines]
        assert found == sorted(set(found)), f"out of order, or twice: {found}"
        assert lines == [self.sent[number] for number in found], "other bytes than were sent"
        missing = set(self.acknowledged) - set(found)
        assert not missing, f"acknowledged and not there: {sorted(missing)} of {len(self.sent)}"
        for number, end in self.acknowledged.items():
            body = self.sent[number]
            assert end is None or content[end - len(body) : end] == body, f"append {number} is not at {end}"
        assert content.startswith(self.seen), "a reader saw other bytes"


@dataclass
class Client:
    made: Nodes
    name: str
    dice: random.Random
    done: threading.Event
    acknowledged: int = 0
    lives: int = 0
    ended: dict[str, int] = field(default_factory=lambda: {"deleted": 0, "expired": 0})
    life: Life | None = None

    def run(self) -> None:
        try:
            while not self.done.is_set():
                self.live()
        except AssertionError as error:
            life = self.life
            raise AssertionError(f"{self.name}, life {life and life.content_type}: {error}") from error

    def live(self) -> None:
        self.lives += 1
        if self.dice.random() < 0.5:
            self.name = f"{self.name.partition('-')[0]}-{self.lives}"
        life = Life(self.lives, self.dice.random() < 0.3, self.dice.random() < 0.7)
        self.life = life
        headers = {"Content-Type": life.content_type, **({"Stream-TTL": str(TTL_S)} if life.ttl else {})}
        status, _, _ = self.send("PUT", headers)
        assert status in (200, 201), f"create answered {status}"
        for _ in range(self.dice.randint(3, 30)):
            if not self.append(life):
                break
            if self.dice.random() < 0.2:
                self.follow(life)
            if self.done.is_set():
                break
        else:
            self.end(life)

    def append(self, life: Life) -> bool:
        """Whether the stream still exists."""
        number = len(life.sent)
        life.sent.append(b"%d %d %s\n" % (life.number, number, b"x" * self.dice.randrange(300)))
        headers = {"Content-Type": life.content_type}
        if life.producer:
            headers |= {"Producer-Id": "client", "Producer-Epoch": "0", "Producer-Seq": str(number)}
        status, found, _ = self.send("POST", headers, life.sent[-1], again=life.producer)
        if status in (200, 204):
            duplicate = life.producer and status == 204
            end = int(found["stream-next-offset"].split("_")[1])
            life.acknowledged[number] = None if duplicate else end
            self.acknowledged += 1
        elif status == 404:
            return self.gone(life)
        else:
            assert status in (0, 503), f"append answered {status}"
        return True

    def gone(self, life: Life) -> bool:
        """A stream with a TTL may expire while nodes are away; no other is ever gone."""
        # A read by another node is published only when it moves the deadline by a tenth of the TTL.
        idle_s = time.monotonic() - life.used
        assert life.ttl, "a live stream is not found"
        assert idle_s >= 0.9 * TTL_S, f"expired after {idle_s:.1f} s"
        self.ended["expired"] += 1
        self.life = None
        return False

    def follow(self, life: Life) -> bool:
        """Read on from where the last read ended; whether there is a stream."""
        status, found, body = self.send("GET", query=f"?offset={life.offset}")
        if status == 404:
            return self.gone(life)
        assert status == 200, f"read answered {status}"
        life.seen, life.offset = life.seen + body, found["stream-next-offset"]
        return True

    def read(self, life: Life, node: int | None = None) -> bytes | None:
        content, offset = b"", "-1"
        while True:
            status, found, body = self.send("GET", query=f"?offset={offset}", node=node)
            if status == 404:
                self.gone(life)
                return None
            assert status == 200, f"read answered {status}"
            content, offset = content + body, found["stream-next-offset"]
            if "stream-up-to-date" in found:
                return content

    def end(self, life: Life) -> None:
        content = self.read(life)
        if content is None:
            return
        life.check(content)
        if life.ttl:
            self.done.wait(max(0.0, life.used + TTL_S + 1 - time.monotonic()))
            if not self.done.is_set():
                self.ended["expired"] += 1
                self.life = None
            return
        status, _, _ = self.send("DELETE")
        assert status in (204, 404), f"delete answered {status}"
        self.ended["deleted"] += 1
        self.life = None
        for node in range(len(self.made.ports)):
            status, _, _ = self.send("GET", query="?offset=-1", node=node)
            assert status == 404, f"a deleted stream is read: {status}"

    def send(
        self, method: str, headers: dict[str, str] | None = None, body: bytes = b"", *, query: str = "",
        again: bool = True, node: int | None = None,
    ) -> Answer:  # fmt: skip
        """Until it is answered, at any node; status 0 if it was not and must not be sent again."""
        while True:
            at = self.dice.randrange(len(self.made.ports)) if node is None else node
            began = time.monotonic()
            connection = http.client.HTTPConnection("127.0.0.1", self.made.ports[at], timeout=REQUEST_S)
            try:
                connection.connect()
                sent = True
            except OSError:
                sent = False
            try:
                if sent:
                    connection.request(method, f"/{self.name}{query}", body, headers or {})
                    answer = connection.getresponse()
                    content = answer.read()
                    if answer.status != 503 or not again:
                        if answer.status < 400 and self.life is not None:
                            self.life.used = began
                        found = {name.lower(): value for name, value in answer.getheaders()}
                        return answer.status, found, content
            except (OSError, http.client.HTTPException):
                if not again:
                    return 0, {}, b""
            finally:
                connection.close()
            time.sleep(0.05)


def heal(store: Store, clients: list[Client]) -> int:
    """Wait until the prefix has nothing but the streams that are alive; how many those are."""
    deadline = time.monotonic() + HEALED_S
    while (left := doomed(store)) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert not left, f"{len(left)} objects of doomed streams are left: {left[:5]}"
    alive = 0
    for client in clients:
        if client.life is not None:
            for node in range(len(client.made.ports)):
                content = client.read(client.life, node)
                if content is None:
                    break
                client.life.check(content)
            else:
                alive += 1
    return alive


def doomed(store: Store) -> list[str]:
    """The keys that belong to no live stream."""
    keys, token = [], ""
    while True:
        page = store.send(List("streams/", token=token))
        keys += [one.key for one in page.objects]
        token = page.next
        if not token:
            break
    live: dict[str, str] = {}
    for key in keys:
        if key.endswith("manifest.json"):
            body = store.send(Get(key)).body
            manifest = Manifest.read(body, key) if body else None
            if manifest and not manifest.is_tombstone and not manifest.is_expired(time.time_ns()):
                live[key.split("/")[1]] = manifest.incarnation
    return [
        key
        for key in keys
        if (place := parse_key(key)) is None
        or place.hash not in live
        or place.incarnation not in ("", live[place.hash])
    ]


def together(acts: list[Callable[[], None]], done: threading.Event) -> None:
    """All at once, each in a thread; the first that fails ends the others, and is raised."""
    failed: list[BaseException] = []

    def guarded(act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)
            done.set()

    threads = [threading.Thread(target=guarded, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
