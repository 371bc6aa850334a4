"""An endpoint that answers as configured, and remembers every byte it was sent."""

import contextlib
import socket
import threading
from collections.abc import Iterator

OK = b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nETag: "e"\r\n\r\nok'


class Upstream:
    """Listens on a port of its own. One thread a connection."""

    def __init__(self) -> None:
        self.reply = OK
        self.closes = False
        """Whether it closes the connection behind each reply."""
        self.seen: list[bytes] = []
        self.gate: threading.Semaphore | None = None
        """When set, each request waits for it before it is answered."""
        self.inside = self.inside_max = self.connections = 0
        self.arrived = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self.connections += 1
                self._open.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            rest = b""
            while True:
                while b"\r\n\r\n" not in rest:
                    got = client.recv(65536)
                    if not got:
                        return
                    rest += got
                head, _, rest = rest.partition(b"\r\n\r\n")
                body, rest = self._body(client, head, rest)
                self._answer(client, head + b"\r\n\r\n" + body)
                if self.closes:
                    return

    def _body(self, client: socket.socket, head: bytes, rest: bytes) -> tuple[bytes, bytes]:
        lower = head.lower()
        if b"transfer-encoding: chunked" in lower:
            while b"0\r\n\r\n" not in rest:
                rest += client.recv(65536)
            body, end, rest = rest.partition(b"0\r\n\r\n")
            return body + end, rest
        length = (
            int(lower.split(b"content-length:")[1].split(b"\r\n")[0]) if b"content-length:" in lower else 0
        )
        while len(rest) < length:
            rest += client.recv(65536)
        return rest[:length], rest[length:]

    def _answer(self, client: socket.socket, message: bytes) -> None:
        with self._lock:
            self.seen.append(message)
            self.inside += 1
            self.inside_max = max(self.inside_max, self.inside)
        self.arrived.release()
        if self.gate is not None:
            assert self.gate.acquire(timeout=20)
        with self._lock:
            self.inside -= 1
        client.sendall(self.reply)

    def hang_up(self) -> None:
        """Close every connection that is open."""
        for client in self._open:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def close(self) -> None:
        self._listening.close()
        self.hang_up()


@contextlib.contextmanager
def upstream() -> Iterator[Upstream]:
    one = Upstream()
    try:
        yield one
    finally:
        one.close()


def send_raw(url: str, message: bytes, *, reads: int = -1) -> bytes:
    """Everything that comes back for `message` until the other side closes, or `reads` bytes of it."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as client:
        client.sendall(message)
        got = b""
        while reads < 0 or len(got) < reads:
            more = client.recv(65536)
            if not more:
                break
            got += more
        return got
