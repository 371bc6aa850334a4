"""The demands of every server of ours, and of the proxy, on the head of a request, beyond its syntax.

The parser (llhttp) checks the syntax: line ends, names, lengths, codings. A request with two hosts, or with
none, can be read in two ways by two servers; so can a target that is not ASCII.
"""


def is_clear(version: str, hosts: int, target: bytes) -> bool:
    """Return True if a request of this HTTP version with this number of Host headers has one meaning only."""
    return (version, hosts) in (("1.1", 1), ("1.0", 0), ("1.0", 1)) and target.isascii()
