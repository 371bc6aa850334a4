"""Why the publish library and its model agree."""

from fencepost.properties.publish.machine import Followed, Unlimited
from fencepost.properties.publish.refinement import AsModelled, PublishRefinement

__all__ = ["AsModelled", "Followed", "PublishRefinement", "Unlimited"]
