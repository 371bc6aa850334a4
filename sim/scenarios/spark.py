"""The runs of a large sweep on Spark: one task a run, whose row comes back to the driver.

A run is a function of its set-up, so Spark may place and repeat tasks as it likes; what comes back is the
same as from the local engine. Traces are written by the workers: into a folder that they all see.
"""

import pickle
from collections.abc import Callable
from typing import Any

from fencepost.sim.des.result import Result
from fencepost.sim.scenarios.errors import BadScenario
from fencepost.sim.scenarios.performing import Order
from fencepost.sim.scenarios.running import RunFailed, run_task


def _run(packed: bytes) -> tuple[int, bytes]:
    """In a worker."""
    number, result = run_task(pickle.loads(packed))  # noqa: S301 - packed by the driver, below
    return number, pickle.dumps(result)


def perform_on_spark(order: Order, master: str | None, show: Callable[[int, int], None]) -> dict[str, Any]:
    """Every run as a task of its own. Raises `BadScenario` where Spark cannot be used."""
    from fencepost.sim.spark import SparkAway, start

    tasks = order.tasks()
    show(0, len(tasks))
    try:
        with start(master or "", name=f"fencepost simulate {order.scenario.name}") as session:
            packed = session.sparkContext.parallelize([pickle.dumps(task) for task in tasks], len(tasks))
            rows = packed.map(_run).collect()
    except SparkAway as away:
        raise BadScenario(str(away)) from None
    except Exception as error:  # what Py4J raises has no common root short of this
        last = str(error).strip().splitlines()
        raise RunFailed(f"a task failed on Spark: {(last or ['no reason given'])[0][:300]}") from error
    results: dict[int, Result] = {number: pickle.loads(result) for number, result in rows}  # noqa: S301 - ours
    show(len(results), len(tasks))
    return order.outcome(results)
