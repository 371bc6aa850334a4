"""Cross-origin requests: the rules of a bucket, the answer to a preflight, the headers of a response.

A browser shows a page of another origin a response only if its headers allow it, and asks first (`OPTIONS`,
unsigned) before a request that a plain form could not send. The first rule that has the
origin, the method and every header decides; `*` in an origin or a header matches any text.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fencepost.impl.objects.wire.errors import refuse

RULES_MAX = 100
METHODS = ("GET", "PUT", "HEAD", "POST", "DELETE")
VARY = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method"
Rule = Mapping[str, Any]


def checked_rules(rules: Sequence[Rule]) -> Sequence[Rule]:
    """Return the rules of a configuration; refuse what S3 refuses."""
    if not 0 < len(rules) <= RULES_MAX:
        refuse("MalformedXML")
    for rule in rules:
        for method in rule["AllowedMethods"]:
            if method not in METHODS:
                refuse(
                    "InvalidRequest",
                    f"Found unsupported HTTP method in CORS config. Unsupported method is {method[:40]}",
                )
        for name, field in (("AllowedOrigin", "AllowedOrigins"), ("AllowedHeader", "AllowedHeaders")):
            for text in rule.get(field, []):
                if text.count("*") > 1:
                    refuse("InvalidRequest", f'{name} "{text[:200]}" can not have more than one wildcard.')
    return rules


def _matches(pattern: str, text: str, *, folded: bool = False) -> bool:
    if folded:
        pattern, text = pattern.lower(), text.lower()
    start, star, end = pattern.partition("*")
    if not star:
        return pattern == text
    return len(text) >= len(start) + len(end) and text.startswith(start) and text.endswith(end)


def allowed(
    rules: Iterable[Rule], origin: str, method: str, headers: Iterable[str] = ()
) -> dict[str, str] | None:
    """Return the headers that let a page of `origin` see a response; None if no rule allows it."""
    wanted = [*headers]
    for rule in rules:
        pattern = next((one for one in rule["AllowedOrigins"] if _matches(one, origin)), None)
        covers = all(
            any(_matches(one, name, folded=True) for one in rule.get("AllowedHeaders", [])) for name in wanted
        )
        if pattern is None or method not in rule["AllowedMethods"] or not covers:
            continue
        found = {
            "Access-Control-Allow-Origin": "*" if pattern == "*" else origin,
            "Access-Control-Allow-Methods": ", ".join(rule["AllowedMethods"]),
            "Vary": VARY,
        }
        if pattern != "*":
            found["Access-Control-Allow-Credentials"] = "true"
        if wanted:
            found["Access-Control-Allow-Headers"] = ", ".join(wanted)
        if rule.get("ExposeHeaders"):
            found["Access-Control-Expose-Headers"] = ", ".join(rule["ExposeHeaders"])
        if "MaxAgeSeconds" in rule:
            found["Access-Control-Max-Age"] = str(rule["MaxAgeSeconds"])
        return found
    return None


def preflight(rules: Iterable[Rule] | None, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of the answer to a preflight, or refuse it."""
    origin, method = headers.get("origin", ""), headers.get("access-control-request-method", "")
    if not origin:
        refuse("BadRequest", "Insufficient information. Origin request header needed.")
    if method not in METHODS:
        refuse("BadRequest", "Invalid Access-Control-Request-Method: " + re.sub(r"[^\w-]", "?", method[:40]))
    given = headers.get("access-control-request-headers", "")
    wanted = [name.strip() for name in given.split(",") if name.strip()]
    found = None if rules is None else allowed(rules, origin, method, wanted)
    if found is None:
        refuse(
            "AccessForbidden",
            "CORSResponse: CORS is not enabled for this bucket."
            if rules is None
            else "CORSResponse: This CORS request is not allowed.",
        )
    return found
