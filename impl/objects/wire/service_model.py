"""The service model of S3, read from the file that ships with the SDK.

The SDK's own classes for it import its HTTP client, its writer of documentation and 200 other modules, which
takes a server longer than all else before its first response. A test compares both for every operation.
"""

import functools
import gzip
import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_FOLDER = "data/s3/2006-03-01"
_NAMES = {
    "locationName": "name",
    **{
        name: name
        for name in ("flattened", "location", "payload", "streaming", "timestampFormat", "xmlAttribute")
    },
}
"""The attributes of a shape that tell how it is written, and their names here."""


class Shape:
    """The form of a value: a scalar, a list of `member`, or a structure of `members`."""

    def __init__(self, described: Mapping[str, Any], shapes: Mapping[str, Any]) -> None:
        self._described = described
        self._shapes = shapes
        self.type_name: str = described["type"]
        self.required_members: list[str] = described.get("required", [])
        self.serialization = {name: described[word] for word, name in _NAMES.items() if word in described}

    @functools.cached_property
    def members(self) -> dict[str, "Shape"]:
        places = self._described.get("members", {})
        return {name: shape_at(place, self._shapes) for name, place in places.items()}

    @functools.cached_property
    def member(self) -> "Shape":
        return shape_at(self._described["member"], self._shapes)


def shape_at(place: Mapping[str, Any] | None, shapes: Mapping[str, Any]) -> Shape:
    """Return the shape that a place names, with what the place adds to it."""
    return Shape({**shapes[place["shape"]], **place} if place else {"type": "structure"}, shapes)


class Operation:
    """One operation; a shape is empty where there is nothing to send, or to answer."""

    def __init__(self, described: Mapping[str, Any], shapes: Mapping[str, Any]) -> None:
        self.http: Mapping[str, Any] = described["http"]
        self.deprecated: bool = described.get("deprecated", False)
        self.input_shape = shape_at(described.get("input"), shapes)
        self.output_shape = shape_at(described.get("output"), shapes)


class ServiceModel:
    def __init__(self, described: Mapping[str, Any]) -> None:
        self._operations: Mapping[str, Any] = described["operations"]
        self._shapes: Mapping[str, Any] = described["shapes"]
        self.operation_names = [*self._operations]

    @functools.cache  # noqa: B019  there is one model, which is never collected
    def operation_model(self, name: str) -> Operation:
        return Operation(self._operations[name], self._shapes)


@functools.cache
def service_model() -> ServiceModel:
    """Return the model of the SDK that is installed."""
    found = importlib.util.find_spec("botocore")  # finds its folder, and does not import it
    assert found is not None, "the SDK is a dependency of this package"
    assert found.submodule_search_locations, "it is a package"
    folder = Path(found.submodule_search_locations[0], _FOLDER)
    described = _read(folder / "service-2.json")
    for extra in folder.glob("service-2.*-extras.json"):
        _merge(described, _read(extra)["merge"])
    return ServiceModel(described)


def _read(path: Path) -> Any:
    packed = path.with_name(f"{path.name}.gz")  # older releases have it unpacked
    return json.loads(gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes())


def _merge(described: dict[str, Any], extra: Mapping[str, Any]) -> None:
    """Add the corrections that the SDK keeps beside the model."""
    for name, value in extra.items():
        if isinstance(value, dict) and isinstance(described.get(name), dict):
            _merge(described[name], value)
        else:
            described[name] = value
