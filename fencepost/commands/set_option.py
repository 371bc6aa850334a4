"""The parser of `--set NAME=VALUE`, which may be repeated."""

from collections.abc import Sequence

from fencepost.commands.exit_codes import BadRequest


def pairs(settings: Sequence[str], form: str) -> dict[str, str]:
    """The values by name; `form` describes the syntax, with an example, for the error message."""
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
    """The same, for values that must be whole numbers."""
    found: dict[str, int] = {}
    for name, value in pairs(settings, form).items():
        try:
            found[name] = int(value)
        except ValueError:
            raise BadRequest(f"--set {name}={value}: {value!r} is not a whole number") from None
    return found
