"""The configuration of the SDK: one attempt a request, no redirects, our time-outs."""

import functools
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as ET

import boto3.session
import botocore.session
from botocore.config import Config

VERSION_ORDER = "FencepostVersionOrder"
"""Under this name a listing of versions carries the order of its entries; see `_keep_version_order`."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Where the store is and how patient we are."""

    endpoint: str | None
    region: str | None
    connect_timeout_s: float
    read_timeout_s: float
    connections: int


def make_client(setup: Setup) -> Any:
    """A client of its own session: the SDK's default session is not safe to share between threads."""
    core = botocore.session.Session()
    core.register_component("data_loader", _descriptions())
    session = boto3.session.Session(botocore_session=core)
    client = session.client(
        "s3", endpoint_url=setup.endpoint, region_name=setup.region, config=_config(setup)
    )
    events = client.meta.events
    events.register_last("before-parameter-build.s3", _stay)
    events.register("before-parse.s3.ListObjectVersions", _keep_version_order)
    return client


@functools.cache
def _descriptions() -> Any:
    """The SDK's descriptions of services, read once a process: most of what making a client costs."""
    return botocore.session.Session().get_component("data_loader")


def _config(setup: Setup) -> Config:
    # Relatives of S3 reject or ignore the checksums that AWS has learnt since 2024; the signature
    # covers the body on the way there in any case.
    checksums = "when_required" if setup.endpoint else "when_supported"
    return Config(
        connect_timeout=setup.connect_timeout_s,
        read_timeout=setup.read_timeout_s,
        max_pool_connections=setup.connections,
        retries={"mode": "standard", "total_max_attempts": 1},
        s3={"addressing_style": "path" if setup.endpoint else "auto"},
        request_checksum_calculation=checksums,
        # Each call enables it where it applies: a range has no checksum of its own.
        response_checksum_validation="when_required",
        tcp_keepalive=True,
        user_agent_extra="fencepost",
    )


def _stay(context: dict[str, Any], **_: Any) -> None:
    """Tell the SDK that it has redirected this request already, so that it will not send it again."""
    context.setdefault("s3_redirect", {})["redirected"] = True


def _keep_version_order(
    response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any
) -> None:
    """Remember in which order versions and delete markers came.

    The SDK sorts them into two lists, and the times they carry are too coarse to merge them again.
    """
    if response_dict["status_code"] != 200:
        return
    try:
        root = ET.fromstring(response_dict["body"])  # noqa: S314 - the SDK parses the same bytes
    except ET.ParseError:
        return
    tags = (element.tag.rpartition("}")[2] for element in root)
    customized_response_dict[VERSION_ORDER] = [tag for tag in tags if tag in ("Version", "DeleteMarker")]
