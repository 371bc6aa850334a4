"""Kinds of values that options have in several commands, each with one name and one unit.

A time is SECONDS, a number of bytes SIZE (`64M`), an address HOST:PORT, a parameter NAME=VALUE.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click

from fencepost.commands.exit_codes import BadRequest
from fencepost.reports.sizes import byte_size, parse_bytes


class FiniteNumber(click.FloatRange):
    """A number that can be calculated with: `nan` and `inf` would be within every range."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number

    def _describe_range(self) -> str:
        return "" if self.min is None and self.max is None else super()._describe_range()


class WholeNumber(click.IntRange):
    """As `click.IntRange`, whose message calls it an integer range."""

    name = "whole number"

    def _describe_range(self) -> str:
        return "" if self.min is None and self.max is None else super()._describe_range()


def strict(kind: click.ParamType[Any]) -> click.ParamType[Any]:
    """Return the type of numbers that refuses everything else; other types as they are."""
    if isinstance(kind, click.FloatRange):
        return FiniteNumber(kind.min, kind.max, kind.min_open, kind.max_open, kind.clamp)
    if isinstance(kind, click.IntRange):
        return WholeNumber(kind.min, kind.max, kind.min_open, kind.max_open, kind.clamp)
    if kind is click.FLOAT:
        return FiniteNumber()
    return WholeNumber() if kind is click.INT else kind


class Size(click.ParamType[int]):
    """A number of bytes: `64M`, `1.5G`, `100000`."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_bytes(value)
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)


SIZE = Size()


def size_option(name: str, default: int, text: str) -> Callable[[Any], Any]:
    """An option for a number of bytes, with its default in words."""
    shown = byte_size(default).replace(" ", "").replace("iB", "").replace(".0", "")
    return click.option(name, type=SIZE, default=default, metavar="SIZE", help=f"{text}  [default: {shown}]")


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class AddressType(click.ParamType[Address]):
    """`127.0.0.1:9000`, `[::1]:0`, `:9000`; port 0 is a free one."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        host, _, port = str(value).rpartition(":")
        if not (port.isascii() and port.isdecimal()) or int(port) > 65535 or host.strip("[]").endswith(":"):
            self.fail(f"{value!r} is no address; write 127.0.0.1:9000.", param, ctx)
        return Address(host.strip("[]") or "127.0.0.1", int(port))


def listen_option(default: str) -> Callable[[Any], Any]:
    return click.option(
        "--listen",
        type=AddressType(),
        default=default,
        show_default=True,
        metavar="HOST:PORT",
        help="Address of the server; port 0 takes a free one.",
    )


def pairs(settings: Sequence[str], form: str) -> dict[str, str]:
    """Return the values of --set by name; `form` is the syntax, with an example, for the error message."""
    found: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise BadRequest(f"--set {setting} must read {form}")
        if name in found:
            raise BadRequest(f"--set gives {name} twice")
        found[name] = value
    return found


def numbers(settings: Sequence[str], form: str) -> dict[str, int]:
    """Return the values of --set by name, which must be whole numbers."""
    found: dict[str, int] = {}
    for name, value in pairs(settings, form).items():
        try:
            found[name] = int(value)
        except ValueError:
            raise BadRequest(f"--set {name}={value}: {value!r} is not a whole number") from None
    return found
