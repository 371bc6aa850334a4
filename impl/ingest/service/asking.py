"""What a request says, read strictly: who asks, and which batch it is about."""

from urllib.parse import parse_qsl

from fencepost.impl.ingest.errors import IdentityError
from fencepost.impl.ingest.identity import SEQ_MAX, Identity
from fencepost.impl.ingest.service.answers import Refusal
from fencepost.impl.ingest.service.bodies import Headers
from fencepost.impl.ingest.service.tokens import Tokens, Who

IDENTITY = ("agent_id", "boot_id", "seq_start", "seq_end")
TOKEN_BYTES_MAX = 512


def who(headers: Headers, tokens: Tokens) -> Who:
    """Whose bearer token came with the request."""
    given = [value for name, value in headers if name.lower() == b"authorization"]
    if len(given) != 1:
        raise Refusal("unauthenticated", "send one Authorization header: Bearer <token>")
    scheme, _, token = given[0].decode("latin-1").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not 0 < len(token) <= TOKEN_BYTES_MAX:
        raise Refusal("unauthenticated", "the Authorization header is not of the form: Bearer <token>")
    found = tokens.who(token)
    if found is None:
        raise Refusal("unauthenticated", "the bearer token is unknown here; it may have been revoked")
    return found


def agent(headers: Headers, tokens: Tokens) -> str:
    found = who(headers, tokens)
    if found.role != "agent":
        raise Refusal("wrong_agent", "this token is an operator's; batches are sent with an agent's")
    return found.name


def operator(headers: Headers, tokens: Tokens) -> str:
    found = who(headers, tokens)
    if found.role != "operator":
        raise Refusal("not_operator", "this token is an agent's; conflicts are seen to with an operator's")
    return found.name


def query(raw: bytes, known: tuple[str, ...], needed: tuple[str, ...] = ()) -> dict[str, str]:
    """The parameters behind the question mark: all known, none twice, none of `needed` missing."""
    try:
        pairs = parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(raw),
            errors="strict",
            max_num_fields=16,
        )
    except ValueError:
        raise Refusal("bad_request", "the query is not of the form name=value&name=value in UTF-8") from None
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Refusal("bad_identity", "the query gives a parameter twice; give each once")
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise Refusal("bad_request", f"the query has {unknown[0][:40]!a}; known are {', '.join(known)}")
    missing = [name for name in needed if name not in found]
    if missing:
        raise Refusal("bad_identity", f"the query lacks {missing[0]}; needed are {', '.join(needed)}")
    return found


def identity(raw: bytes) -> Identity:
    """The batch that the query names."""
    found = query(raw, IDENTITY, IDENTITY)
    return named(found["agent_id"], found["boot_id"], *(whole(found[name], name) for name in IDENTITY[2:]))


def named(agent_id: str, boot_id: str, seq_start: int, seq_end: int) -> Identity:
    if seq_end < seq_start:
        raise Refusal("bad_sequence", f"seq_end {seq_end} lies before seq_start {seq_start}")
    if seq_end > SEQ_MAX:
        raise Refusal("bad_sequence", f"seq_end {seq_end} is beyond {SEQ_MAX}")
    try:
        return Identity(agent_id, boot_id, seq_start, seq_end)
    except IdentityError as error:
        raise Refusal("bad_identity", str(error)) from None


def whole(text: str, name: str) -> int:
    """A whole number in decimal digits, and nothing around them."""
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise Refusal("bad_identity", f"{name} is {text[:40]!a}; send a whole number in up to 20 digits")
    return int(text)
