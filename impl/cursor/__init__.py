"""How far a reader of an object store has got: durable, and it only goes forward."""

from fencepost.impl.cursor.cursor import Cursor, CursorError, Pace

__all__ = ["Cursor", "CursorError", "Pace"]
