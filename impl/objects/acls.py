"""ACLs: canned ones and lists of grants, to what is kept of them and back.

A bucket and an object have one of `access.CANNED`; lists that say anything else are refused. One account
owns everything.
"""

from collections.abc import Mapping
from typing import Any

from fencepost.impl.objects.access import OWNER_ID
from fencepost.impl.objects.object_state import ACLS, AUTHENTICATED_READ, PUBLIC_READ_WRITE
from fencepost.impl.objects.wire.errors import refuse

OWNER = {"ID": OWNER_ID, "DisplayName": OWNER_ID}
EVERYBODY = "http://acs.amazonaws.com/groups/global/AllUsers"
SIGNED = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers"
Grants = frozenset[tuple[str, str]]
_GRANTS: Mapping[str, Grants] = {
    "private": frozenset(),
    "public-read": frozenset({(EVERYBODY, "READ")}),
    PUBLIC_READ_WRITE: frozenset({(EVERYBODY, "READ"), (EVERYBODY, "WRITE")}),
    AUTHENTICATED_READ: frozenset({(SIGNED, "READ")}),
}
"""What each canned ACL grants beside the owner's control."""


def described(acl: str) -> dict[str, Any]:
    """Return the response for a canned ACL."""
    grants: list[tuple[dict[str, str], str]] = [
        ({"Type": "Group", "URI": group}, right) for group, right in sorted(_GRANTS[acl])
    ]
    grants.append(({"Type": "CanonicalUser", **OWNER}, "FULL_CONTROL"))
    return {
        "Owner": OWNER,
        "Grants": [{"Grantee": grantee, "Permission": permission} for grantee, permission in grants],
    }


def wanted(p: Mapping[str, Any]) -> str:
    """Return the canned ACL that a request asks for, by its name or as a list of grants."""
    if "AccessControlPolicy" not in p:
        return checked(p.get("ACL", "private"))
    if "ACL" in p:
        refuse("InvalidRequest", "Specifying both Canned ACLs and Header Grants is not allowed")
    grants = p["AccessControlPolicy"].get("Grants", [])
    found = {(_grantee(grant.get("Grantee", {})), grant.get("Permission", "")) for grant in grants}
    others = found - {(OWNER["ID"], "FULL_CONTROL")}
    acl = next((acl for acl, grants in _GRANTS.items() if grants == others), None)
    if acl is None:
        refuse("NotImplemented", "An ACL grants to groups of everybody only", header="AccessControlPolicy")
    return acl


def _grantee(given: Mapping[str, str]) -> str:
    if "EmailAddress" in given:
        refuse("UnresolvableGrantByEmailAddress")
    if "ID" in given and given["ID"] != OWNER["ID"]:
        refuse("InvalidArgument", "Invalid id", argument="CanonicalUser/ID", value=given["ID"])
    return given.get("URI") or given.get("ID", "")


def checked(acl: str) -> str:
    """Return the canned ACL that a name means: the owner of the bucket is the owner of its objects."""
    if acl not in ACLS:
        code = "NotImplemented" if acl in ("aws-exec-read", "log-delivery-write") else "InvalidArgument"
        refuse(code, argument="x-amz-acl", value=acl)
    return ACLS[acl]
