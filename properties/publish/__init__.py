"""Why the publish library and its model agree."""

from holdfast.properties.publish.machine import Followed, Unlimited
from holdfast.properties.publish.refinement import AsModelled, PublishRefinement

__all__ = ["AsModelled", "Followed", "PublishRefinement", "Unlimited"]
