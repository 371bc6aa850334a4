"""The checks of ingest and the properties of its model have the same names, or there is a reason."""

from fencepost.model import Model
from fencepost.model.ingest import Ingest
from fencepost.properties.ingest.checks import CHECKS

NOT_CHECKED = {"cursor_waits": "a property of one step of the cursor; its effect is judged by cursor_honest"}
"""Properties of the model that cannot be judged by contents and outcomes."""
NOT_MODELLED = {"effects_unattended": "the model has no rounds of maintenance, only that each step may come"}


def test_the_checks_are_named_like_the_properties_of_the_model() -> None:
    modelled = {
        one.name for one in Model(Ingest).properties if one.kind.name not in ("reachable", "refinement")
    }
    assert modelled - CHECKS.keys() == NOT_CHECKED.keys()
    assert CHECKS.keys() - modelled == NOT_MODELLED.keys()
