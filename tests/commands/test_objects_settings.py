"""Settings of `fencepost objects` that also come from variables: each is read, and each does something."""

import contextlib
import json
import logging
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.commands import objects
from fencepost.commands.exit_codes import Exit
from fencepost.commands.objects_settings import exported, logged
from fencepost.commands.operating import Result
from fencepost.impl.environment import SeededEnvironment, SystemEnvironment
from fencepost.impl.objects.app import ObjectServer
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.maintenance import collect_garbage
from fencepost.impl.objects.temporary import Unflushed
from fencepost.impl.store.requests import CreateUpload, Metadata
from tests.commands.running import Run
from tests.impl.http.test_spans import collector, spans_of
from tests.impl.objects.serving import client, served

Options = Callable[..., dict[str, Any]]


@pytest.fixture
def options(ran: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Options:
    """The options of a server that would run, given words and variables."""

    def read(*words: str, **variables: str) -> dict[str, Any]:
        found: dict[str, Any] = {}

        def serve(directory: str, *_: Any) -> Result:
            found.update(_[-1], directory=directory)
            return Result({})

        monkeypatch.setattr(objects, "_serve_directory", serve)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        code, _, error = ran("objects", "serve", *words)
        assert (code, error) == (Exit.HOLDS, "")
        return found

    return read


@pytest.mark.parametrize(
    ("variable", "text", "option", "value"),
    [
        ("LOG_LEVEL", "debug", "log_level", "debug"),
        ("LOG_LEVEL", "INFO", "log_level", "info"),
        ("LOG_FORMAT", "json", "log_format", "json"),
        ("ENVIRONMENT", "production", "log_format", "json"),
        ("ENVIRONMENT", "development", "log_format", "text"),
        ("OBJECTS_INDEX_DIR", "/fast/index", "index_dir", "/fast/index"),
        ("SYNC_LINGER_MS", "7", "linger_s", 0.007),
        ("GC_TEMP_TTL_SECS", "60", "temp_age_s", 60.0),
        ("GC_MULTIPART_TTL_SECS", "120", "upload_age_s", 120.0),
        ("DRAIN_TIMEOUT_SECS", "5", "drain_s", 5.0),
        ("DRAIN_TIMEOUT_SECS", "0", "drain_s", objects.FOREVER_S),
        ("OTLP_ENABLED", "true", "otlp", True),
        ("OTLP_ENABLED", "false", "otlp", False),
        ("OTLP_ENDPOINT", "http://collector:4318", "otlp_endpoint", "http://collector:4318"),
        ("OTLP_SAMPLE_RATE", "0.5", "otlp_sample_rate", 0.5),
        ("OBJECTS_URL", "https://objects.example.com", "url", "https://objects.example.com"),
    ],
)
def test_a_variable_is_read(options: Options, variable: str, text: str, option: str, value: object) -> None:
    assert options("data", **{variable: text})[option] == value


def test_an_option_overrules_its_variable(options: Options) -> None:
    found = options("data", "--linger", "0.007", "--no-otlp", SYNC_LINGER_MS="3", OTLP_ENABLED="true")
    assert (found["linger_s"], found["otlp"]) == (0.007, False)


def test_the_directory_comes_from_a_variable_too(options: Options) -> None:
    assert options(OBJECTS_DATA_DIR="/srv/data")["directory"] == "/srv/data"


def test_the_root_token_comes_from_the_short_variable_too(ran: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FENCEPOST_OBJECTS_ROOT_TOKEN", raising=False)
    monkeypatch.setenv("OBJECTS_ROOT_TOKEN", "a root token of this test")
    code, short, _ = ran("objects", "token", "root")
    assert code == Exit.HOLDS
    monkeypatch.setenv("FENCEPOST_OBJECTS_ROOT_TOKEN", "a root token of this test")
    monkeypatch.setenv("OBJECTS_ROOT_TOKEN", "another one, which is overruled")
    assert ran("objects", "token", "root")[1] == short


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("LOG_LEVEL", "loud", "'loud' is not one of"),
        ("SYNC_LINGER_MS", "-1", "-0.001 is not in the range"),
        ("SYNC_LINGER_MS", "soon", "'soon' is not a valid"),
        ("GC_MULTIPART_TTL_SECS", "0", "0.0 is not in the range"),
        ("OTLP_SAMPLE_RATE", "1.5", "1.5 is not in the range"),
        ("OBJECTS_URL", "objects.example.com", "is no address"),
        ("OTLP_ENDPOINT", "collector", "is no endpoint"),
    ],
)
def test_a_variable_that_means_nothing_is_refused(
    ran: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, text: str, message: str
) -> None:
    monkeypatch.setenv("FENCEPOST_OBJECTS_ROOT_TOKEN", "a root token of this test")
    monkeypatch.setenv("OTLP_ENABLED", "true")
    monkeypatch.setenv(variable, text)
    code, _, error = ran("objects", "serve", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    assert code == Exit.BAD_REQUEST
    assert message in error
    assert not (tmp_path / "data").exists()


def test_an_index_folder_needs_a_directory(ran: Run) -> None:
    code, _, error = ran("objects", "serve", "--memory", "--index-dir", "/fast/index")
    assert code == Exit.BAD_REQUEST
    assert "leave out --index-dir" in error


# What they do.


@pytest.mark.parametrize(("level", "shown"), [("info", ["asked", "failed"]), ("error", ["failed"])])
def test_the_level_and_the_form_of_the_log(
    capsys: pytest.CaptureFixture[str], level: str, shown: list[str]
) -> None:
    log = logging.getLogger("fencepost.objects")
    with logged({"log_level": level, "log_format": "json"}):
        log.debug("nothing")
        log.info("asked")
        try:
            raise OSError("the disk\nis full")
        except OSError:
            log.exception("failed")
    log.error("after the end")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    assert [line["message"] for line in lines] == shown
    assert lines[-1]["level"] == "error"
    assert lines[-1]["logger"] == "fencepost.objects"
    assert "the disk\nis full" in lines[-1]["exception"]


def test_a_log_of_text_has_no_line_that_a_client_wrote(capsys: pytest.CaptureFixture[str]) -> None:
    with logged({"log_level": "info", "log_format": "text"}):
        logging.getLogger("fencepost.objects").info("GET /a\nGET /b")
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_uploads_go_at_the_age_that_is_set(tmp_path: Path) -> None:
    env = SeededEnvironment()
    with contextlib.closing(Buckets(str(tmp_path), env)) as buckets:
        buckets.create("bucket")
        buckets.store("bucket").begin_upload(CreateUpload("key"), Metadata())
        for path in Path(tmp_path, "bucket", ".fencepost", "uploads").iterdir():
            env.sleep(max(0.0, path.stat().st_mtime - env.now_ns() / 1e9))
        env.sleep(61)
        assert list(collect_garbage(buckets, 3600.0)) == []
        assert list(collect_garbage(buckets, 60.0)) == [("bucket", 1)]


def test_flushes_and_temporary_files_take_what_is_set(tmp_path: Path) -> None:
    with contextlib.closing(Buckets(str(tmp_path), linger_ms=0.0, temp_age_s=60.0)) as buckets:
        buckets.create("bucket")
        store = buckets.store("bucket")
        assert store.url.endswith("?linger_ms=0")
        assert (store._options.linger_s, store._options.temp_age_s) == (0.0, 60.0)


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[tuple[Any, list[tuple[str, bytes]]]]:
    """A client of a server that exports all spans, and what its collector gets by the end."""
    with contextlib.ExitStack() as held:
        endpoint, got = held.enter_context(collector())
        options = {"otlp": True, "otlp_endpoint": endpoint, "otlp_sample_rate": 1.0}

        def make(*given: Any, **named: Any) -> ObjectServer:
            server = ObjectServer(*given, **named)
            held.enter_context(exported(server, options, SeededEnvironment()))
            return server

        with served(tmp_path, disk=Unflushed(), make=make) as address:
            yield client(address), got


def test_requests_are_exported_without_what_is_secret(traced: tuple[Any, list[tuple[str, bytes]]]) -> None:
    s3, got = traced
    s3.create_bucket(Bucket="bucket")
    s3.put_object(Bucket="bucket", Key="key", Body=b"content", Metadata={"m": "metadata"})
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "key"})
    for _ in range(2):  # perhaps the second is answered at once
        with urllib.request.urlopen(url) as response:
            assert response.read() == b"content"
    for _ in range(200):
        if len(spans_of(got)) >= 4:
            break
        SystemEnvironment().sleep(0.05)
    text = b"".join(body for _, body in got).decode()
    assert [span["name"] for span in spans_of(got)] == ["PUT", "PUT", "GET", "GET"]
    for secret in ("Signature", "AWS4-HMAC", "content", "metadata"):
        assert secret not in text.replace("http.", "")


def test_places_in_responses_have_the_address_that_is_set(tmp_path: Path) -> None:
    with contextlib.closing(Buckets(str(tmp_path), url="https://objects.example.com/")) as buckets:
        assert buckets.location("bucket", "a b/ä") == "https://objects.example.com/bucket/a%20b/%C3%A4"
    with contextlib.closing(Buckets(str(tmp_path))) as buckets:
        assert buckets.location("bucket", "key") == "/bucket/key"
