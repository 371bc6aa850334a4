"""The path of a request: decoded once, from the bytes of its target.

Two targets address one resource only if they are equal after this decoding. Every server uses it, and nothing
decodes its result again: `/a%252Fb` is the path `/a%2Fb`.

    target                           path
    /a%2Fb, /a/b                     /a/b: an encoded slash is a slash
    /%E2%82%AC                       the euro sign
    /%FF, /100%, /%zz, /a#b          400: not UTF-8, or not percent-encoded
    http://host/a, *                 400: a target begins with a slash
    /a%0Ab                           400 where paths are text (`text_path`); S3 keys may have any character

Nothing is normalised: `/a/../b` and `//b` are other paths than `/b`. A server whose paths are names may
refuse them, as streams do.
"""

import re
from urllib.parse import quote, unquote_to_bytes

from fencepost.impl.http.refusals import Refusal

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_MALFORMED = re.compile(rb"%(?![0-9A-Fa-f]{2})|#")
_UNQUOTED = "/:@!$&'()*+,;=~"
"""The characters that a path may have unencoded, beside letters, digits and `_.-`."""


class BadTarget(ValueError):
    """The message has the reason."""


def path_of(target: bytes) -> str:
    """Decode the path of a target, whose query is ignored; raises `BadTarget`."""
    raw = target.partition(b"?")[0]
    if not raw.startswith(b"/"):
        raise BadTarget("the target of a request begins with a slash")
    if _MALFORMED.search(raw):
        raise BadTarget("the path is not percent-encoded: % begins two hexadecimal digits, and # is %23")
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise BadTarget("the path is not UTF-8 once its percent-encoding is decoded") from None


def text_path(target: bytes) -> str:
    """The path of a target, without control characters; raises `Refusal`."""
    try:
        path = path_of(target)
    except BadTarget as error:
        raise Refusal("bad_request", str(error)) from None
    found = CONTROL.search(path)
    if found is not None:
        raise Refusal("bad_request", f"the path has the control character {found[0]!a}")
    return path


def encoded(path: str) -> str:
    """A target with this path: ASCII, and of all such targets always the same."""
    return quote(path, safe=_UNQUOTED)
