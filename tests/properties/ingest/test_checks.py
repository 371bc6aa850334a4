"""The checks of ingest and the properties of its models have the same names, or there is a reason."""

from fencepost.model import Model
from fencepost.model.ingest import Ingest
from fencepost.model.ingest_notified import IngestNotified
from fencepost.properties.ingest.checks import CHECKS

NOT_CHECKED = {
    "cursor_waits": "a property of one step of the cursor; its effect is judged by cursor_honest",
    "bounded_search": "a bound on time, which tests/impl/ingest/test_notified.py measures",
    "counted_in_the_end": "effects_unattended judges it, by what the maintenance then does",
}
"""Properties of the models that cannot be judged by contents and outcomes."""
NOT_MODELLED = {"effects_unattended": "the models have no rounds of maintenance, each step may come"}


def test_the_checks_are_named_like_the_properties_of_the_models() -> None:
    modelled = {
        one.name
        for machine in (Ingest, IngestNotified)
        for one in Model(machine).properties
        if one.kind.name not in ("reachable", "refinement")
    }
    assert modelled - CHECKS.keys() == NOT_CHECKED.keys()
    assert CHECKS.keys() - modelled == NOT_MODELLED.keys()
