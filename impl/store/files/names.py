"""From keys to names on disk and back.

Two keys never share a name, and every key has one. An ordinary key such as `data/x.parquet` has exactly that
path on disk, so that any reader of files can use it.

A key is cut at its slashes; every segment but the last names a folder, the last names a file:

    segment                         on disk
    ordinary                        itself
    `%`, control characters         `%25`, `%0A`: each byte in UTF-8 as two hexadecimal digits
    empty (`a//b`, `a/`)            `%empty`
    `.fencepost`, `.`, `..`          the first dot escaped: `%2Efencepost`
    longer than 240 bytes           in pieces: `first piece%more/rest`, folders that are no `/` in the key

An escape is two hexadecimal digits, so `%empty`, `%more` and `%folder` are unambiguous. Only the canonical
spelling counts: a file whose name differs from it belongs to no key.

An object `a` and a folder of `a/b` want the same name. The object keeps it; the folder's second name is
`a%folder` (see `folders` for how it moves there safely).

Where the file system takes `A` for `a`, or one spelling of `é` for another, only lower-case ASCII is
ordinary and everything else is escaped. Which of the two spellings a directory uses is written down in it
when it is first used (see `internals`), so that it survives being copied to another file system.
"""

import re
from functools import lru_cache
from urllib.parse import unquote_to_bytes

INTERNAL = ".fencepost"
"""The reserved folder for everything that is not an object."""
EMPTY = "%empty"
MORE = "%more"
FOLDER = "%folder"

PIECE_BYTES_MAX = 240
"""File systems take 255 bytes a name; this leaves room for the longest word behind it."""

_SHORT = PIECE_BYTES_MAX // 4
"""Letters that fit in one piece whatever they are."""

_NATURAL = re.compile(r"[^\x00-\x1f\x7f%/]")
_FOLDED = re.compile(r"[a-z0-9._=+@,-]")
_RESERVED = frozenset({".", "..", INTERNAL})
_ESCAPED = re.compile(r"(?:%[0-9A-F]{2}|[^%])+")


class Names:
    """The spelling of one directory: `folded` where case or Unicode forms are not distinguished."""

    def __init__(self, *, folded: bool = False) -> None:
        self.folded = folded
        self._ordinary = _FOLDED if folded else _NATURAL
        self._whole = re.compile(self._ordinary.pattern + ("*[a-z0-9]" if folded else "+"))
        self.pieces = lru_cache(maxsize=4096)(self._pieces)
        self.step = lru_cache(maxsize=4096)(self._step)

    def _natural(self, segment: str) -> bool:
        """Return True if the segment is its own name on disk: short and ordinary, as nearly all are."""
        return (
            len(segment) <= _SHORT and self._whole.fullmatch(segment) is not None and segment not in _RESERVED
        )

    def _pieces(self, segment: str) -> tuple[str, ...]:
        """Return the names on disk of `segment`: one name, or several folders and a last name."""
        if self._natural(segment):
            return (segment,)
        if not segment:
            return (EMPTY,)
        tokens = self._tokens(segment)
        pieces, size = [""], 0
        for token in tokens:
            size += len(token.encode())
            if size > PIECE_BYTES_MAX:
                pieces.append("")
                size = len(token.encode())
            pieces[-1] += token
        return tuple(pieces)

    def _tokens(self, segment: str) -> list[str]:
        tokens = [letter if self._ordinary.match(letter) else _escape(letter) for letter in segment]
        if segment in _RESERVED:
            tokens[0] = "%2E"
        if self.folded and tokens[-1] == ".":
            tokens[-1] = "%2E"
        return tokens

    def place(self, key: str) -> tuple[str, str]:
        """Where the object of `key` is: the folder's path (see `step`) and its name there."""
        cut = key.rfind("/") + 1
        segment = key[cut:]
        if self._natural(segment):
            return key[:cut], segment
        pieces = self.pieces(segment)
        return key[:cut] + "".join(f"\0{piece}{MORE}" for piece in pieces[:-1]), pieces[-1]

    def _step(self, path: str) -> tuple[str, str, bool]:
        """Return the path of a folder's parent, its name there, and True if it may have its second name.

        A path is the common prefix of the keys in the folder, slash included. A folder that holds only the
        rest of a long segment follows after a NUL, which no key contains. The root is the empty path.
        """
        if not path.endswith("/"):
            cut = path.rindex("\0")
            return path[:cut], path[cut + 1 :], False
        parent = path[: path.rfind("/", 0, -1) + 1]
        pieces = self.pieces(path[len(parent) : -1])
        return parent + "".join(f"\0{piece}{MORE}" for piece in pieces[:-1]), pieces[-1], True

    def text(self, pieces: tuple[str, ...]) -> str | None:
        """The segment that is spelled `pieces`, or None when no segment is."""
        if pieces == (EMPTY,):
            return ""
        if not all(_ESCAPED.fullmatch(piece) for piece in pieces):
            return None
        try:
            text = "".join(unquote_to_bytes(piece).decode() for piece in pieces)
        except UnicodeError:
            return None
        return text if self.pieces(text) == pieces else None


def _escape(letter: str) -> str:
    return "".join(f"%{byte:02X}" for byte in letter.encode())
