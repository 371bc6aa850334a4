"""The table of the suite of Ceph: what is counted where."""

import xml.etree.ElementTree as ET

import pytest

from tests.servers import ceph


@pytest.mark.parametrize(
    ("name", "marks", "expected"),
    [
        ("test_object_copy_kms", ["encryption", "copy"], "encryption"),
        ("test_put_object_ifmatch_good", [], "conditional writes"),
        ("test_post_object_anonymous_request", [], "POST and CORS"),
        ("test_multipart_upload_small", [], "multipart"),
        ("test_bucket_list_delimiter_basic", [], "listings"),
        ("test_assume_role_allow", ["test_of_sts", "role_policy"], "other services"),
        ("test_100_continue", [], "others"),
    ],
)
def test_a_test_is_of_the_first_category_that_fits(name: str, marks: list[str], expected: str) -> None:
    assert ceph.category(name, marks) == expected


def test_a_failure_that_aws_shares_is_counted_apart() -> None:
    def case(name: str, marks: str, inside: str = "") -> str:
        properties = f'<properties><property name="marks" value="{marks}"/></properties>'
        return f'<testcase name="{name}">{properties}{inside}</testcase>'

    cases = [
        case("test_multipart_a", ""),
        case("test_multipart_b", "", "<failure/>"),
        case("test_multipart_c", "fails_on_aws", "<failure/>"),
        case("test_sse_d", "encryption", "<error/>"),
        case("test_sse_e", "encryption", "<skipped/>"),
    ]
    page = ceph.table(ET.fromstring(f"<testsuites>{''.join(cases)}</testsuites>"))
    assert "| multipart | 1 | 1 | 1 | 0 |" in page
    assert "| encryption | 0 | 1 | 0 | 1 |" in page
    assert "| **core** | 1 | 1 | 1 | 0 |" in page
    assert "| **all** | 1 | 2 | 1 | 1 |" in page
    assert "Failed of multipart: test_multipart_b." in page


def test_the_settings_are_those_of_two_users() -> None:
    text = ceph.settings("http://127.0.0.1:9000", "s1", "OTHER", "s2")
    assert "host = 127.0.0.1\nport = 9000\n" in text
    assert text.count("access_key = root") == 1
    assert text.count("access_key = OTHER") == 5
