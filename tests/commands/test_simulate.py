"""`fencepost simulate`: results, their bytes, the files in a folder, refused requests."""

import errno
import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fencepost.commands import provenance, simulate
from fencepost.commands.exit_codes import Exit
from fencepost.impl.environment import SystemEnvironment
from fencepost.sim.scenarios import running
from tests.commands.running import exit_of

SMALL = """title = "Small"
about = "For tests."
[store]
latency = { p50 = "20 ms", p99 = "80 ms" }
[workload]
system = "ingest"
operations = 20
[sweep]
writers = [1, 2, 4]
"""


def ends(*words: str) -> int:
    """How the command ended; in this process, where nothing else is asked for."""
    if not {"--jobs", "--engine"} & set(words):
        words = (*words, "--jobs", "1")
    return exit_of("simulate", *words)


@pytest.fixture(autouse=True)
def one_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may commit while the tests run; results name the revision they were made with."""
    monkeypatch.setattr(provenance, "revision", lambda: ("0" * 40, False))


@pytest.fixture
def small(tmp_path: Path) -> str:
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    return str(file)


def result(*words: str, tmp_path: Path) -> dict[str, Any]:
    target = tmp_path / "r.json"
    ends(*words, "--json", str(target))
    found: dict[str, Any] = json.loads(target.read_text())
    return found


def test_the_result_has_the_keys_scripts_rely_on(small: str, tmp_path: Path) -> None:
    found = result(small, tmp_path=tmp_path)
    assert found["scenario"] == "small"
    assert [run["parameters"] for run in found["runs"]] == [{"workload.writers": n} for n in (1, 2, 4)]
    for one in found["runs"]:
        assert one["operations"]["accept"].keys() >= {
            "count",
            "p50",
            "p90",
            "p99",
            "max",
            "requests",
            "serial_hops",
        }
        assert one["operations"]["accept"]["count"] == 20
        assert one["throughput"] > 0
        assert one["dollars_month"] > 0
    assert found["checks"] == []
    assert found["verdict"] == "holds"


def test_checks_are_rows_of_measured_and_simulated(tmp_path: Path) -> None:
    found = result("rfc-013-hops", tmp_path=tmp_path)
    assert found["checks"]
    for check in found["checks"]:
        assert check.keys() >= {"name", "reference", "simulated", "error", "ok"}
        error = (check["simulated"] - check["reference"]) / check["reference"]
        assert check["error"] == pytest.approx(error, abs=1e-5)
        assert check["ok"] is (abs(error) <= check["tolerance"])


def test_a_check_outside_its_tolerance_is_a_violation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        '[store]\nlatency = "10 ms"\n[workload]\nsystem = "described"\npath = "scanned-catalog"\noperations'
        ' = 1\n[[check]]\nname = "wall"\nmeasure = "commit.p50"\nmeasured = "50 ms"\ntolerance = "10 %"\n'
    )
    assert ends(str(file)) == Exit.VIOLATED
    output = capsys.readouterr().out
    assert "wall" in output
    assert "+20.0 %" in output
    assert "outside" in output
    file.write_text(file.read_text().replace("10 %", "20 %"))
    assert ends(str(file)) == Exit.HOLDS


def test_an_objective_tells_the_first_value_that_breaks_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = result("history-depth", tmp_path=tmp_path)
    (objective,) = found["objectives"]
    p99 = {run["parameters"]["workload.depth"]: run["operations"]["commit"]["p99"] for run in found["runs"]}
    first = next(depth for depth, value in p99.items() if value >= 500)
    assert list(p99).index(first) > 2, "and not at once"
    assert objective["first_broken"] == {"workload.depth": first}
    assert objective["first_value"] == p99[first]
    assert found["verdict"] == "violated", "a script must notice"
    assert (
        f"Objective commit.p99 < 500 ms: first broken at workload.depth = {first}" in capsys.readouterr().out
    )


def test_an_objective_that_no_run_reaches_is_a_violation(small: str) -> None:
    file = Path(small)
    file.write_text(SMALL + '[objectives]\n"accept.p99" = "< 1 ms"\n')
    assert ends(small) == Exit.VIOLATED


def test_the_same_seed_gives_the_same_bytes_wherever_they_go(small: str, tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.json" for name in "abc"]
    ends(small, "--json", str(files[0]))
    ends(small, "--json", str(files[1]))
    ends(small, "--json", str(files[2]), "--seed", "7")
    same, again, other = (file.read_bytes() for file in files)
    assert same == again
    assert json.loads(same)["runs"] != json.loads(other)["runs"]


@pytest.mark.server
def test_any_number_of_processes_gives_the_same_bytes(small: str, tmp_path: Path) -> None:
    """Nothing of who ran what when is in the result."""
    files = [tmp_path / "1.json", tmp_path / "3.json"]
    for file in files:
        assert ends(small, "--json", str(file), "--jobs", file.stem) == Exit.HOLDS
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.server
def test_ctrl_c_stops_the_workers_and_keeps_what_they_finished(tmp_path: Path) -> None:
    """A real interruption of a real process with workers: soon over, whole results, nothing half-written."""
    file, target = tmp_path / "long.toml", tmp_path / "r.json"
    many = ", ".join(str(number) for number in range(1, 200))
    file.write_text(SMALL.replace("operations = 20", "operations = 500").replace("1, 2, 4", many))
    words = [sys.executable, "-m", "fencepost", "simulate", str(file), "--jobs", "2", "--json", str(target)]
    out = ["--out", str(tmp_path / "out"), "--no-plots"]
    process = subprocess.Popen([*words, *out], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        waited = SystemEnvironment()
        while len(list(tmp_path.glob("out/traces/long-*.parquet"))) < 3:
            assert process.poll() is None
            waited.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == Exit.UNDECIDED
    finally:
        process.kill()
        process.wait()
    found = json.loads(target.read_text())
    assert (found["verdict"], found["planned"]) == ("undecided", 199)
    assert 0 < len(found["runs"]) < 199
    assert not list(tmp_path.glob("out/traces/.*")), "no half-written trace"


@pytest.mark.slow
def test_the_order_of_hashes_changes_nothing(small: str) -> None:
    """Python shuffles the order of sets from process to process."""
    outputs = []
    for hash_seed in ("1", "2"):
        words = [sys.executable, "-m", "fencepost", "simulate", small, "--json", "-", "--jobs", "1"]
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        shown = subprocess.run(words, capture_output=True, check=True, env=env).stdout
        outputs.append({name: part for name, part in json.loads(shown).items() if name != "provenance"})
    assert json.dumps(outputs[0]) == json.dumps(outputs[1])


def test_out_leaves_results_traces_and_plots(small: str, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    from fencepost.sim.trace import SCHEMA

    out = tmp_path / "new" / "out"
    assert ends(small, "--out", str(out)) == Exit.HOLDS
    files = sorted(str(file.relative_to(out)) for file in out.rglob("*") if file.is_file())
    traces = [f"traces/small-000{n}.parquet" for n in (1, 2, 3)]
    assert files == ["plot.png", "plot.svg", "results.json", "results.parquet", *traces]
    found = json.loads((out / "results.json").read_text())
    table = pq.read_table(out / "results.parquet").to_pylist()
    assert [row["p99"] for row in table if row["operation"] == "accept"] == [
        run["operations"]["accept"]["p99"] for run in found["runs"]
    ]
    trace = pq.read_table(out / traces[0])
    assert trace.schema.names == SCHEMA.names
    asked = sum(phase == "request" for phase in trace.column("phase").to_pylist())
    assert asked >= sum(found["runs"][0]["requests"].values()) > 0
    assert (out / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (out / "plot.svg").read_bytes()


def test_traces_of_an_earlier_sweep_do_not_pass_for_those_of_this(small: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ends(small, "--out", str(out), "--no-plots")
    (out / "traces" / "another-0001.parquet").write_bytes(b"not ours")
    ends(small, "--sweep", "writers=2", "--out", str(out), "--no-plots")
    assert sorted(file.name for file in (out / "traces").iterdir()) == [
        "another-0001.parquet",
        "small-0001.parquet",
    ]
    assert [run["run"] for run in json.loads((out / "results.json").read_text())["runs"]] == ["small-0001"]


def test_what_out_leaves_is_the_same_twice(small: str, tmp_path: Path) -> None:
    outs = [tmp_path / "one", tmp_path / "two"]
    for out in outs:
        ends(small, "--out", str(out))
    one, two = ({f.name: f.read_bytes() for f in out.rglob("*") if f.is_file()} for out in outs)
    assert one == two


WEATHER = """[client]
timeout = "500 ms"
[faults]
reply_lost = "3 %"
late = "2 %"
late_by = "1 s"
conflict = "3 %"
throttled = "3 %"
"""


@pytest.mark.parametrize(
    ("system", "operations", "rest"), [("publish", 2, ""), ("ingest", 60, ""), ("ingest", 60, WEATHER)]
)
def test_simulated_traces_are_behaviours_of_the_model(
    system: str, operations: int, rest: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The clock and the model are two opinions on the same code: the one judges traces of the other."""
    file, out = tmp_path / "s.toml", tmp_path / "out"
    latency = 'latency = { p50 = "20 ms", p99 = "80 ms" }'
    workload = f'system = "{system}"\noperations = {operations}\nwriters = 2'
    file.write_text(f"[store]\n{latency}\n[workload]\n{workload}\n{rest}")
    assert ends(str(file), "--out", str(out), "--no-plots") == Exit.HOLDS
    replayed = ["replay", str(out / "traces"), "--model", system]
    assert exit_of(*replayed) == Exit.HOLDS
    accepted = 1 if system == "publish" else operations
    assert f"{accepted} accepted, 0 rejected, 0 undecided" in capsys.readouterr().out


def test_traces_and_plots_can_be_left_out(small: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert ends(small, "--out", str(out), "--no-traces", "--no-plots") == Exit.HOLDS
    assert sorted(file.name for file in out.iterdir()) == ["results.json", "results.parquet"]


def test_a_sweep_on_the_command_line(small: str, tmp_path: Path) -> None:
    found = result(small, "--sweep", "writers=3", "--sweep", "latency=5 ms,50 ms", tmp_path=tmp_path)
    assert [run["parameters"] for run in found["runs"]] == [
        {"workload.writers": 3, "store.latency": "5 ms"},
        {"workload.writers": 3, "store.latency": "50 ms"},
    ]
    medians = [run["operations"]["accept"]["p50"] for run in found["runs"]]
    assert medians == [10.0, 100.0]


def test_ctrl_c_keeps_the_runs_that_were_finished(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = running.run_task

    def interrupted(task: running.Task) -> Any:
        if task.number == 2:
            raise KeyboardInterrupt
        return real(task)

    monkeypatch.setattr(running, "run_task", interrupted)
    target = tmp_path / "r.json"
    assert ends(small, "--json", str(target)) == Exit.UNDECIDED
    found = json.loads(target.read_text())
    assert (found["verdict"], found["planned"], len(found["runs"])) == ("undecided", 3, 2)


def test_an_interruption_before_the_first_run_decides_nothing(
    small: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script that is killed early must not read an objective of no runs as one that holds."""

    def interrupted(_task: running.Task) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "run_task", interrupted)
    Path(small).write_text(SMALL + '[objectives]\n"accept.p99" = "< 1 ms"\n')
    assert ends(small) == Exit.UNDECIDED
    output = capsys.readouterr().out
    assert "Objective accept.p99 < 1 ms: not decided; 0 runs finished." in output
    assert "holds" not in output


def test_an_objective_that_one_run_of_a_sweep_breaks_is_a_violation(
    small: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(small).write_text(SMALL + '[objectives]\n"accept.p99" = "< 60 ms"\n')
    assert ends(small, "--sweep", "latency=5 ms,50 ms,70 ms", "--sweep", "writers=1") == Exit.VIOLATED
    assert "first broken at" in (output := capsys.readouterr().out)
    assert "store.latency = 50 ms (100 there); in 2 of 3 runs." in output


def test_a_run_that_fails_leaves_no_result(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> Any:
        raise running.RunFailed("a worker process died")

    monkeypatch.setattr(running, "run_all", failing)
    target = tmp_path / "r.json"
    assert ends(small, "--json", str(target)) == Exit.BAD_REQUEST
    assert sorted(file.name for file in tmp_path.iterdir()) == ["small.toml"]


@pytest.mark.parametrize(
    ("count", "says"),
    [
        ("0 * x", "operations took no time"),
        ("1 / x", "divides by zero"),
        ("10000000", "asks for 1e+07 requests at once"),
    ],
)
def test_a_path_that_goes_invalid_while_it_runs_is_one_line(
    count: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.toml").write_text(f'[parameters]\nx = 0\n[[step]]\nname = "a"\ncount = "{count}"\n')
    file = tmp_path / "s.toml"
    file.write_text('[workload]\nsystem = "described"\npath = "p.toml"\nduration = "1 s"\n')
    assert ends(str(file)) == Exit.BAD_REQUEST
    output = capsys.readouterr().err
    assert says in output
    assert output.count("\n") == 1


@pytest.mark.parametrize("what", ["run", "table"])
def test_a_disk_that_fills_up_during_the_runs_is_one_line(
    what: str, small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(simulate, {"run": "perform", "table": "write_out"}[what], full)
    assert ends(small, "--out", str(tmp_path / "out"), "--no-plots") == Exit.BAD_REQUEST
    output = capsys.readouterr().err
    assert output.startswith(
        f"fencepost: cannot write to {tmp_path / 'out'}: No space left on device; give --out"
    )
    assert output.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "name the scenario, as in: fencepost simulate cap-tail"),
        (["no-such"], "no scenario of this name is shipped"),
        (["no-such.toml"], "no-such.toml: cannot be read: No such file"),
        (["cap-tail", "--sweep", "x=1"], "--sweep x=1: there is no such key"),
        (["cap-tail", "--master", "local[2]"], "--master belongs to --engine spark"),
        (["cap-tail", "--engine", "spark", "--jobs", "2"], "--jobs is for --engine local"),
        (["cap-tail", "--no-plots"], "are about --out DIR"),
        (["cap-tail", "--jobs", "0"], "--jobs"),
        (["cap-tail", "--out", "/proc/nowhere"], "cannot write to /proc/nowhere"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(*words) == Exit.BAD_REQUEST
    output = capsys.readouterr().err
    assert says in output
    assert output.count("\n") == 1


@pytest.mark.parametrize(
    ("library", "says"), [("pyarrow", "fencepost[catalog]"), ("matplotlib", "fencepost[plots]")]
)
def test_a_missing_library_is_reported_before_anything_runs(
    library: str, says: str, small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == library else real(name))
    assert ends(small, "--out", str(tmp_path / "out")) == Exit.BAD_REQUEST
    assert says in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_publish_without_pyarrow_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyarrow" else real(name))
    assert ends("publish-writers") == Exit.BAD_REQUEST
    assert "fencepost[catalog]" in capsys.readouterr().err


def test_spark_without_java_is_one_line(
    small: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert ends(small, "--engine", "spark") == Exit.BAD_REQUEST
    assert "Spark needs Java" in capsys.readouterr().err


@pytest.mark.spark
def test_spark_gives_the_same_bytes(small: str, tmp_path: Path) -> None:
    files = [tmp_path / "local.json", tmp_path / "spark.json"]
    ends(small, "--json", str(files[0]))
    out = tmp_path / "out"
    ends(
        small,
        "--json",
        str(files[1]),
        "--engine",
        "spark",
        "--master",
        "local[2]",
        "--out",
        str(out),
        "--no-plots",
    )
    assert files[0].read_bytes() == files[1].read_bytes()
    assert len(list((out / "traces").iterdir())) == 3


def test_list_names_what_is_shipped(capsys: pytest.CaptureFixture[str]) -> None:
    assert ends("--list") == Exit.HOLDS
    output = capsys.readouterr().out
    assert {"publish-writers", "rfc-013-capped", "regions"} <= {
        line.split()[0] for line in output.splitlines()
    }
