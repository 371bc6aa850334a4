"""The name of a stream: the path of its address, decoded once by `fencepost.impl.http.targets`.

A name has one or more segments, each after a slash. None is empty, `.` or `..`: clients and proxies change
paths that have such segments, so not all could reach the name, and a proxy that admits `/a/../b` because of
its beginning would admit another name than it meant.
"""

from fencepost.impl.http.refusals import Refusal
from fencepost.impl.http.targets import text_path


def name_of(target: bytes) -> str:
    """The name at a target; raises the refusal of an HTTP request."""
    path = text_path(target)
    for segment in path[1:].split("/"):
        if segment in ("", ".", ".."):
            shown = f"the segment {segment!r}" if segment else "an empty segment"
            raise Refusal("bad_request", f"the path has {shown}; the name of a stream has none")
    return path
