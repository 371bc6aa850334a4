"""One name and one unit for each kind of option, across all commands."""

import math
from collections import defaultdict
from collections.abc import Iterator

import click
import pytest

from fencepost.commands.entry import group
from fencepost.commands.values import SIZE, AddressType, FiniteNumber

SEVERAL = {"--base", "--from", "--out", "--resume", "--set", "--key"}
"""Names that two commands use for two kinds: the commands have no other thing in common."""
UNITS = ("-s", "-ms", "-ns", "-seconds", "-bytes", "-mib", "-mb", "-minutes")


def options() -> Iterator[tuple[str, click.Option]]:
    def below(command: click.Command, words: str) -> Iterator[tuple[str, click.Option]]:
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                yield from below(inner, f"{words} {name}".strip())
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.is_flag:
                yield words, parameter

    return below(group, "")


EVERY = list(options())


def test_an_option_takes_the_same_everywhere() -> None:
    kinds: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for words, option in EVERY:
        kinds[option.opts[0]][option.metavar or option.type.name].append(words)
    differ = {name: dict(found) for name, found in kinds.items() if len(found) > 1 and name not in SEVERAL}
    assert differ == {}


def test_a_unit_is_in_the_value_and_not_in_the_name() -> None:
    assert [option.opts[0] for _, option in EVERY if option.opts[0].endswith(UNITS)] == []


def test_every_time_is_seconds_and_every_number_is_finite() -> None:
    """A number that is no time and need not be whole is a share."""
    for words, option in EVERY:
        if isinstance(option.type, click.types.FloatParamType | click.FloatRange):
            assert isinstance(option.type, FiniteNumber), f"{words} {option.opts[0]}"
            assert option.metavar in ("SECONDS", "SHARE"), f"{words} {option.opts[0]}"


def test_every_option_has_a_name_for_its_value_and_a_help() -> None:
    for words, option in EVERY:
        assert option.metavar or isinstance(option.type, click.Choice | click.types.StringParamType), (
            f"{words} {option.opts[0]}"
        )
        assert option.help or isinstance(option.type, click.Choice), f"{words} {option.opts[0]}"


@pytest.mark.parametrize(("text", "size"), [("64M", 64 << 20), ("1.5G", 3 << 29), ("7", 7)])
def test_a_size_has_a_unit(text: str, size: int) -> None:
    assert SIZE.convert(text, None, None) == size


def test_an_address_names_host_and_port() -> None:
    read = AddressType().convert
    assert [str(read(text, None, None)) for text in ("h:1", ":2", "[::1]:0")] == [
        "h:1",
        "127.0.0.1:2",
        "::1:0",
    ]
    for text in ("", "h", "h:", "h:x", "h:65536", "h:²", ":::"):
        with pytest.raises(click.BadParameter, match="is no address"):
            read(text, None, None)


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999", "x"])
def test_no_number_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not "):
        FiniteNumber(0).convert(text, None, None)
    assert math.isfinite(FiniteNumber(0).convert("0.5", None, None))
