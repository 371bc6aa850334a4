"""Why the publish library and its model agree."""

from holdfast.properties.publish.machine import Followed, Unlimited
from holdfast.properties.publish.refinement import PublishRefinement

__all__ = ["Followed", "PublishRefinement", "Unlimited"]
