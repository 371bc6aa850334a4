"""Scenario files: each mistake gets one line, with the place in the file and what to do."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.results import to_json
from fencepost.sim.scenarios import BadScenario, Order, load, perform, shipped
from fencepost.sim.scenarios.loading import points, read
from fencepost.sim.scenarios.pathfiles import read_path, shipped_paths

GOOD = """[store]
latency = "20 ms"
[workload]
system = "publish"
operations = 10
"""


def complaint(tmp_path: Path, text: str, *, sweeps: tuple[str, ...] = ()) -> str:
    """The message about this file, without the folder; it must be one line."""
    file = tmp_path / "s.toml"
    file.write_text(text)
    with pytest.raises(BadScenario) as raised:
        Order(read(file), sweeps=sweeps)
    output = str(raised.value).replace(f"{tmp_path}/", "")
    assert "\n" not in output
    return output


def test_the_good_one_is_good(tmp_path: Path) -> None:
    """Otherwise the bad ones below might be refused for another reason."""
    file = tmp_path / "s.toml"
    file.write_text(GOOD)
    assert len(Order(read(file)).points) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[stor]\n", "s.toml:1: stor: there is no such key; perhaps 'store' is meant"),
        (
            "[store]\nlatancy = 1\n",
            "s.toml:2: store.latancy: there is no such key; perhaps 'latency' is meant",
        ),
        ("[sotre]\n[store]\n", "s.toml:1: sotre: there is no such key; perhaps 'store' is meant"),
        ("[store]\nlatency = 20\n", "s.toml:2: store.latency: 20 has no unit"),
        ('[store]\nlatency = "20 MiB"\n', 's.toml:2: store.latency: "20 MiB" is no duration'),
        (
            '[store]\nlatency = { p50 = "9 ms", p99 = "1 ms" }\n',
            "s.toml:2: store.latency: p99 (1 ms) is below p50",
        ),
        ('[store]\nlatency = { p50 = "9 ms" }\n', "s.toml:2: store.latency:"),
        ('[store.latency]\nput = "1 ms"\n', "s.toml:1: store.latency: a table of latencies needs a default"),
        (
            '[store.latency]\ndefault = "1 ms"\nputt = "1 ms"\n',
            "s.toml:1: store.latency: no request is of kind 'putt'",
        ),
        ("[store]\nin_flight = 0\n", "s.toml:2: store.in_flight: 0 is impossible"),
        ('[store]\nbandwidth = "fast"\n', 's.toml:2: store.bandwidth: "fast" is no bandwidth'),
        ('[faults]\nreply_lost = "200 %"\n', 's.toml:2: faults.reply_lost: "200 %" is impossible'),
        ("store = 5\n", "s.toml:1: store: is a table of its own"),
        ("[workload]\nwriters = 4\n", "s.toml:1: workload: says no system"),
        (
            '[workload]\nsystem = "publsh"\n',
            's.toml:2: workload.system: "publsh" is none of publish, group, ingest',
        ),
        (f"{GOOD}[sweep]\n", "s.toml:6: sweep: sweeps over nothing"),
        (f"{GOOD}[sweep]\nwriters = []\n", "s.toml:7: sweep.writers: sweeps over nothing: the list is empty"),
        (f"{GOOD}[sweep]\nwriters = 4\n", "s.toml:7: sweep.writers: a sweep needs a list of values"),
        (f"{GOOD}[sweep]\nwriters = [1, 1]\n", "s.toml:7: sweep.writers: has 1 twice"),
        (f"{GOOD}[sweep]\nwriters = [1, 0]\n", "s.toml:7: sweep.writers: 0 is impossible"),
        (
            f"{GOOD}[sweep]\nwritters = [1]\n",
            "s.toml:7: sweep.writters: there is no such key; perhaps 'workload.writers'",
        ),
        (
            f"{GOOD}[sweep]\nin_flight = [1]\n",
            "'in_flight' may be client.in_flight or store.in_flight; write it in full",
        ),
        (f'{GOOD}[sweep]\nsystem = ["publish"]\n', "s.toml:7: sweep.system: cannot be swept"),
        (f'{GOOD}[sweep]\nwriters = [1]\n"workload.writers" = [2]\n', "is swept twice"),
        (f'{GOOD}duration = "1 s"\n', "s.toml:5: workload.operations: contradicts workload.duration"),
        ('[workload]\nsystem = "publish"\n', "s.toml:1: workload: says no end; give operations or duration"),
        (f'{GOOD}arrival = "poisson"\n', "s.toml:6: workload.arrival: poisson arrivals need a rate"),
        (f'{GOOD}rate = "5/s"\n', "s.toml:6: workload.rate:"),
        (
            f'{GOOD}arrival = "poisson"\nrate = "5/s"\nthink = "1 s"\n',
            "workload.think: is between the operations of closed",
        ),
        (f'{GOOD}path = "rfc-013"\n', 's.toml:6: workload.path: belongs to system = "described"'),
        (
            f'{GOOD}path = "rfc-13"\n',
            "s.toml:6: workload.path: there is no file 'rfc-13' beside the scenario",
        ),
        ('[workload]\nsystem = "described"\noperations = 1\n', "a described system needs a path"),
        (
            f'{GOOD}window = "1 s"\n',
            'workload.window: has no meaning for system = "publish"; it is for group, described',
        ),
        (
            f"{GOOD}follow_up = true\n",
            'workload.follow_up: has no meaning for system = "publish"; it is for ingest',
        ),
        (
            f'{GOOD}[faults]\nlate_by = "1 s"\n',
            "faults.late_by: says by how much writes land late, but none do",
        ),
        (
            f'{GOOD}[faults]\nrestart = "1 s"\n',
            "faults.restart: says how long a restart takes, but nobody crashes",
        ),
        (f'{GOOD}[faults]\nreply_lost = "60 %"\nrequest_lost = "60 %"\n', "faults: the shares come to"),
        (f'{GOOD}[client]\npause = "1 s"\n', "client.pause: is between attempts, but there is only one"),
        (
            f"{GOOD}[workload.counters]\nx = 1\n",
            "workload.counters.x: the system 'publish' has none of this name",
        ),
        (
            f"{GOOD}[workload.maintenance]\ncompact = 5\n",
            "workload.maintenance.compact: the system 'publish' has none of this name",
        ),
        (
            f'{GOOD}[prices]\nputt = "$1/1"\n',
            "s.toml:7: prices.putt: there is no such key; perhaps 'put' is meant",
        ),
        (f"{GOOD}[prices]\nput = 5\n", "s.toml:7: prices.put: 5 is no price"),
        (f'{GOOD}[objectives]\n"publish.p98" = "< 1 s"\n', "s.toml:7: objectives.publish.p98:"),
        (
            f'{GOOD}[objectives]\n"publsh.p99" = "< 1 s"\n',
            "s.toml:7: objectives.publsh.p99: 'publsh.p99' is no measure of these runs; perhaps 'publish.p",
        ),
        (f'{GOOD}[objectives]\n"publish.p99" = "500 ms"\n', "is no objective; write it like"),
        (f'{GOOD}[objectives]\n"publish.p99" = "< 500"\n', '"500" has no unit'),
        (
            f'{GOOD}[[case]]\nname = "a"\n[[case]]\nname = "a"\n',
            "s.toml:9: case.1.name: 'a' is the name of two cases",
        ),
        (
            f'{GOOD}[[case]]\nname = "a"\nset = {{ wrtrs = 1 }}\n',
            "s.toml:8: case.0.set.wrtrs: there is no such key",
        ),
        (f'{GOOD}[[check]]\nname = "a"\n', "s.toml:6: check.0: a check needs measure"),
        (
            f'{GOOD}[[check]]\nname = "a"\nmeasure = "publish.p50"\nmeasured = 5\ntolerance = "1 %"\n',
            's.toml:9: check.0.measured: needs its unit, as in "5.9 s"',
        ),
        (
            f'{GOOD}[[check]]\nname = "a"\nmeasure = "publish.p50"\nat = {{ writers = 3 }}\n'
            'measured = "5 s"\ntolerance = "1 %"\n',
            "s.toml:6: check 'a' looks at workload.writers = 3, but no run is so",
        ),
        (
            f"{GOOD}writers = 1000000\n",
            "s.toml:6: workload.writers: 1000000 is impossible: at least 1, at most 100000",
        ),
        (f"{GOOD}depth = 20000\n", "s.toml:6: workload.depth: is so many operations executed before the run"),
        (
            '[store]\nlatency = "0 ms"\n[workload]\nsystem = "ingest"\nduration = "1 s"\n',
            "s.toml:5: workload.duration: never ends: nothing takes any time",
        ),
        ("[store\n", "s.toml:1: is not valid TOML"),
        ('x = 1\ny = "\n', "s.toml:2: is not valid TOML"),
        ("x = 1\nx = 2\n", "s.toml:2: is not valid TOML: Cannot overwrite a value"),
        ("seed = -1\n" + GOOD, "s.toml:1: seed: -1 is impossible"),
    ],
)
def test_a_mistake_is_reported_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    assert says in complaint(tmp_path, text)


@pytest.mark.parametrize(
    ("sweep", "says"),
    [
        ("writers", "--sweep writers: must read KEY=a,b,c"),
        ("writers=", "--sweep writers=: sweeps over nothing"),
        ("writers=1,1", "has 1 twice"),
        ("writers=1,x", '"x" is no whole number'),
        ("latency=5", "5 has no unit"),
        ("nothing=1", "--sweep nothing=1: there is no such key"),
        ("system=group", "cannot be swept"),
        ("duration=5 s", "contradicts workload.duration"),
        ("in_flight=5", "may be"),
    ],
)
def test_a_bad_sweep_is_quoted_as_it_was_typed(tmp_path: Path, sweep: str, says: str) -> None:
    assert says in complaint(tmp_path, GOOD, sweeps=(sweep,))


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(BadScenario, match=r"no\.toml: cannot be read: No such file"):
        read(tmp_path / "no.toml")
    with pytest.raises(BadScenario, match=r"no scenario of this name is shipped.*perhaps 'cap-tail'"):
        load("cap-tial")
    with pytest.raises(BadScenario, match="cannot be read: it is no regular file"):
        read(tmp_path)
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadScenario, match="not text in UTF-8"):
        read(tmp_path / "b.toml")


@settings(max_examples=60)
@given(st.text(alphabet=st.sampled_from('[]{}=".,#\n abcstorewkl019"\'%/')), st.booleans())
def test_no_text_brings_the_reader_down(text: str, append: bool) -> None:
    """Any text is a scenario or a complaint of one line."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        file = Path(folder, "s.toml")
        file.write_text(GOOD + text if append else text)
        try:
            points(read(file))
        except BadScenario as error:
            assert "\n" not in str(error)  # noqa: PT017 - either ending is right


def test_sweeps_make_every_combination_and_the_command_line_replaces(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        f'{GOOD}[sweep]\nwriters = [1, 2]\ndepth = [0, 5]\n[[case]]\nname = "a"\n[[case]]\nname = "b"\n'
    )
    found = points(read(file), ["depth=7", "rows=1,2,3"])
    assert len(found) == 2 * 2 * 1 * 3
    assert found[0].parameters == {
        "case": "a",
        "workload.writers": 1,
        "workload.depth": 7,
        "workload.rows": 1,
    }
    assert found[-1].parameters == {
        "case": "b",
        "workload.writers": 2,
        "workload.depth": 7,
        "workload.rows": 3,
    }
    with pytest.raises(BadScenario, match=r"the sweeps make .* runs; at most 100000 are possible"):
        points(read(file), [f"operations={','.join(map(str, range(1, 101_000)))}"])


@pytest.mark.parametrize("name", sorted(shipped()))
def test_every_shipped_scenario_says_what_it_shows(name: str) -> None:
    scenario = load(name)
    assert len(scenario.about.split()) > 25, "a paragraph"
    assert Order(scenario).points


PATH = '[[step]]\nname = "a"\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "p.toml: has no [[step]]"),
        ("[[stepp]]\n", "p.toml:1: stepp: there is no such key; perhaps 'step'"),
        ("[[step]]\n", "p.toml:1: step.0: a step needs a name"),
        (
            f'{PATH}count = "1 + frags"\n',
            "p.toml:3: step.0.count: '1 + frags' uses 'frags', which is no counter",
        ),
        (f'[counters]\nfrags = {{}}\n{PATH}count = "1 + frag"\n', "perhaps 'frags' is meant"),
        (f'{PATH}count = "1 +"\n', "p.toml:3: step.0.count: '1 +' is no arithmetic"),
        (f"{PATH}count = \"__import__('os')\"\n", "is not understood"),
        (f'{PATH}count = "a.b"\n', "is not understood"),
        (f"{PATH}count = true\n", "is no arithmetic"),
        (f'{PATH}order = "paralel"\n', '"paralel" is none of serial, parallel'),
        (f"{PATH}part = [1]\n", "step.0.part: 1 is no text"),
        (f"{PATH}[operations.other]\n", "operations.other: needs a name of its own, and a [[step]]"),
        (f'{PATH}[[operations.write.step]]\nname = "a"\n', "operations.write: needs a name of its own"),
        (f"{PATH}[parameters]\na = {{ value = 1 }}\n", "parameters.a: needs from"),
        (f"{PATH}beside = true\n", "stands beside nothing"),
        (f'{PATH}kind = "post"\n', "p.toml:3: step.0.kind:"),
        (f"[counters]\ndepth = {{}}\n{PATH}", "p.toml:2: counters.depth: cannot be a name here"),
        (
            f"{PATH}[maintenance.c]\ntakes = {{ x = 1 }}\n",
            "p.toml:4: maintenance.c.takes.x: there is no such key",
        ),
        (f"{PATH}[maintenance.c]\nevery = 0\n", "p.toml:4: maintenance.c.every: 0 is impossible"),
    ],
)
def test_a_mistake_in_a_path_is_reported_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "p.toml"
    file.write_text(text)
    with pytest.raises(BadScenario) as raised:
        read_path(file)
    assert says in str(raised.value).replace(f"{tmp_path}/", "")


def test_shipped_paths_are_read() -> None:
    assert set(shipped_paths()) == {"rfc-013", "scanned-catalog"}


def test_a_path_of_ones_own_lies_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[[step]]\nname = "a"\ncount = 3\n')
    file = tmp_path / "s.toml"
    file.write_text('[workload]\nsystem = "described"\npath = "mine.toml"\noperations = 2\n')
    found = to_json(perform(Order(read(file))))
    assert found["runs"][0]["operations"]["write"]["requests"] == 3


def test_a_scenario_chooses_an_operation_of_its_path(tmp_path: Path) -> None:
    """They share counters and parameters. A step without repetitions computes nothing."""
    (tmp_path / "mine.toml").write_text(
        '[parameters]\nasked = { value = 0, from = "stated" }\nrest = 4\n'
        '[[step]]\nname = "a"\n[[step]]\nname = "b"\ncompute = "1 s"\nrepeat = "asked"\n'
        '[[operations.other.step]]\nname = "c"\npart = ["c", "both"]\ncount = "rest"\norder = "parallel"\n'
    )
    file = tmp_path / "s.toml"
    text = (
        '[store]\nlatency = "10 ms"\n[client]\nin_flight = 2\n'
        '[workload]\nsystem = "described"\npath = "mine.toml"\noperations = 1\n'
        '[[case]]\nname = "first"\n[[case]]\nname = "second"\nset = { operation = "other" }\n'
    )
    file.write_text(text)
    first, second = to_json(perform(Order(read(file))))["runs"]
    assert first["operations"]["write"]["p50"] == 10
    assert first["parts"] == {"a": 1}
    assert second["operations"]["other"]["p50"] == 20, "two at a time"
    assert second["parts"] == {"c": 4, "both": 4}
    assert (second["saturation"]["client_parallelism"], second["saturation"]["client_in_flight_max"]) == (
        2,
        2,
    )
    file.write_text(text.replace('"other"', '"othr"'))
    with pytest.raises(BadScenario, match=r"has no 'othr'; perhaps 'other'"):
        Order(read(file))
