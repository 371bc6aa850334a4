"""The part of the SARIF 2.1.0 standard (OASIS, 2020) that the reports use, as a JSON schema.

Stricter than the standard's own: a property that is not listed here is refused, so that one is added here,
from the standard, before it is written. The numbers are the sections of the standard.
"""

from typing import Any


def closed(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(required),
        "properties": properties,
        "additionalProperties": False,
    }


def list_of(item: Any, **how: Any) -> dict[str, Any]:
    return {"type": "array", "items": item, **how}


TEXT = {"type": "string"}
POSITIVE = {"type": "integer", "minimum": 1}
MESSAGE = closed(("text",), text=TEXT)  # 3.11
ARTIFACT = closed((), uri={"type": "string", "format": "uri-reference"})  # 3.4
REGION = closed((), startLine=POSITIVE)  # 3.30
PHYSICAL = closed(("artifactLocation",), artifactLocation=ARTIFACT, region=REGION)  # 3.29
LOCATION = closed((), physicalLocation=PHYSICAL, message=MESSAGE)  # 3.28
STEP = closed((), executionOrder={"type": "integer", "minimum": 0}, location=LOCATION)  # 3.38
THREAD = closed(("locations",), locations=list_of(STEP, minItems=1))  # 3.37
FLOW = closed(("threadFlows",), threadFlows=list_of(THREAD, minItems=1))  # 3.36
RESULT = closed(  # 3.27
    ("message", "ruleId"),
    ruleId=TEXT,
    level={"enum": ["none", "note", "warning", "error"]},
    message=MESSAGE,
    locations=list_of(LOCATION),
    codeFlows=list_of(FLOW),
)
RULE = closed(("id",), id=TEXT, shortDescription=MESSAGE)  # 3.49
DRIVER = closed(("name",), name=TEXT, version=TEXT, rules=list_of(RULE, uniqueItems=True))  # 3.19
RUN = closed(("tool",), tool=closed(("driver",), driver=DRIVER), results=list_of(RESULT))  # 3.14
LOG = closed(  # 3.13
    ("version", "runs"),
    version={"const": "2.1.0"},
    runs=list_of(RUN),
    **{"$schema": {"type": "string", "format": "uri"}},
)
