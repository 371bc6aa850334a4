"""What `--set NAME=VALUE`, given any number of times, says."""

from collections.abc import Sequence

from fencepost.commands.ending import BadRequest


def pairs(settings: Sequence[str], form: str) -> dict[str, str]:
    """The values by name; `form` is how they are written, with an example."""
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
    """The same where all values are whole numbers."""
    found: dict[str, int] = {}
    for name, value in pairs(settings, form).items():
        try:
            found[name] = int(value)
        except ValueError:
            raise BadRequest(f"--set {name}={value}: {value!r} is not a whole number") from None
    return found
