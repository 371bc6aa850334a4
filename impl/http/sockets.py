"""The bytes that the system keeps for a client that does not read: a few, and none after a reset."""

import asyncio
import socket
import struct

UNSENT_BYTES = 64 * 1024 if hasattr(socket, "TCP_NOTSENT_LOWAT") else 0
"""The bytes of a response that the system keeps for a client that does not read; by itself it keeps
megabytes."""


def bound_unsent(transport: asyncio.WriteTransport, buffered: int) -> None:
    """Have at most `buffered` bytes in memory before its writer is to wait, and few in the system."""
    transport.set_write_buffer_limits(high=buffered)
    connected = transport.get_extra_info("socket")
    if connected is not None and UNSENT_BYTES:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)


def reset(transport: asyncio.WriteTransport) -> None:
    """End the connection now. Without a reset the system would keep the unread bytes, and go on offering
    them, long after this process forgot the connection."""
    connected = transport.get_extra_info("socket")
    if connected is not None and connected.fileno() >= 0:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
