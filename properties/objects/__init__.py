"""Why the object server and its models agree."""

from fencepost.properties.objects.refinement import ObjectsRefinement

__all__ = ["ObjectsRefinement"]
