"""ACLs: canned ones and lists of grants, to what is kept of them and back.

A bucket has one of `access.BUCKET_ACLS`, an object is public or private. Lists that say anything else are
refused. One account owns everything.
"""

from collections.abc import Mapping
from typing import Any

from fencepost.impl.objects import object_state
from fencepost.impl.objects.access import AUTHENTICATED, BUCKET_ACLS, EVERYBODY_WRITES
from fencepost.impl.objects.wire.errors import refuse

OWNER = {"ID": "fencepost", "DisplayName": "fencepost"}
EVERYBODY = "http://acs.amazonaws.com/groups/global/AllUsers"
SIGNED = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers"
Grants = frozenset[tuple[str, str]]
_GRANTS: Mapping[str, Grants] = {
    "private": frozenset(),
    "public-read": frozenset({(EVERYBODY, "READ")}),
    EVERYBODY_WRITES: frozenset({(EVERYBODY, "READ"), (EVERYBODY, "WRITE")}),
    AUTHENTICATED: frozenset({(SIGNED, "READ")}),
}
"""What each canned ACL grants beside the owner's control."""


def described(acl: str) -> dict[str, Any]:
    """Return the response for a canned ACL."""
    grants: list[tuple[dict[str, str], str]] = [({"Type": "CanonicalUser", **OWNER}, "FULL_CONTROL")]
    grants += [({"Type": "Group", "URI": group}, right) for group, right in sorted(_GRANTS[acl])]
    return {
        "Owner": OWNER,
        "Grants": [{"Grantee": grantee, "Permission": permission} for grantee, permission in grants],
    }


def of_bucket(p: Mapping[str, Any]) -> str:
    """Return the canned ACL of a bucket that a request asks for."""
    acl: str = _canned(p) if "AccessControlPolicy" in p else p.get("ACL", "private")
    if acl not in BUCKET_ACLS:
        refuse(
            "NotImplemented", f"The ACL of a bucket is one of {', '.join(BUCKET_ACLS)}", header="x-amz-acl"
        )
    return acl


def of_object(p: Mapping[str, Any]) -> str:
    """Return the access that a canned ACL or a list of grants requests for an object."""
    if "AccessControlPolicy" not in p:
        return object_state.access_of(p) or object_state.PRIVATE
    acl = _canned(p)
    if acl not in ("private", "public-read"):
        refuse("NotImplemented", "An ACL is private or public-read", header="AccessControlPolicy")
    return object_state.PUBLIC if acl == "public-read" else object_state.PRIVATE


def _canned(p: Mapping[str, Any]) -> str:
    """Return the canned ACL that equals a list of grants."""
    if "ACL" in p:
        refuse("InvalidRequest", "Specifying both Canned ACLs and Header Grants is not allowed")
    found = {
        (grant.get("Grantee", {}).get("URI") or grant.get("Grantee", {}).get("ID"), grant.get("Permission"))
        for grant in p["AccessControlPolicy"].get("Grants", [])
    }
    others = found - {(OWNER["ID"], "FULL_CONTROL")}
    acl = next((acl for acl, grants in _GRANTS.items() if grants == others), None)
    if acl is None:
        refuse("NotImplemented", "An ACL grants to groups of everybody only", header="AccessControlPolicy")
    return acl
