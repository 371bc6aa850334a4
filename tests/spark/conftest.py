"""One Spark session for the tests that can share it; a cluster for those that need one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.cluster import cluster


@pytest.fixture(scope="package")
def session() -> Iterator[Any]:
    from fencepost.sim.spark import start

    quick = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "2g"}
    with start("local[2]", settings=quick) as spark:
        yield spark


@pytest.fixture(scope="package")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("cluster")
    with cluster(folder) as url:
        yield url
