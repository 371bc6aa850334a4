"""The checks of publish and the properties of its model have the same names, or there is a reason."""

from fencepost.model import Model
from fencepost.model.publish import Publish
from fencepost.properties.publish.checks import CHECKS

NOT_CHECKED = {
    "no_head_ahead": "between two steps a head may be ahead; at rest no_wedge judges what is left",
    "left_alone": "a property of one step of recovery; its effect is judged by live_writer",
    "same_plan": "the bytes of a commit are compared in tests/impl/publish",
}
"""Properties of the model that cannot be judged by contents and outcomes."""
NOT_MODELLED: dict[str, str] = {}


def test_the_checks_are_named_like_the_properties_of_the_model() -> None:
    modelled = {
        one.name for one in Model(Publish).properties if one.kind.name not in ("reachable", "refinement")
    }
    assert modelled - CHECKS.keys() == NOT_CHECKED.keys()
    assert CHECKS.keys() - modelled == NOT_MODELLED.keys()
