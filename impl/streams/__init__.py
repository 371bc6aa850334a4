"""Durable streams on an object store, with retention that never loses and never leaks."""

from fencepost.impl.streams.errors import Fenced, Refusal, Refused, RetentionError, StreamError, Trouble
from fencepost.impl.streams.manifest import Manifest
from fencepost.impl.streams.node import Node
from fencepost.impl.streams.retention import Reaper
from fencepost.impl.streams.safeguards import SAFEGUARDS, STANDARD, Safeguards
from fencepost.impl.streams.settings import Durability, Settings
from fencepost.impl.streams.state import MemoryState, Record, SqliteState, State
from fencepost.impl.streams.stream import Appended, Chunk, Configuration

__all__ = [
    "SAFEGUARDS",
    "STANDARD",
    "Appended",
    "Chunk",
    "Configuration",
    "Durability",
    "Fenced",
    "Manifest",
    "MemoryState",
    "Node",
    "Reaper",
    "Record",
    "Refusal",
    "Refused",
    "RetentionError",
    "Safeguards",
    "Settings",
    "SqliteState",
    "State",
    "StreamError",
    "Trouble",
]
