"""Percentiles by nearest rank, of samples or of values with counts: each percentile is one of the values."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def percentiles(
    values: Sequence[float] | NDArray[Any], counts: Sequence[int] | NDArray[Any] | None = None
) -> dict[str, Any]:
    """Return `{"p50": ..., "p90": ..., "p99": ...}` of at least one value."""
    found = np.quantile(np.asarray(values), list(SHARES.values()), method="inverted_cdf", weights=counts)
    return dict(zip(SHARES, found.tolist(), strict=True))
