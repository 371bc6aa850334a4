"""Why the publish library and its model agree."""

from fencepost.properties.publish.followed import Followed
from fencepost.properties.publish.refinement import AsModelled, PublishRefinement

__all__ = ["AsModelled", "Followed", "PublishRefinement"]
