"""Starting Spark without noise, or explaining in one sentence why it cannot start.

    with start("local[*]") as session: ...

Known problems are handled here. Workers must run this very Python (PYSPARK_PYTHON). PySpark warns of pandas
3, which nothing here uses. The JVM writes pages to standard error before its logging is configured, so its
standard error is a file while it starts; the end of that file is shown when it does not start. The Java
version is checked before PySpark starts, because PySpark reports it as a traceback.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

JAVA_NEEDED = 17
DRIVER_MEMORY = "4g"
INSTEAD = "or use --engine local, which needs no Java"
_LOGGING = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n
"""


class SparkAway(Exception):
    """Spark cannot be used here: why, and what to do."""


@contextlib.contextmanager
def start(
    master: str = "", *, name: str = "fencepost", settings: Mapping[str, str] | None = None
) -> Iterator[Any]:
    """A Spark session on `master` (all cores of this machine, when none is named), stopped at the end."""
    check_java()
    try:
        import pandas as pd  # noqa: F401 - PySpark wants it before it gives columns to anybody
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkAway(
            f"{error.name} is not installed; pip install 'fencepost[spark]', {INSTEAD}"
        ) from error
    master = master or "local[*]"
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(prefix="fencepost-spark-") as folder, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
        logging = Path(folder, "log4j2.properties")
        logging.write_text(_LOGGING)
        builder = SparkSession.builder.appName(name).master(master)
        for key, value in {**_settings(master, folder, logging), **(settings or {})}.items():
            builder = builder.config(key, value)
        session = _started(builder, Path(folder, "stderr"), master)
        try:
            yield session
        except (PySparkException, Py4JError) as error:
            raise SparkAway(f"Spark gave up: {_reason(str(error))}") from error
        finally:
            with contextlib.suppress(Py4JError, OSError):
                session.stop()
            _end_jvm()


def ship(made: Any) -> None:
    """Pickle what a user's own file defines by value, since workers cannot import it."""
    from pyspark import cloudpickle

    ship_module: Callable[[ModuleType], None] = cloudpickle.register_pickle_by_value
    names = {getattr(getattr(made, "func", made), "__module__", "")}
    names |= {base.__module__ for base in getattr(getattr(made, "func", made), "__mro__", ())}
    for name in names:
        module = sys.modules.get(name)
        if module is not None and not name.startswith(("fencepost.", "builtins")):
            ship_module(module)


def check_java() -> None:
    """Raise `SparkAway` when there is no Java that Spark runs on."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home, "bin", "java"))) if home else shutil.which("java")
    if java is None:
        where = (
            f"JAVA_HOME is {home}, and there is no bin/java in it" if home else "there is no java on the PATH"
        )
        raise SparkAway(f"Spark needs Java {JAVA_NEEDED} or newer: {where}; install it, {INSTEAD}")
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603 - the user's own java
    version = re.search(r'version "(\d+)(?:\.(\d+))?', printed.stderr + printed.stdout)
    if version is None:
        raise SparkAway(f"{java} -version prints no version; install Java {JAVA_NEEDED}, {INSTEAD}")
    major = int(version[2] or 0) if version[1] == "1" else int(version[1])
    if major < JAVA_NEEDED:
        raise SparkAway(
            f"Spark needs Java {JAVA_NEEDED} or newer, and {java} is {major}; install it, {INSTEAD}"
        )


def _settings(master: str, folder: str, logging: Path) -> dict[str, str]:
    here = {}
    if re.match(r"local\b", master):
        here["spark.local.dir"] = folder
    if re.match(r"local\b|spark://(127\.|localhost)", master):
        # A machine's own name may lead to an address that is not up; within the machine, loopback does.
        here |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return {
        **here,
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging.as_uri()}",
        "spark.sql.warehouse.dir": str(Path(folder, "warehouse")),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(1 << 18),
        "spark.sql.adaptive.enabled": "true",
    }


def _started(builder: Any, log: Path, master: str) -> Any:
    try:
        with _stderr_in(log):
            return builder.getOrCreate()
    except Exception as error:
        lines = [
            line
            for line in log.read_text(errors="replace").splitlines()
            if re.search(r"(?i)error|exception", line)
        ]
        why = lines[-1] if lines else str(error).strip().split("\n")[0]
        _end_jvm()
        raise SparkAway(
            f"Spark did not start on {master}: {why[:300]}; look at the master, {INSTEAD}"
        ) from error


def _reason(text: str) -> str:
    """The error in pages of traces: the last line of a worker's traceback, or the first line of all."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[A-Za-z_][\w.]*: \S", line) and not line.startswith("at ")]
    worker = next((n for n, line in enumerate(lines) if line.startswith("Traceback")), -1)
    after = [line for line in raised if lines.index(line) > worker] if worker >= 0 else []
    return (after or lines or ["no reason given"])[0][:300]


@contextlib.contextmanager
def _stderr_in(log: Path) -> Iterator[None]:
    """Standard error of this process, and of those it starts meanwhile, in a file."""
    sys.stderr.flush()
    kept = os.dup(2)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(handle, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(handle)


def _end_jvm() -> None:
    """End the JVM with the session: one that outlives it would keep the settings of the first."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway  # noqa: SLF001 - PySpark has no public way to end its JVM
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    if process is not None:
        if process.stdin is not None:
            process.stdin.close()
        process.wait(timeout=30)
