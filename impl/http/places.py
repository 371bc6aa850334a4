"""The places of a server: which connections are open, and which one ends so that a new one has a place.

A connection either works on a request, or it waits: for the rest of a head that has not arrived whole, its
first one included, or for another request after an answered one. A client that sends half a head on thousands
of connections would otherwise keep everybody out until `header_s` ends. So, when a connection is made:

    its address has more than `client_heads` unfinished heads     the oldest of these ends
    there are more than `connections`                             the oldest unfinished head of all ends,
                                                                  else the connection that is idle for longest
    all of them work                                              the new one is refused

A connection that was refused stays open for `linger_s`, so that its client can read the answer. At most a
quarter of `connections` do; the oldest is aborted for the next.

Only the thread of the event loop uses this.
"""

import functools
import ipaddress
from typing import Protocol

from fencepost.impl.http.limits import Limits


class Connection(Protocol):
    def evict(self, *, is_idle: bool) -> None:
        """End, so that another connection has a place."""

    def abort(self) -> None:
        """End at once."""


class Places:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: set[Connection] = set()
        """Those that have places."""
        self._heads: dict[Connection, str] = {}
        """Connections whose head is unfinished, the oldest first, with their addresses."""
        self._by_address: dict[str, dict[Connection, None]] = {}
        """The same, by address."""
        self._idle: dict[Connection, None] = {}
        self._ending: dict[Connection, None] = {}

    def begin(self, connection: Connection, host: str) -> None:
        """A head of this connection is expected, or begun."""
        if connection in self._heads:
            return
        self._idle.pop(connection, None)
        address = address_of(host)
        self._heads[connection] = address
        same = self._by_address.setdefault(address, {})
        same[connection] = None
        if len(same) > self._limits.client_heads:
            next(iter(same)).evict(is_idle=False)

    def enter(self, connection: Connection, host: str) -> bool:
        """Give a new connection a place; False if all others work on requests."""
        if len(self._open) >= self._limits.connections:
            oldest, idle = next(iter(self._heads), None), next(iter(self._idle), None)
            if oldest is not None:
                oldest.evict(is_idle=False)
            elif idle is not None:
                idle.evict(is_idle=True)
            else:
                return False
        self._open.add(connection)
        self.begin(connection, host)
        return True

    def work(self, connection: Connection) -> None:
        """The connection has a whole head."""
        if self._idle.pop(connection, True):
            address = self._heads.pop(connection, None)
            if address is not None:
                same = self._by_address[address]
                del same[connection]
                if not same:
                    del self._by_address[address]

    def rest(self, connection: Connection) -> None:
        """The connection is idle: its requests are answered."""
        self._idle[connection] = None

    def end(self, connection: Connection) -> None:
        """The connection was refused, and stays open for its client to read why."""
        self.leave(connection)
        self._ending[connection] = None
        if len(self._ending) > self._limits.lingering:
            oldest = next(iter(self._ending))
            del self._ending[oldest]  # the next one may be refused before this one has left
            oldest.abort()

    def leave(self, connection: Connection) -> None:
        self.work(connection)
        self._open.discard(connection)
        self._ending.pop(connection, None)


@functools.lru_cache(maxsize=4096)
def address_of(host: str) -> str:
    """The address that a client counts as: of IPv6 the first 64 bits, within which it can have any."""
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host  # of a Unix socket
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return found.packed[:8].hex()
    return host
