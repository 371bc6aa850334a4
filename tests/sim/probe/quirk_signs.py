"""Signs in the rows of a probe by which a quirk of `fencepost objects serve --quirk` is known."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Sign(NamedTuple):
    """A row that has one of these verdicts, if they are named, and this text in its detail."""

    row: str
    verdicts: str = ""
    text: str = ""


_ONE_WINS = "safe undecided"
SIGNS: Mapping[str, tuple[tuple[Sign, ...], ...]] = {
    "put-if-none-match-ignored": (
        (Sign("create-only-put", "unsafe", "ignored|both won|as if it were missing"),),
    ),
    "put-if-match-ignored": ((Sign("if-match-put", "unsafe", "wrote over a newer version"),),),
    "delete-if-match-ignored": ((Sign("if-match-delete", "unsafe", "deleted a newer version"),),),
    "complete-conditions-ignored": (
        (
            Sign("create-only-complete", "unsafe", "completed over an existing object"),
            Sign("if-match-complete", "unsafe", "completed over a newer version"),
        ),
    ),
    "conditions-refused": ((Sign("create-only-put", "unsupported"), Sign("if-match-put", "unsupported")),),
    "conditions-raced": (
        (Sign("create-only-put", _ONE_WINS), Sign("racing-creates-threads", "unsafe")),
        (Sign("create-only-put", _ONE_WINS), Sign("racing-creates-processes", "unsafe")),
        (Sign("if-match-put", _ONE_WINS), Sign("counter-threads", "unsafe")),
        (Sign("if-match-put", _ONE_WINS), Sign("counter-processes", "unsafe")),
    ),
    "conflict-for-failed": ((Sign("create-only-put", "undecided", "409 ConditionalRequestConflict"),),),
    "quoted-if-match-fails": ((Sign("etag-forms", "", "matches ETags without quotes only"),),),
    "if-match-creates": ((Sign("if-match-put", "unsafe", "created a (missing|deleted) object"),),),
    "missing-as-changed": (
        (Sign("if-match-put", "", r"says changed \(412\) where S3 says missing \(404\)"),),
    ),
    "weak-etags": ((Sign("etags", "", "weak ETag"),),),
    "unquoted-etags": ((Sign("etag-forms", "", "replies have ETags without quotes"),),),
    "listing-unordered": ((Sign("listing-order", "unsupported", "not in byte order"),),),
    "listing-delayed": ((Sign("list-after-write", "unsafe"), Sign("list-after-delete", "unsafe")),),
    "versions-missing": ((Sign("versioned-bucket", "unsupported"),),),
}
"""For each quirk, alternatives: all signs of one of them are there."""


def quirks_of(rows: Iterable[tuple[str, str, str]]) -> list[str]:
    """Return the quirks whose signs are in these rows, which are names, verdicts and details.

    A row that does not apply is no sign: leave it out.
    """
    found = {name: (verdict, detail) for name, verdict, detail in rows}

    def shown(sign: Sign) -> bool:
        if sign.row not in found:
            return False
        verdict, detail = found[sign.row]
        return verdict in (sign.verdicts.split() or [verdict]) and re.search(sign.text, detail) is not None

    return [
        quirk
        for quirk, alternatives in SIGNS.items()
        if any(all(map(shown, signs)) for signs in alternatives)
    ]
