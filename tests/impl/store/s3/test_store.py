"""The S3 store itself: where its keys live, what it checks, how it words errors."""

import contextlib
import subprocess
import sys
import threading
import zlib
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from fencepost.commands.entry import run
from fencepost.impl.store import (
    ABSENT,
    ANYTHING,
    BrokenPromise,
    Matches,
    Misuse,
    Outcome,
    Store,
    Unsupported,
    Unusable,
    open_store,
)
from fencepost.impl.store import requests as ask
from fencepost.impl.store.s3 import S3Store, client
from tests.servers.endpoint import Endpoint
from tests.servers.moto_here import Here


@pytest.fixture
def store(honest_moto: Here) -> Iterator[Store]:
    with open_store(honest_moto.bucket()) as store:
        yield store


def below(url: str, prefix: str) -> str:
    return url.replace("?", f"/{prefix}?")


# Where keys live.


def test_keys_live_below_the_prefix(honest_moto: Here) -> None:
    url = honest_moto.bucket()
    with open_store(below(url, "a/b")) as inner, open_store(url) as whole:
        inner.put("k/1", b"v", when=ABSENT)
        for key in ("a/b", "a/b/", "a/bb", "a/b2/k", "other"):
            whole.put(key, b"", when=ANYTHING)
        assert whole.get("a/b/k/1").body == b"v"
        assert [info.key for info in inner.list().objects] == ["k/1"]
        assert inner.list(delimiter="/").prefixes == ("k/",)
        assert [info.key for info in inner.list(after="j").objects] == ["k/1"]
        assert inner.list(after="k/1").objects == ()
        upload = inner.create_upload("big").upload
        assert [info.key for info in inner.list_uploads().uploads] == ["big"]
        assert [info.key for info in whole.list_uploads().uploads] == ["a/b/big"]
        inner.abort_upload("big", upload)


def test_versions_live_below_the_prefix(honest_moto: Here) -> None:
    url = honest_moto.bucket(versioned=True)
    with open_store(below(url, "p")) as inner, open_store(url) as whole:
        inner.put("k", b"v", when=ABSENT)
        whole.put("p/", b"", when=ANYTHING)
        whole.put("q", b"", when=ANYTHING)
        assert [info.key for info in inner.list_versions().versions] == ["k"]


@pytest.mark.parametrize("prefix", ["p", "p/", "/p", "p//", "a b/ü+%"])
def test_its_url_opens_the_same_place(honest_moto: Here, prefix: str) -> None:
    parts = urlsplit(honest_moto.bucket())
    with S3Store(parts.netloc, prefix, honest_moto.address, "us-east-1") as first:
        first.put("k", prefix.encode(), when=ABSENT)
        with open_store(first.url) as second:
            assert second.url == first.url
            assert second.get("k").body == prefix.encode()


def test_the_longest_key_fits_with_its_prefix(honest_moto: Here) -> None:
    with open_store(below(honest_moto.bucket(), "12345")) as store:
        longest = "/".join(["x" * 200] * 6)[: 1024 - 6]
        assert store.put(longest, b"v", when=ABSENT).done
        with pytest.raises(Misuse, match="'12345/'; shorten"):
            store.put(longest + "x", b"v", when=ABSENT)
        with pytest.raises(Misuse, match="shorten"):
            store.list(longest + "x")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("s3://", "names no bucket"),
        ("s3:///prefix", "names no bucket"),
        ("s3://b", "no bucket's name"),
        ("s3://under$core", "no bucket's name"),
        ("s3://bucket/a/../b", "segment"),
        ("s3://bucket?endpoint=", "no address of a server"),
        ("s3://bucket?endpoint=localhost:9000", "no address of a server"),
        ("s3://bucket?endpoint=ftp://host", "no address of a server"),
        ("s3://bucket?endpoint=http://", "no address of a server"),
        ("s3://bucket?endpoint=http://a b", "no address of a server"),
        ("s3://bucket?endpoint=http://host:99999", "cannot be read as an address"),
        ("s3://bucket?endpoint=http://host?x=1", "no address of a server"),
        ("s3://bucket?region=", "no region's name"),
        ("s3://bucket?region=us east", "no region's name"),
        ("s3://bucket?read_timeout_s=0", "more than 0"),
        ("s3://bucket?read_timeout_s=soon", "is a number"),
        ("s3://bucket?unknown=1", "unknown option"),
    ],
)
def test_urls_that_make_no_sense_are_refused(url: str, words: str) -> None:
    with pytest.raises(Misuse, match=words) as caught:
        open_store(url)
    assert "\n" not in str(caught.value)


def test_secrets_in_urls_are_refused_and_not_repeated() -> None:
    for url in ("s3://key:SECRET@bucket", "s3://bucket?endpoint=http://key:SECRET@host:1"):
        with pytest.raises(Misuse, match="no credentials") as caught:
            open_store(url)
        assert "SECRET" not in str(caught.value)


def test_urls_carry_their_time_outs() -> None:
    store = open_store("s3://bucket?region=r&connect_timeout_s=1&read_timeout_s=2.5")
    assert store.url == "s3://bucket?region=r&connect_timeout_s=1.0&read_timeout_s=2.5"


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1", None])
def test_the_sdk_is_set_up_as_asked(credentials: None, endpoint: str | None) -> None:
    """What no test waits for: sixty seconds to connect are the SDK's own, and ten connections."""
    with S3Store(
        "bucket", "", endpoint, "us-east-1", connect_timeout_s=1.5, read_timeout_s=2.5, connections=7
    ) as store:
        config = store.client().meta.config
    assert (config.connect_timeout, config.read_timeout, config.max_pool_connections) == (1.5, 2.5, 7)
    assert config.retries["total_max_attempts"] == 1
    relative = endpoint is not None
    assert config.s3["addressing_style"] == ("path" if relative else "auto")
    assert config.request_checksum_calculation == ("when_required" if relative else "when_supported")


# Whether it can be used at all.


def unusable(url: str) -> str:
    """What `verify` says, on one line."""
    with open_store(url) as store, pytest.raises(Unusable) as caught:
        store.verify()
    text = str(caught.value)
    assert "\n" not in text
    assert urlsplit(url).netloc in text
    return text


def test_a_missing_bucket_is_named(honest_moto: Here) -> None:
    assert "create the bucket, or correct its name" in unusable(honest_moto.url("no-such-bucket"))


def test_an_endpoint_nobody_listens_at_is_named(credentials: None) -> None:
    text = unusable("s3://bucket?endpoint=http://127.0.0.1:1&region=us-east-1")
    assert "http://127.0.0.1:1" in text
    assert "Connection refused" in text


def test_an_endpoint_that_speaks_no_tls_is_named(honest_moto: Here) -> None:
    assert "SSL" in unusable(honest_moto.url("bucket").replace("http:", "https:"))


def test_missing_credentials_are_named(honest_moto: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in unusable(honest_moto.url("bucket"))


def test_a_missing_profile_is_named(honest_moto: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    assert "ProfileNotFound" in unusable(honest_moto.url("bucket"))


def test_broken_aws_settings_are_named(honest_moto: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "no address")
    with open_store("s3://bucket") as store, pytest.raises(Unusable, match=r"AWS settings"):
        store.verify()


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("InvalidAccessKeyId", "does not know this access key"),
        ("SignatureDoesNotMatch", "secret key does not fit"),
        ("AccessDenied", "give these credentials the permission"),
        ("RequestTimeTooSkewed", "clock"),
        ("ExpiredToken", "renew the credentials"),
    ],
)
def test_refused_credentials_are_distinguished(honest_moto: Here, code: str, advice: str) -> None:
    body = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
    honest_moto.answer("403 Forbidden", body, method="GET")
    assert advice in unusable(honest_moto.bucket())


@pytest.mark.server
def test_bad_credentials_at_a_store_that_checks(seaweedfs: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    url = seaweedfs.bucket()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")
    assert "secret key does not fit" in unusable(url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    assert "does not know this access key" in unusable(url)


def test_something_that_is_no_s3_is_named(credentials: None) -> None:
    with serving(Page(200, b"<html>hello</html>")) as address:
        assert "check its endpoint" in unusable(f"s3://bucket?endpoint={address}&region=us-east-1")


def test_a_store_that_says_nothing_is_given_up(credentials: None) -> None:
    with serving(Page(None)) as address:
        url = f"s3://bucket?endpoint={address}&region=us-east-1&read_timeout_s=0.05"
        assert "ReadTimeoutError" in unusable(url)
        with open_store(url) as store:
            assert store.put("k", b"v", when=ABSENT).outcome is Outcome.UNKNOWN


def test_a_command_says_it_in_one_line(credentials: None, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole way: from the URL to standard error."""
    url = "s3://bucket?endpoint=http://127.0.0.1:1&region=us-east-1"
    assert run(lambda: open_store(url).verify()) == 2
    assert run(lambda: open_store("s3://?region=x").verify()) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("fencepost: ") for line in lines)


# What a reply must hold. A server that answers anything at all with one page.


class Page:
    """One answer to everything; a status of None is silence."""

    def __init__(self, status: int | None, body: bytes = b"", **headers: str) -> None:
        self.status = status
        self.body = body
        self.headers = {
            "Content-Length": str(len(body)),
            **{n.replace("_", "-"): v for n, v in headers.items()},
        }
        self.asked: list[dict[str, str]] = []
        self.queries: list[dict[str, list[str]]] = []
        self.over = threading.Event()


@contextlib.contextmanager
def serving(page: Page) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            page.asked.append({name.lower(): value for name, value in self.headers.items()})
            page.queries.append(parse_qs(urlsplit(self.path).query))
            if page.status is None:
                page.over.wait(5)
                return
            self.send_response(page.status)
            for name, value in page.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(page.body)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = answer  # noqa: N815 - http.server's names

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            page.over.set()
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def answering(page: Page, **options: Any) -> Iterator[S3Store]:
    """A store whose every request is answered by `page`."""
    with (
        serving(page) as address,
        S3Store("bucket", endpoint=address, region="us-east-1", **options) as store,
    ):
        yield store


ETAG = {"ETag": '"abc"'}


def test_a_reply_without_an_etag_breaks_the_promise(credentials: None) -> None:
    with answering(Page(200)) as store:
        for act in (
            lambda: store.put("k", b"", when=ABSENT),
            lambda: store.get("k"),
            lambda: store.head("k"),
            lambda: store.upload_part("k", "u", 1, b""),
        ):
            with pytest.raises(BrokenPromise, match="no ETag"):
                act()


def test_a_weak_etag_breaks_the_promise(credentials: None) -> None:
    with answering(Page(200, ETag='W/"abc"')) as store, pytest.raises(BrokenPromise, match="proxy"):
        store.get("k")


def test_a_body_that_is_not_what_was_stored_breaks_the_promise(credentials: None) -> None:
    def page(body: bytes) -> Page:
        crc = b64encode(zlib.crc32(b"stored").to_bytes(4, "big")).decode()
        return Page(200, body, **ETAG, x_amz_checksum_crc32=crc)

    with answering(page(b"stored")) as store:
        assert store.get("k").body == b"stored"
    with answering(page(b"st0red")) as store, pytest.raises(BrokenPromise, match="damaged"):
        store.get("k")


def test_a_checksum_is_asked_for_of_whole_objects_only(credentials: None) -> None:
    """That of a part would be compared with the whole's."""
    page = Page(206, b"234", **ETAG, Content_Range="bytes 2-4/10")
    with answering(page) as store:
        store.get("k", start=2, stop=5)
    page.status = 200
    with answering(page) as store:
        store.get("k")
    assert [asked.get("x-amz-checksum-mode") for asked in page.asked] == [None, "ENABLED"]


def test_a_body_cut_short_is_no_object(credentials: None) -> None:
    with answering(Page(200, b"half", **{**ETAG, "Content_Length": "8"})) as store:
        assert store.get("k").outcome is Outcome.UNKNOWN


def test_a_server_that_ignores_ranges_is_understood(credentials: None) -> None:
    with answering(Page(200, b"0123456789", **ETAG)) as store:
        reply = store.get("k", start=2, stop=5)
        assert (reply.body, reply.info and reply.info.size) == (b"234", 10)
        assert store.get("k", start=8, stop=99).body == b"89"
        assert store.get("k", start=10).outcome is Outcome.PAST_END


@pytest.mark.parametrize("output", ["", "bytes 0-2/10", "bytes 2-5/10", "bytes 2-4/*", "bytes 2-4/4"])
def test_another_range_than_asked_for_breaks_the_promise(credentials: None, output: str) -> None:
    page = Page(206, b"234", **ETAG, Content_Range=output)
    with answering(page) as store, pytest.raises(BrokenPromise, match="2 to 5"):
        store.get("k", start=2, stop=5)


def test_metadata_names_lose_their_capitals(credentials: None) -> None:
    """Servers written in Go send every header with capitals."""
    with answering(Page(200, b"", **ETAG, X_Amz_Meta_Some_Name="Value")) as store:
        info = store.head("k").info
        assert info is not None
        assert dict(info.metadata) == {"some-name": "Value"}


LISTING = b"""<ListBucketResult><Name>bucket</Name><IsTruncated>%s</IsTruncated>
<Contents><Key>%s</Key><Size>1</Size><ETag>"abc"</ETag></Contents></ListBucketResult>"""


def test_a_key_outside_of_what_was_asked_for_breaks_the_promise(credentials: None) -> None:
    with serving(Page(200, LISTING % (b"false", b"elsewhere"))) as address:
        store = S3Store("bucket", "prefix", address, "us-east-1")
        with store, pytest.raises(BrokenPromise, match="'elsewhere'"):
            store.list()


def test_more_without_a_way_on_breaks_the_promise(credentials: None) -> None:
    with answering(Page(200, LISTING % (b"true", b"k"))) as store, pytest.raises(BrokenPromise, match="more"):
        store.list()


def test_an_entry_without_its_size_breaks_the_promise(credentials: None) -> None:
    page = Page(200, (LISTING % (b"false", b"k")).replace(b"<Size>1</Size>", b""))
    with answering(page) as store, pytest.raises(BrokenPromise, match="Size"):
        store.list()


ENTRY = "<Key>k</Key><VersionId>%s</VersionId><IsLatest>%s</IsLatest>"
VERSIONS = f"""<ListVersionsResult><Status>Enabled</Status><Name>bucket</Name><IsTruncated>true</IsTruncated>
<NextKeyMarker>k</NextKeyMarker><NextVersionIdMarker>v1</NextVersionIdMarker>
<Version>{ENTRY % ("v4", "true")}<ETag>"d"</ETag><Size>4</Size></Version>
<DeleteMarker>{ENTRY % ("v3", "false")}</DeleteMarker>
<Version>{ENTRY % ("v2", "false")}<ETag>"b"</ETag><Size>2</Size></Version>
<DeleteMarker>{ENTRY % ("v1", "false")}</DeleteMarker></ListVersionsResult>"""


def test_versions_and_markers_keep_the_order_in_which_the_store_gave_them(credentials: None) -> None:
    """The SDK sorts them apart, and moto gives them apart: only real stores and this show it."""
    with answering(Page(200, VERSIONS.encode())) as store:
        found = store.list_versions().versions
    assert [(each.version, each.marker, each.latest, each.etag, each.size) for each in found] == [
        ("v4", False, True, "d", 4),
        ("v3", True, False, "", 0),
        ("v2", False, False, "b", 2),
        ("v1", True, False, "", 0),
    ]


UPLOADS = b"""<ListMultipartUploadsResult><Bucket>bucket</Bucket><IsTruncated>true</IsTruncated>
<NextKeyMarker>k</NextKeyMarker><NextUploadIdMarker>u1</NextUploadIdMarker>
<Upload><Key>k</Key><UploadId>u1</UploadId></Upload></ListMultipartUploadsResult>"""


def test_the_next_page_is_asked_for_with_both_markers(credentials: None) -> None:
    """A key may have more versions, or uploads, than fit on a page: by the key alone the rest is skipped."""
    page = Page(200, VERSIONS.encode())
    with answering(page) as store:
        store.list_versions(token=store.list_versions().next)
    assert page.queries[-1]["key-marker"] == ["k"]
    assert page.queries[-1]["version-id-marker"] == ["v1"]
    page = Page(200, UPLOADS)
    with answering(page) as store:
        store.list_uploads(token=store.list_uploads().next)
    assert page.queries[-1]["key-marker"] == ["k"]
    assert page.queries[-1]["upload-id-marker"] == ["u1"]


def test_a_token_of_somebody_else_is_refused(store: Store) -> None:
    with pytest.raises(Misuse, match="token"):
        store.list_uploads(token="no token of ours")


@pytest.mark.parametrize(
    ("received", "unquoted", "sent"),
    [('"abc"', False, '"abc"'), ("abc", False, "abc"), ('"abc"', True, "abc"), ("abc", True, "abc")],
)
def test_an_etag_is_sent_as_it_was_received(
    credentials: None, received: str, unquoted: bool, sent: str
) -> None:
    """R2 takes an ETag with quotes only; Ceph, without them only, so a store can be opened for that."""
    page = Page(200, ETag=received)
    with answering(page, unquoted_etags=unquoted) as store:
        etag = store.put("k", b"", when=ANYTHING).etag
        assert etag == "abc"
        store.put("k", b"", when=Matches(etag))
        store.put("k", b"", when=ABSENT)
        store.delete("k", when=Matches(etag))
    asked = [(one.get("if-match"), one.get("if-none-match")) for one in page.asked]
    assert asked == [(None, None), (sent, None), (None, "*"), (sent, None)]


def test_a_condition_of_a_new_store_has_quotes(credentials: None) -> None:
    page = Page(200, **ETAG)
    with answering(page) as store:
        store.put("k", b"", when=Matches("abc"))
    assert [one.get("if-match") for one in page.asked] == ['"abc"']


def test_the_url_says_that_etags_are_sent_without_quotes() -> None:
    for url in ("s3://bucket/p?unquoted_etags=true", "s3://bucket/p?region=eu&unquoted_etags=true"):
        with open_store(url) as store:
            assert store.url == url
    with open_store("s3://bucket/p?unquoted_etags=false") as store:
        assert store.url == "s3://bucket/p"


# Versions.


def test_whether_there_are_versions_is_asked_once(honest_moto: Here) -> None:
    with open_store(honest_moto.bucket(versioned=True)) as store:
        served = len(honest_moto.app.served)
        assert store.versioned()
        assert store.versioned()
        store.list_versions()
        assert honest_moto.app.served[served].endswith("?versioning")
        assert len(honest_moto.app.served) == served + 2


def test_a_store_that_knows_no_versioning_has_none(honest_moto: Here, store: Store) -> None:
    body = b"<Error><Code>NotImplemented</Code></Error>"
    honest_moto.answer("501 Not Implemented", body, method="GET")
    assert store.versioned() is False
    with pytest.raises(Unsupported):
        store.list_versions()


def test_a_refused_list_of_versions_is_not_an_empty_one(honest_moto: Here, store: Store) -> None:
    honest_moto.answer("500 Internal Server Error", method="GET")
    with pytest.raises(Unusable, match="whether it keeps versions"):
        store.versioned()
    honest_moto.answer("403 Forbidden", b"<Error><Code>AccessDenied</Code></Error>", method="GET")
    with pytest.raises(Unusable, match="permission"):
        store.versioned()
    assert store.versioned() is False


# How it works inside.


def test_the_sdk_is_loaded_only_for_s3() -> None:
    script = "import sys; from fencepost.impl.store import open_store; open_store('memory://'); "
    script += "print([name for name in sys.modules if name.startswith(('boto', 'urllib3'))])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_opening_sends_nothing(honest_moto: Here) -> None:
    served = len(honest_moto.app.served)
    open_store(honest_moto.url("nowhere")).close()
    assert len(honest_moto.app.served) == served


def test_threads_share_one_client(honest_moto: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    make = client.make_client
    monkeypatch.setattr(
        "fencepost.impl.store.s3.store.make_client", lambda setup: made.append(1) or make(setup)
    )
    with open_store(honest_moto.bucket()) as store:
        threads = [threading.Thread(target=store.head, args=("k",)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(made) == 1


def test_requests_of_one_step_are_under_way_together(credentials: None) -> None:
    """As many as there are connections; one after another they would wait for each other for ever."""
    together = threading.Barrier(4, timeout=10)

    class Gate(Page):
        @property
        def status(self) -> int:
            together.wait()
            return 200

        @status.setter
        def status(self, _: int | None) -> None:
            pass

    with serving(Gate(200, b"v", **ETAG)) as address:
        store = S3Store("bucket", endpoint=address, region="us-east-1", connections=4)
        with store:
            assert [reply.body for reply in store.send_all([ask.Get(f"k{n}") for n in range(4)])] == [
                b"v"
            ] * 4


def test_closing_ends_its_threads(store: Store) -> None:
    store.send_all([ask.Head("k")] * 5)
    assert [thread for thread in threading.enumerate() if thread.name.startswith("s3")]
    store.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("s3")]
    store.close()
