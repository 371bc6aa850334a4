"""What `--out DIR` leaves behind: results.json, traces/RUN.parquet, plots; each file whole or not at all."""

import importlib.util
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.sim.scenarios.errors import BadScenario

RESULTS = "results.json"


def prepare(folder: Path, *, traces: bool, plots: bool) -> Path:
    """Make the folder, and refuse now what could not be written after the runs."""
    if traces and importlib.util.find_spec("pyarrow") is None:
        raise BadScenario("traces need pyarrow: pip install 'holdfast[catalog]', or give --no-traces")
    if plots and importlib.util.find_spec("matplotlib") is None:
        raise BadScenario("plots need matplotlib: pip install 'holdfast[plots]', or give --no-plots")
    try:
        (folder / "traces" if traces else folder).mkdir(parents=True, exist_ok=True)
        handle, probe = tempfile.mkstemp(dir=folder)
    except OSError as wrong:
        raise BadScenario(f"cannot write to {folder}: {wrong.strerror}; give --out another folder") from None
    os.close(handle)
    Path(probe).unlink()
    return folder


def write_out(folder: Path, result: Mapping[str, Any], plots: Mapping[str, bytes]) -> list[str]:
    """The result and its plots; answers what was written, traces included."""
    text = json.dumps(result, indent=2, allow_nan=False) + "\n"
    replace_file(folder / RESULTS, text.encode())
    written = [str(folder / RESULTS)]
    count = len(list((folder / "traces").glob(f"{result['scenario']}-*.parquet")))
    if count:
        written.append(f"{count} traces in {folder / 'traces'}")
    for name, body in plots.items():
        replace_file(folder / name, body)
        written.append(str(folder / name))
    return written


def replace_file(path: Path, body: bytes) -> None:
    """Write beside it, then rename."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body)
        Path(temporary).replace(path)
    except OSError as wrong:
        Path(temporary).unlink(missing_ok=True)
        raise BadScenario(f"cannot write {path}: {wrong.strerror}; give --out another folder") from None
