"""`fencepost check`: verdicts, counterexamples, bounds, a user's own file, refused requests."""

import json
import re
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fencepost.commands.exit_codes import Exit
from fencepost.commands.models import SHIPPED
from tests.commands.running import exit_of

LAMPS = """
from fencepost.model import Each, Enum, Machine, Size, Truth, action, invariant, may_end, without

class Lamps(Machine):
    lamps = Size(2, most=8)
    safeguards = {"one-by-one": "a lamp is lit only while none is"}
    lamp = Each(lamps, Enum("off", "on"))

    def may_switch_on(s) -> Truth:
        return ~s.lamp.any("on")

    always = without("one-by-one", replaces=may_switch_on)(lambda s: True)

    @action(i=lamps)
    def light(s, i):
        s.require(s.lamp[i] == "off")
        s.require(s.may_switch_on())
        s.lamp[i] = "on"

    @action
    def explode(s):
        s.require(s.lamp[0] == "on", s.lamp[0] == "off")

    @invariant
    def never_all(s) -> Truth:
        '''Never are all lamps lit.'''
        return ~s.lamp.all("on")

    @may_end
    def lit(s) -> Truth:
        return s.lamp.any("on")
"""


ends = partial(exit_of, "check")


@pytest.fixture
def lamps(tmp_path: Path) -> str:
    file = tmp_path / "lamps.py"
    file.write_text(LAMPS)
    return str(file)


def result(target: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(target.read_text())
    return found


def test_a_model_that_holds_says_so_with_its_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "r.json"
    assert ends("two-phase", "--set", "managers=5", "--json", str(target)) == Exit.HOLDS
    output = capsys.readouterr().out
    assert "8,832 distinct states" in output
    assert output.splitlines()[0] == "holds: two-phase managers=5: 5 properties"
    found = result(target)
    assert (found["verdict"], found["distinct"], found["parameters"]) == ("holds", 8832, {"managers": 5})
    assert list(found)[:10] == [
        "model", "parameters", "without", "verdict", "distinct",
        "generated", "depth", "seconds", "peak_bytes", "properties",
    ]  # fmt: skip
    assert all(set(row) >= {"name", "kind", "verdict", "trace"} for row in found["properties"])
    assert sum(found["coverage"].values()) > 0


def test_a_safeguard_off_shows_the_shortest_counterexample(
    lamps: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(f"{lamps}:Lamps", "--without", "one-by-one") == Exit.VIOLATED
    output = capsys.readouterr().out
    assert "never_all is violated: Never are all lamps lit." in output
    assert (
        "  0. start  lamp: [off, off]\n"
        "  1. light(i=1)  lamp[1]: off -> on\n"
        "  2. light(i=0)  lamp[0]: off -> on\n"
    ) in output
    assert output.splitlines()[0].endswith(" without one-by-one: never_all")
    assert output.splitlines()[-1] == f"fencepost check {lamps}:Lamps --without one-by-one"


def test_an_action_that_never_fires_is_a_warning_and_under_strict_a_violation(
    lamps: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert ends(lamps) == Exit.HOLDS
    assert "warning: explode never fired" in capsys.readouterr().out
    target = tmp_path / "r.json"
    assert ends(lamps, "--strict", "--json", str(target)) == Exit.VIOLATED
    assert "explode-fires is violated" in capsys.readouterr().out
    assert [row["name"] for row in result(target)["properties"] if row["verdict"] == "violated"] == [
        "explode-fires"
    ]


LARGE = ("publish", "ingest", "streams", "lifecycle", "lifecycle-seeding", "lifecycle-notified", "cursor")
"""tests/model explores these at their default sizes, and which of their actions fire there."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LARGE else []) for name in SHIPPED]
)
def test_a_shipped_model_holds_under_strict(name: str) -> None:
    assert exit_of("check", name, "--strict") == Exit.HOLDS


def test_what_a_stopped_search_did_not_see_is_no_warning(
    lamps: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a violation the rest was not explored, so nothing is known about it."""
    assert ends(lamps, "--without", "one-by-one", "--strict") == Exit.VIOLATED
    output = capsys.readouterr().out
    assert "never fired" not in output
    assert "explode-fires" not in output


def test_a_bound_that_is_hit_decides_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert ends("two-phase", "--set", "managers=7", "--max-states", "100") == Exit.UNDECIDED
    assert capsys.readouterr().out.splitlines()[0].startswith("undecided")


def test_symmetry_keeps_the_verdict_and_says_what_it_saved(capsys: pytest.CaptureFixture[str]) -> None:
    assert ends("two-phase", "--set", "managers=5", "--symmetry") == Exit.HOLDS
    output = capsys.readouterr().out
    assert "note: " in output
    assert "8,832 distinct" not in output


def test_random_walks_find_and_never_prove(lamps: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [lamps, "--walks", "100", "--steps", "5"]
    assert ends(*words, "--without", "one-by-one", "--seed", "4") == Exit.VIOLATED
    assert (
        capsys.readouterr()
        .out.splitlines()[-1]
        .endswith("--walks 100 --steps 5 --without one-by-one --seed 4")
    )
    assert ends(*words) == Exit.UNDECIDED


def test_json_to_standard_output_leaves_it_to_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert ends("two-phase", "--json", "-") == Exit.HOLDS
    output = capsys.readouterr()
    assert json.loads(output.out)["distinct"] == 288
    assert "288 distinct states" in output.err


def test_the_list_names_models_sizes_and_safeguards(capsys: pytest.CaptureFixture[str]) -> None:
    assert ends("--list") == Exit.HOLDS
    output = capsys.readouterr().out
    assert "two-phase" in output
    assert "managers=3" in output
    assert "safeguard all-prepared" in output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "name the model to check"),
        (["two-fase"], "no model is called 'two-fase'; known: two-phase"),
        (["no/such.py"], "there is no file no/such.py"),
        (["two-phase", "--set", "managers"], "must read NAME=N"),
        (["two-phase", "--set", "managers=many"], "'many' is not a whole number"),
        (["two-phase", "--set", "managers=1", "--set", "managers=2"], "gives managers twice"),
        (["two-phase", "--set", "manager=2"], "did you mean 'managers'?"),
        (["two-phase", "--set", "managers=1000"], "outside"),
        (["two-phase", "--without", "all-prepare"], "did you mean 'all-prepared'?"),
        (["two-phase", "--memory", "much"], "'much' is no size; write 500M or 4G"),
        (["two-phase", "--memory", "0"], "is no size"),
        (["two-phase", "--seed", "1"], "give --walks N with it"),
        (["two-phase", "--walks", "9", "--symmetry"], "leave out either it or --walks"),
        (["two-phase", "--walks", "9", "--resume", "d"], "leave out either it or --walks"),
        *(
            (["two-phase", "--explore", *option], "leave out either it or --explore")
            for option in (
                ["--resume", "d"],
                ["--strict"],
                ["--keep-going"],
                ["--symmetry"],
                ["--exact"],
                ["--no-deadlock"],
                ["--max-states", "9"],
                ["--memory", "1G"],
            )
        ),
        (["two-phase", "--engine", "spark", "--resume", "d"], "does not run on --engine spark"),
        (["two-phase", "--resume", "/dev/null/d"], "cannot record the search in /dev/null/d"),
        (["two-phase", "--explore", "--json", "-"], "leave out --json and --walks"),
        (["two-phase", "--json", "/no/such/dir/r.json"], "cannot write /no/such/dir/r.json"),
    ],
)
def test_an_invalid_request_is_one_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(*words) == Exit.BAD_REQUEST
    output = capsys.readouterr().err
    assert says in output
    assert output.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "wanted", "says"),
    [
        ("class Broken(\n", "", "broken.py:1: the file cannot be loaded: SyntaxError"),
        ("x = 1\n\ny = 1 / 0\n", "", "broken.py:3: the file cannot be loaded: ZeroDivisionError"),
        ("x = 1\n", "", "it holds: none"),
        (LAMPS, ":Lamp", "holds no machine 'Lamp'; it holds: Lamps"),
        (LAMPS + "\nclass More(Lamps):\n    pass\n", "", "choose a machine"),
        (LAMPS.replace('"off")\n        s.require', '"of")\n        s.require'), "", "'of'"),
        (LAMPS.replace("s.lamp.all", "s.lampe.all"), "", "`lampe`"),
    ],
)
def test_a_mistake_in_a_users_file_is_one_line_with_its_place(
    text: str, wanted: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broken.py"
    file.write_text(textwrap.dedent(text))
    assert ends(f"{file}{wanted}") == Exit.BAD_REQUEST
    output = capsys.readouterr().err
    assert says in output
    assert "broken.py" in output
    assert output.count("\n") == 1


def test_a_small_model_is_reported_whole(tmp_path: Path) -> None:
    """A picture of its states needs all of them and every step; of a large one, there is none."""
    target = tmp_path / "out.json"
    assert ends("peterson", "--json", str(target)) == Exit.HOLDS
    found = json.loads(target.read_text())
    assert len(found["graph"]["states"]) == found["distinct"] == 32
    assert len(found["graph"]["steps"]) == found["generated"] - 1  # the initial state is generated too
    assert ends("two-phase", "--json", str(target)) == Exit.HOLDS
    assert "graph" not in json.loads(target.read_text())


def test_a_memory_limit_that_cannot_be_kept_is_refused_with_the_smallest_that_can(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ends("two-phase", "--memory", "10M") == Exit.BAD_REQUEST
    message = capsys.readouterr().err
    assert "--memory 10M cannot be kept: the smallest limit for this model is " in message
    assert message.count("\n") == 1
    smallest = re.search(r"is (\d+M), of which", message)
    assert smallest is not None
    assert ends("two-phase", "--memory", f"{int(smallest[1][:-1]) + 20}M") == Exit.HOLDS


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system does not say what a process holds")
@pytest.mark.parametrize(("managers", "limit"), [(8, 110), (16, 160)])
def test_the_whole_process_stays_within_its_memory_limit(managers: int, limit: int) -> None:
    """16 managers take two words; without a limit both spaces take more."""
    words = ["check", "two-phase", "--set", f"managers={managers}", "--max-states", "1500000"]
    code = (
        "import sys; from fencepost.commands.entry import main\n"
        "try:\n    main()\n"
        "finally:\n    status = open('/proc/self/status').read()\n"
        "    print(status.split('VmHWM:')[1].split()[0], file=sys.stderr)\n"
    )

    def held(*more: str) -> tuple[int, str]:
        command = [sys.executable, "-c", code, *words, *more]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return int(done.stderr.split()[-1]) << 10, done.stdout

    whole, _ = held()  # first: in a new environment it compiles modules, which takes memory too
    limited, output = held("--memory", f"{limit}M")
    assert limited <= limit << 20 < whole
    assert "the memory limit of" in output
    assert "the process held at most" in output
