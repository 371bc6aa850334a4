"""`fencepost zoo`: what is switched off must break something, and what is broken must be found."""

import json
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fencepost.commands import zoo
from fencepost.commands.exit_codes import Exit
from tests.commands.elections import ELECTION, package
from tests.commands.running import exit_of

LAMPS = """
from fencepost.model import Each, Enum, Machine, Size, Truth, action, invariant, may_end, without

class Lamps(Machine):
    lamps = Size(2, most=8)
    SWITCHES
    lamp = Each(lamps, Enum("off", "on"))

    def is_dark(s, i) -> Truth:
        return ~s.lamp.any("on")

    def is_still_dark(s, i) -> Truth:
        return ~s.lamp.any("on")

    def is_day(s) -> Truth:
        return Truth.constant(True)

    VARIANTS

    @action(i=lamps)
    def light(s, i):
        s.require(s.lamp[i] == "off")
        GUARDS
        s.lamp[i] = "on"

    @invariant
    def never_all(s) -> Truth:
        return NEVER

    @may_end
    def lit(s) -> Truth:
        return s.lamp.any("on")
"""
ONE = "s.require(s.is_dark(i))"
VARIANTS = {
    "one-by-one": 'always = without("one-by-one", replaces=is_dark)(lambda s, i: True)',
    "twice": 'ever = without("twice", replaces=is_still_dark)(lambda s, i: True)',
    "daylight": 'night = without("daylight", replaces=is_day)(lambda s: True)',
}
NEVER_ALL = '~s.lamp.all("on")'
PROGRAMS = f"""{ELECTION}
def broken(world):
    start(world, badly)

def tempting_to_say_so(world):
    start(world, badly)

@audit(processes=2, crash=0)
def fixed(world):
    start(world, well)
"""


ends = partial(exit_of, "zoo")


def rows(target: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(target.read_text())["rows"]
    return found


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A zoo of one program, in a package of its own."""
    file = package("bad_election", PROGRAMS, tmp_path, monkeypatch)
    monkeypatch.setattr(zoo, "PROGRAMS", file.parent.name)
    return file.parent


@pytest.mark.slow
def test_every_safeguard_of_every_shipped_model_is_needed() -> None:
    """If this fails, a model has a protective step that protects nothing, or a property has a hole."""
    assert ends() == Exit.HOLDS


def test_a_row_tells_what_breaks_and_after_how_many_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "r.json"
    assert ends("two-phase", "--json", str(target)) == Exit.HOLDS
    found = rows(target)
    assert all(set(row) >= {"model", "safeguard", "property", "length", "seconds", "found"} for row in found)
    assert [(row["safeguard"], row["property"], row["length"], row["found"]) for row in found] == [
        ("", "", 0, False),
        ("all-prepared", "agreement", 3, True),
        ("no-abort-once-prepared", "agreement", 9, True),
    ]
    output = capsys.readouterr().out
    assert "two-phase without all-prepared                   breaks agreement in 3 steps" in output
    assert output.splitlines()[0] == "holds: 3 rows, 0 of them unexpected"


def machine(tmp_path: Path, switches: str, *guards: str, never: str = NEVER_ALL) -> str:
    """The file of a machine with these safeguards, kept by these guards."""
    text = LAMPS.replace("SWITCHES", switches).replace("GUARDS", "\n        ".join(guards))
    variants = [variant for switch, variant in VARIANTS.items() if switch in switches]
    text = text.replace("VARIANTS", "\n    ".join(variants))
    file = tmp_path / "lamps.py"
    file.write_text(text.replace("NEVER", never))
    return str(file)


def test_a_safeguard_that_protects_nothing_is_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(machine(tmp_path, 'safeguards = {"one-by-one": "only while none is lit"}', ONE)) == Exit.HOLDS
    both = 'safeguards = {"one-by-one": "only while none is lit", "twice": "the same again"}'
    doubled = machine(tmp_path, both, ONE, "s.require(s.is_still_dark(i))")
    assert ends(doubled) == Exit.VIOLATED
    output = capsys.readouterr().out
    assert output.count("NOTHING BREAKS: dead weight, or a hole in the properties") == 2
    assert "violated: 3 rows, 2 of them unexpected" in output.splitlines()


def test_a_model_that_does_not_hold_makes_the_rest_worthless(tmp_path: Path) -> None:
    target = tmp_path / "r.json"
    switches = 'safeguards = {"one-by-one": "only while none is lit"}'
    broken = machine(tmp_path, switches, ONE, never='~s.lamp.any("on")')
    assert ends(broken, "--json", str(target)) == Exit.VIOLATED
    assert [row["unexpected"] for row in rows(target)] == [True, False]


def test_assumptions_are_reported_and_never_blamed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    switches = 'assumptions = {"one-by-one": "people light one", "daylight": "people can see"}'
    file = machine(tmp_path, switches, "s.require(s.is_dark(i), s.is_day())")
    assert ends(file) == Exit.HOLDS
    output = capsys.readouterr().out
    assert "without one-by-one" in output
    assert "breaks never_all in 2 steps" in output
    assert "nothing breaks: the protocol does not need it within these sizes" in output
    target = tmp_path / "r.json"
    assert ends(file, "--no-assumptions", "--json", str(target)) == Exit.HOLDS
    assert [row["safeguard"] for row in rows(target)] == [""]


def test_a_limit_decides_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert ends("two-phase", "--max-states", "3") == Exit.UNDECIDED
    assert "undecided: a limit was hit first" in capsys.readouterr().out


def test_programs_broken_are_found_and_fixed_are_proven(
    programs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "r.json"
    assert ends("--programs", "--json", str(target)) == Exit.HOLDS
    found = rows(target)
    assert [(row["model"], row["safeguard"], row["verdict"], row["length"]) for row in found] == [
        ("bad-election", "broken", "violated", 6),
        ("bad-election", "to-say-so", "violated", 6),
        ("bad-election", "", "holds", 0),
    ]
    assert found[0]["property"] == "one leader"
    assert found[0]["counterexample"][-1] == "  => one leader: the check returned False"
    bound, _, left_out = found[2]["bound"].partition("not tried: ")
    assert "crash" in left_out
    assert "crash" not in bound, "the faults a program brings with it are used"
    assert "bad-election fixed " in capsys.readouterr().out


def test_what_is_on_boto3_is_a_system_of_its_own(programs: Path, tmp_path: Path) -> None:
    """Else the second program of a name would silently take the place of the first."""
    more = "".join(
        f"\ndef {name}_boto3(world):\n    start(world, {how})\n"
        for name, how in (("broken", "badly"), ("fixed", "well"))
    )
    (programs / "bad_election.py").write_text(PROGRAMS + more)
    target = tmp_path / "r.json"
    assert ends("--programs", "--json", str(target)) == Exit.HOLDS
    assert [(row["model"], row["safeguard"]) for row in rows(target)] == [
        ("bad-election", "broken"),
        ("bad-election", "to-say-so"),
        ("bad-election", ""),
        ("bad-election-boto3", "broken"),
        ("bad-election-boto3", ""),
    ]


def test_a_broken_program_that_is_not_found_is_a_failure(
    programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (programs / "bad_election.py").unlink()
    (programs / "missed.py").write_text(PROGRAMS.replace("start(world, badly)", "start(world, well)"))
    (programs / "never_fixed.py").write_text(PROGRAMS.replace("start(world, well)", "start(world, badly)"))
    assert ends("--programs", "missed") == Exit.VIOLATED
    assert capsys.readouterr().out.count("NOT FOUND: every schedule holds") == 2
    assert ends("--programs", "never-fixed") == Exit.VIOLATED
    assert capsys.readouterr().out.splitlines()[0] == "violated: 3 rows, 1 of them unexpected"


def test_an_interrupt_keeps_the_rows_so_far(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "r.json"
    rows_made = zoo.program_rows

    def interrupted(name: str | None, seconds: float) -> Any:
        yield next(rows_made(name, seconds))
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(zoo, "program_rows", interrupted)
    assert ends("--programs", "--json", str(target)) == Exit.UNDECIDED
    assert len(rows(target)) == 1


def test_the_list_names_models_and_programs(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends("--list") == Exit.HOLDS
    output = capsys.readouterr().out
    assert "model two-phase: all-prepared, no-abort-once-prepared" in output
    assert "program bad-election: A leader, elected badly and well." in output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["two-fase"], "no model is called 'two-fase'"),
        (["--programs", "x"], "the zoo holds no program 'x'; it holds: bad-election"),
        (["--programs", "--max-states", "3"], "leave out them or --programs"),
        (["--programs", "--no-assumptions"], "leave out them or --programs"),
        (["--budget", "3"], "give --programs or --properties with it"),
        (["--properties", "--programs"], "leave out --programs and --no-assumptions"),
    ],
)
def test_an_invalid_request_is_one_line(
    words: list[str], says: str, programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(*words) == Exit.BAD_REQUEST
    output = capsys.readouterr().err
    assert says in output
    assert output.count("\n") == 1


@pytest.mark.slow
def test_every_program_of_the_zoo_is_found_broken_and_passes_fixed(tmp_path: Path) -> None:
    """Each of these became, somewhere, lost or doubled data."""
    target = tmp_path / "r.json"
    assert ends("--programs", "--json", str(target)) == Exit.HOLDS
    assert all(row["seconds"] < 60 for row in rows(target))


def test_a_property_has_the_change_that_breaks_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "r.json"
    assert ends("--properties", "two-phase", "--json", str(target)) == Exit.HOLDS
    found = {row["property"]: (row["safeguard"], row["length"], row["kind"]) for row in rows(target)}
    assert found["agreement"] == ("without all-prepared", 3, "property")
    assert found["all_commit"] == ("commit never happens", 0, "property")
    output = capsys.readouterr().out
    assert (
        "two-phase agreement                              broken: without all-prepared, in 3 steps" in output
    )


def test_a_property_that_nothing_breaks_is_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = machine(tmp_path, "", never='s.lamp.any("on") | ~s.lamp.any("on")')
    assert ends("--properties", file) == Exit.VIOLATED
    output = " ".join(capsys.readouterr().out.split())
    assert f"{file} never_all NOTHING BREAKS IT (4 changes tried)" in output
    assert "make it stronger, give the model that step, or remove it" in output


def test_without_time_a_property_is_not_decided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = machine(tmp_path, "", never="s.lamp.count('on') >= 0")
    assert ends("--properties", file, "--budget", "0.000001") == Exit.UNDECIDED
    assert "not broken yet: the time was over (0 changes tried, 4 left)" in capsys.readouterr().out


def test_a_model_that_is_violated_has_no_table_of_properties(tmp_path: Path) -> None:
    assert ends("--properties", machine(tmp_path, "")) == Exit.BAD_REQUEST
