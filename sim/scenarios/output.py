"""What `--out DIR` leaves behind: results.json, the same as a table in results.parquet, a trace of each run
in traces/, and plots. Each file appears whole or not at all.
"""

import importlib.util
import io
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fencepost.sim.scenarios.errors import BadScenario
from fencepost.sim.whole_files import write_whole

RESULTS = "results.json"
TABLE = "results.parquet"


def prepare(folder: Path, *, traces: bool, plots: bool) -> Path:
    """Make the folder, and refuse now what could not be written after the runs."""
    if traces and importlib.util.find_spec("pyarrow") is None:
        raise BadScenario("traces need pyarrow: pip install 'fencepost[catalog]', or give --no-traces")
    if plots and importlib.util.find_spec("matplotlib") is None:
        raise BadScenario("plots need matplotlib: pip install 'fencepost[plots]', or give --no-plots")
    try:
        (folder / "traces" if traces else folder).mkdir(parents=True, exist_ok=True)
        handle, probe = tempfile.mkstemp(dir=folder)
    except OSError as error:
        raise BadScenario(f"cannot write to {folder}: {error.strerror}; give --out another folder") from None
    os.close(handle)
    Path(probe).unlink()
    return folder


def write_out(folder: Path, result: Mapping[str, Any], plots: Mapping[str, bytes]) -> list[str]:
    """The result and its plots; answers what was written, traces included."""
    text = json.dumps(result, indent=2, allow_nan=False) + "\n"
    replace_file(folder / RESULTS, text.encode())
    written = [str(folder / RESULTS)]
    if importlib.util.find_spec("pyarrow") is not None:
        replace_file(folder / TABLE, _table(result))
        written.append(str(folder / TABLE))
    names = {f"{run['run']}.parquet" for run in result["runs"]}
    traces = sorted((folder / "traces").glob(f"{result['scenario']}-[0-9][0-9][0-9][0-9]*.parquet"))
    for stale in [trace for trace in traces if trace.name not in names]:
        stale.unlink()  # of an earlier sweep with more runs: it would pass for one of this
    if traces:
        written.append(f"{len(names & {trace.name for trace in traces})} traces in {folder / 'traces'}")
    for name, body in plots.items():
        replace_file(folder / name, body)
        written.append(str(folder / name))
    return written


def _table(result: Mapping[str, Any]) -> bytes:
    """The runs as a table for whoever likes to query: a row for every operation of every run."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    keys = list(dict.fromkeys(key for run in result["runs"] for key in run["parameters"]))
    rows = [
        {
            "run": number,
            **{key: None if key not in run["parameters"] else str(run["parameters"][key]) for key in keys},
            "operation": operation,
            **stats,
            "throughput": run["throughput"],
            "dollars_month": run["dollars_month"],
        }
        for number, run in enumerate(result["runs"], 1)
        for operation, stats in run["operations"].items()
    ]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


def replace_file(path: Path, body: bytes) -> None:
    try:
        write_whole(path, body)
    except OSError as error:
        raise BadScenario(f"cannot write {path}: {error.strerror}; give --out another folder") from None
