"""Options and checks that the commands of several servers share: TLS, tokens, who can reach the address."""

import contextlib
import ipaddress
import os
import ssl
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import click

from fencepost.commands.exit_codes import BadRequest
from fencepost.commands.operating import Act, Parameter, Result
from fencepost.commands.values import Address
from fencepost.impl.environment import SystemEnvironment

ENV = SystemEnvironment()
RIGHTS_HELP = "read, append, create, delete"
TLS: tuple[Parameter, ...] = (
    click.option(
        "--tls-certificate", "certificate", metavar="FILE", help="Use TLS, with this certificate (PEM)."
    ),
    click.option("--tls-key", "key", metavar="FILE", help="Key of the certificate."),
)


def check_reach(listen: Address, tokens: str | None, *, anonymous: bool, system: str, risk: str) -> None:
    """Refuse an address that other machines reach, unless there are tokens or none are wanted."""
    if anonymous and tokens is not None:
        raise BadRequest("--anonymous serves without tokens; leave it or --tokens out")
    if not (anonymous or tokens is not None or is_local(listen.host)):
        raise BadRequest(
            f"--listen {listen} can be reached by other machines, and everyone could {risk}: "
            f"give --tokens FILE (see `fencepost {system} enrol`), or --anonymous"
        )


def check_tls(certificate: str | None, key: str | None) -> None:
    """Before there are workers, each of which would fail and be started again."""
    if (certificate is None) != (key is None):
        raise BadRequest("--tls-certificate and --tls-key come together")
    if certificate is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
        except OSError as error:
            raise BadRequest(f"cannot set up TLS: {error}; correct --tls-certificate and --tls-key") from None


def is_local(host: str) -> bool:
    """True if only this machine can reach a server that listens there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextlib.contextmanager
def token_errors() -> Iterator[None]:
    from fencepost.impl.http.tokens import BadTokens

    try:
        yield
    except BadTokens as error:
        raise BadRequest(str(error)) from None


def private_file(file: str) -> IO[str]:
    """Opened before there is a token to lose, and never over another file."""
    try:
        return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w")
    except OSError as error:
        raise BadRequest(f"cannot write {file}: {error.strerror}; give --token-file a new file") from None


def handed_out(make: Callable[[], str], out_file: str | None) -> str:
    """Make a token, and write it to the file, readable only by its owner; or return it to be printed."""
    if out_file is None:
        return make()
    with private_file(out_file) as out:
        try:
            out.write(f"{make()}\n")
        except BadRequest:
            Path(out_file).unlink()
            raise
    return ""


def add_token_commands(
    subcommand: Callable[..., Callable[[Act], click.Command]], system: str, below: str
) -> None:
    """`enrol` and `revoke` of a server whose tokens have rights below prefixes, such as `below`."""
    maker = f"fencepost {system} enrol"

    @subcommand(
        "enrol",
        "Make a token.",
        click.argument("file"),
        click.argument("name"),
        click.option(
            "--grant",
            "grants",
            multiple=True,
            required=True,
            metavar="PREFIX=RIGHTS",
            help=f"What it may do below a prefix: {RIGHTS_HELP}. Repeatable. Example: {below}=read,append.",
        ),
        click.option(
            "--token-file",
            "out_file",
            metavar="FILE",
            help="Write the token there, readable only by you.  [default: print it]",
        ),
    )
    def enrol(file: str, name: str, grants: Sequence[str], out_file: str | None) -> Result:
        """Add a token of NAME to FILE, which keeps only its hash: the token itself appears this once. Servers
        that use FILE accept it at once.
        """
        from fencepost.impl.http.tokens import Holder, grants_file

        holder = Holder(name, tuple(_grant(one) for one in grants))

        def make() -> str:
            with token_errors():
                return grants_file(Path(file), maker).enrol(holder, ENV)

        token = handed_out(make, out_file)
        return Result({}, token or f"{name} is enrolled in {file}; its token is in {out_file}")

    @subcommand("revoke", "Revoke tokens.", click.argument("file"), click.argument("name"))
    def revoke(file: str, name: str) -> Result:
        """Remove all tokens of NAME from FILE, or the one token whose part before the dot is NAME."""
        from fencepost.impl.http.tokens import grants_file

        with token_errors():
            count = grants_file(Path(file), maker).revoke(name) if Path(file).exists() else 0
        return revoked(file, name, count)


def revoked(file: str, name: str, count: int) -> Result:
    if not count:
        raise BadRequest(f"{file} has no token of {name!r}")
    return Result({}, f"revoked {count} {'token' if count == 1 else 'tokens'} of {name}")


def _grant(text: str) -> tuple[str, frozenset[str]]:
    from fencepost.impl.http.tokens import RIGHTS

    prefix, equals, listed = text.rpartition("=")
    rights = frozenset(listed.split(","))
    if not equals or not prefix.startswith("/") or not rights <= {*RIGHTS}:
        raise BadRequest(
            f"--grant {text}: give a prefix that begins with /, and rights of {RIGHTS_HELP}, "
            "as /orders=read,append"
        )
    return prefix, rights


def open_tokens(file: str | None, system: str) -> Any:
    """The tokens of the file, or None."""
    from fencepost.impl.http.tokens import Tokens, grants_file

    if file is None:
        return None
    with token_errors():
        return Tokens(grants_file(Path(file), f"fencepost {system} enrol"))
