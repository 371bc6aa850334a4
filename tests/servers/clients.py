"""What common S3 clients do against our server: a table of client x operation.

    python -m tests.servers.clients out/objects-clients.md

Each client works in a bucket of its own, through the API or commands that its users have. A cell is `yes`,
or the number of the reason below the table. A client that is not installed is left out, with the reason.
"""

import contextlib
import hashlib
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
import urllib.request
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

from tests import outcomes

TOKEN = "a root token of the clients"
SECRET = ""
BODY = b"0123456789" * 100
LARGE = hashlib.sha256(b"large").digest() * ((12 << 20) // 32)
COLUMNS = (
    "bucket", "put", "get", "range", "head", "list", "copy", "multipart", "create once", "presigned",
    "tags", "versions", "table", "delete",
)  # fmt: skip
Steps = dict[str, Callable[[], object]]
CLIENTS: dict[str, tuple[str, Callable[[str, str], Steps]]] = {}
"""By name: the package or program that it needs, and its steps at an address and in a bucket."""


def client(name: str, needs: str) -> Callable[[Callable[[str, str], Steps]], Callable[[str, str], Steps]]:
    def register(steps: Callable[[str, str], Steps]) -> Callable[[str, str], Steps]:
        CLIENTS[name] = (needs, steps)
        return steps

    return register


def require(condition: object, what: str) -> None:
    if not condition:
        raise AssertionError(what)


def run(*command: str, **environment: str) -> str:
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **environment}
    )
    require(
        ended.returncode == 0, f"exit {ended.returncode}: {(ended.stderr or ended.stdout).strip()[-300:]}"
    )
    return ended.stdout


def refused(act: Callable[[], object], *words: str) -> None:
    try:
        act()
    except Exception as error:  # noqa: BLE001  each client has exceptions of its own
        require(any(word in str(error) + type(error).__name__ for word in words), f"refused with {error!r}")
    else:
        raise AssertionError("the second create was accepted")


@client("boto3", "boto3")
def boto3(address: str, bucket: str) -> Steps:
    import boto3 as sdk
    from boto3.s3.transfer import TransferConfig

    s3 = sdk.client("s3", endpoint_url=address)
    at = {"Bucket": bucket, "Key": "a/k"}
    source = {"Bucket": bucket, "Key": "a/k"}

    def multipart() -> None:
        with scratch(LARGE) as file:
            s3.upload_file(str(file), bucket, "large", Config=TransferConfig(multipart_threshold=8 << 20))
        require(s3.get_object(Bucket=bucket, Key="large")["Body"].read() == LARGE, "other bytes")

    def presigned() -> None:
        with urllib.request.urlopen(s3.generate_presigned_url("get_object", Params=at)) as answer:
            require(answer.read() == BODY, "other bytes")

    def tags() -> None:
        wanted = [{"Key": "a", "Value": "1"}]
        s3.put_object_tagging(**at, Tagging={"TagSet": wanted})
        require(s3.get_object_tagging(**at)["TagSet"] == wanted, "other tags")

    def versions() -> None:
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        s3.put_object(**at, Body=b"second")
        found = s3.list_object_versions(Bucket=bucket, Prefix="a/k")["Versions"]
        require(len(found) == 2, f"{len(found)} versions")
        s3.delete_object(**at, VersionId=found[0]["VersionId"])
        require(s3.get_object(**at)["Body"].read() == BODY, "other bytes")

    return {
        "bucket": lambda: s3.create_bucket(Bucket=bucket),
        "put": lambda: s3.put_object(**at, Body=BODY, Metadata={"a": "b"}),
        "get": lambda: require(s3.get_object(**at)["Body"].read() == BODY, "other bytes"),
        "range": lambda: require(
            s3.get_object(**at, Range="bytes=2-4")["Body"].read() == BODY[2:5], "other bytes"
        ),
        "head": lambda: require(s3.head_object(**at)["Metadata"] == {"a": "b"}, "other metadata"),
        "list": lambda: require(
            s3.list_objects_v2(Bucket=bucket, Delimiter="/")["CommonPrefixes"] == [{"Prefix": "a/"}], "others"
        ),
        "copy": lambda: s3.copy_object(Bucket=bucket, Key="copied", CopySource=source),
        "multipart": multipart,
        "create once": lambda: refused(
            lambda: s3.put_object(**at, Body=b"", IfNoneMatch="*"), "PreconditionFailed"
        ),
        "presigned": presigned,
        "tags": tags,
        "versions": versions,
        "delete": lambda: s3.delete_object(**at),
    }


@client("aws (command line)", "aws")
def aws(address: str, bucket: str) -> Steps:
    def cli(*words: str) -> str:
        return run("aws", "--endpoint-url", address, *words)

    def api(*words: str) -> str:
        return cli("s3api", *words, "--bucket", bucket)

    def put() -> None:
        with scratch(BODY) as file:
            cli("s3", "cp", str(file), f"s3://{bucket}/a/k", "--no-progress")

    def multipart() -> None:
        with scratch(LARGE) as file:
            cli("s3", "cp", str(file), f"s3://{bucket}/large", "--no-progress")
            cli("s3", "cp", f"s3://{bucket}/large", f"{file}-back", "--no-progress")
            require(Path(f"{file}-back").read_bytes() == LARGE, "other bytes")

    def presigned() -> None:
        with urllib.request.urlopen(cli("s3", "presign", f"s3://{bucket}/a/k").strip()) as answer:
            require(answer.read() == BODY, "other bytes")

    def versions() -> None:
        api("put-bucket-versioning", "--versioning-configuration", "Status=Enabled")
        put()
        require(api("list-object-versions", "--prefix", "a/k").count('"VersionId"') == 2, "other versions")

    return {
        "bucket": lambda: cli("s3", "mb", f"s3://{bucket}"),
        "put": put,
        "get": lambda: require(cli("s3", "cp", f"s3://{bucket}/a/k", "-").encode() == BODY, "other bytes"),
        "range": lambda: api("get-object", "--key", "a/k", "--range", "bytes=0-3", os.devnull),
        "head": lambda: require("1000" in api("head-object", "--key", "a/k"), "another size"),
        "list": lambda: require("PRE a/" in cli("s3", "ls", f"s3://{bucket}"), "others"),
        "copy": lambda: cli("s3", "cp", f"s3://{bucket}/a/k", f"s3://{bucket}/copied"),
        "multipart": multipart,
        "create once": lambda: refused(
            lambda: api("put-object", "--key", "a/k", "--if-none-match", "*"), "PreconditionFailed"
        ),
        "presigned": presigned,
        "tags": lambda: api("put-object-tagging", "--key", "a/k", "--tagging", "TagSet=[{Key=a,Value=1}]"),
        "versions": versions,
        "delete": lambda: cli("s3", "rm", f"s3://{bucket}", "--recursive"),
    }


@client("s3cmd", "s3cmd")
def s3cmd(address: str, bucket: str) -> Steps:
    host = address.removeprefix("http://")
    options = [
        "s3cmd", "--no-ssl", f"--host={host}", f"--host-bucket={host}", "--access_key=root",
        f"--secret_key={SECRET}", "--no-progress", "--config=/dev/null",
    ]  # fmt: skip

    def cli(*words: str) -> str:
        return run(*options, *words)

    def put(body: bytes, key: str) -> None:
        with scratch(body) as file:
            cli("put", "--multipart-chunk-size-mb=5", str(file), f"s3://{bucket}/{key}")

    def get(key: str, wanted: bytes) -> None:
        with scratch(b"") as file:
            cli("get", "--force", f"s3://{bucket}/{key}", str(file))
            require(file.read_bytes() == wanted, "other bytes")

    def multipart() -> None:
        put(LARGE, "large")
        get("large", LARGE)

    def presigned() -> None:
        # Signature Version 2, which the program has for this and the server does not.
        with urllib.request.urlopen(cli("signurl", f"s3://{bucket}/a/k", "+600").strip()) as answer:
            require(answer.read() == BODY, "other bytes")

    def tags() -> None:
        cli("settagging", f"s3://{bucket}/a/k", "a=1")
        require("a" in cli("gettagging", f"s3://{bucket}/a/k"), "other tags")

    newer = {"tags": tags, "versions": lambda: cli("setversioning", f"s3://{bucket}", "enable")}
    commands = cli("--help")
    return {
        "bucket": lambda: cli("mb", f"s3://{bucket}"),
        "put": lambda: put(BODY, "a/k"),
        "get": lambda: get("a/k", BODY),
        "head": lambda: require("1000" in cli("info", f"s3://{bucket}/a/k"), "another size"),
        "list": lambda: require(f"s3://{bucket}/a/" in cli("ls", f"s3://{bucket}"), "others"),
        "copy": lambda: cli("cp", f"s3://{bucket}/a/k", f"s3://{bucket}/copied"),
        "multipart": multipart,
        "presigned": presigned,
        **(newer if "settagging" in commands and "setversioning" in commands else {}),
        "delete": lambda: cli("del", "--recursive", "--force", f"s3://{bucket}"),
    }


@client("rclone", "rclone")
def rclone(address: str, bucket: str) -> Steps:
    remote = f":s3,provider=Other,access_key_id=root,secret_access_key={SECRET},region=us-east-1"
    remote += f",endpoint='{address}',force_path_style=true:{bucket}"

    def cli(*words: str) -> str:
        return run("rclone", "--config=/dev/null", "--retries=1", "--low-level-retries=1", *words)

    def put(body: bytes, key: str, *options: str) -> None:
        with scratch(body) as file:
            cli("copyto", str(file), f"{remote}/{key}", *options)

    def multipart() -> None:
        put(LARGE, "large", "--s3-upload-cutoff=5M", "--s3-chunk-size=5M")
        with scratch(b"") as file:
            cli("copyto", f"{remote}/large", f"{file}-back")
            require(Path(f"{file}-back").read_bytes() == LARGE, "other bytes")

    def presigned() -> None:
        with urllib.request.urlopen(cli("link", f"{remote}/a/k").strip()) as answer:
            require(answer.read() == BODY, "other bytes")

    return {
        "bucket": lambda: cli("mkdir", remote),
        "put": lambda: put(BODY, "a/k"),
        "get": lambda: require(cli("cat", f"{remote}/a/k").encode() == BODY, "other bytes"),
        "range": lambda: require(
            cli("cat", "--offset=2", "--count=3", f"{remote}/a/k").encode() == BODY[2:5], "other bytes"
        ),
        "head": lambda: require("1000" in cli("size", f"{remote}/a/k"), "another size"),
        "list": lambda: require("a/k" in cli("lsf", "-R", remote), "others"),
        "copy": lambda: cli("copyto", f"{remote}/a/k", f"{remote}/copied"),
        "multipart": multipart,
        "presigned": presigned,
        "delete": lambda: cli("delete", remote),
    }


@client("s3fs", "s3fs")
def s3fs(address: str, bucket: str) -> Steps:
    import s3fs as library

    fs = library.S3FileSystem(
        key="root",
        secret=SECRET,
        endpoint_url=address,
        client_kwargs={"region_name": "us-east-1"},
        config_kwargs={"signature_version": "s3v4"},
    )

    def multipart() -> None:
        with fs.open(f"{bucket}/large", "wb", block_size=5 << 20) as file:
            file.write(LARGE)
        require(fs.cat_file(f"{bucket}/large") == LARGE, "other bytes")

    def presigned() -> None:
        with urllib.request.urlopen(fs.sign(f"{bucket}/a/k")) as answer:
            require(answer.read() == BODY, "other bytes")

    def tags() -> None:
        fs.put_tags(f"{bucket}/a/k", {"a": "1"})
        require(fs.get_tags(f"{bucket}/a/k") == {"a": "1"}, "other tags")

    return {
        "bucket": lambda: fs.mkdir(bucket),
        "put": lambda: fs.pipe_file(f"{bucket}/a/k", BODY),
        "get": lambda: require(fs.cat_file(f"{bucket}/a/k") == BODY, "other bytes"),
        "range": lambda: require(fs.cat_file(f"{bucket}/a/k", start=2, end=5) == BODY[2:5], "other bytes"),
        "head": lambda: require(fs.info(f"{bucket}/a/k")["size"] == len(BODY), "another size"),
        "list": lambda: require(fs.ls(f"{bucket}/a", detail=False) == [f"{bucket}/a/k"], "others"),
        "copy": lambda: fs.copy(f"{bucket}/a/k", f"{bucket}/copied"),
        "multipart": multipart,
        "create once": lambda: refused(
            lambda: fs.pipe_file(f"{bucket}/a/k", b"x", mode="create"), "FileExists", "pre-conditions"
        ),
        "presigned": presigned,
        "tags": tags,
        "delete": lambda: fs.rm(bucket, recursive=True),
    }


@client("obstore", "obstore")
def obstore(address: str, bucket: str) -> Steps:
    import obstore as library
    from obstore.store import S3Store

    _make(address, bucket)
    store = S3Store(
        bucket, endpoint=address, access_key_id="root", secret_access_key=SECRET, region="us-east-1",
        client_options={"allow_http": True}, virtual_hosted_style_request=False,
    )  # fmt: skip

    def multipart() -> None:
        library.put(store, "large", LARGE, use_multipart=True, chunk_size=5 << 20)
        require(bytes(library.get(store, "large").bytes()) == LARGE, "other bytes")

    def presigned() -> None:
        from datetime import timedelta

        with urllib.request.urlopen(library.sign(store, "GET", "a/k", timedelta(minutes=5))) as answer:
            require(answer.read() == BODY, "other bytes")

    return {
        "put": lambda: library.put(store, "a/k", BODY),
        "get": lambda: require(bytes(library.get(store, "a/k").bytes()) == BODY, "other bytes"),
        "range": lambda: require(
            bytes(library.get_range(store, "a/k", start=2, end=5)) == BODY[2:5], "other bytes"
        ),
        "head": lambda: require(library.head(store, "a/k")["size"] == len(BODY), "another size"),
        "list": lambda: require(library.list_with_delimiter(store)["common_prefixes"] == ["a"], "others"),
        "copy": lambda: library.copy(store, "a/k", "copied"),
        "multipart": multipart,
        "create once": lambda: refused(
            lambda: library.put(store, "a/k", b"", mode="create"), "AlreadyExists"
        ),
        "presigned": presigned,
        "delete": lambda: library.delete(store, ["a/k", "copied"]),
    }


@client("pyarrow S3FileSystem", "pyarrow")
def pyarrow(address: str, bucket: str) -> Steps:
    import pyarrow as pa
    import pyarrow.dataset
    import pyarrow.parquet
    from pyarrow.fs import FileSelector, S3FileSystem

    fs = S3FileSystem(
        access_key="root", secret_key=SECRET, endpoint_override=address, region="us-east-1",
        allow_bucket_creation=True, allow_bucket_deletion=True,
    )  # fmt: skip

    def write(name: str, body: bytes) -> None:
        with fs.open_output_stream(f"{bucket}/{name}") as file:
            file.write(body)

    def read(name: str) -> bytes:
        with fs.open_input_stream(f"{bucket}/{name}") as file:
            return bytes(file.read())

    def multipart() -> None:
        write("large", LARGE)
        require(read("large") == LARGE, "other bytes")

    def ranged() -> None:
        with fs.open_input_file(f"{bucket}/a/k") as file:
            require(file.read_at(3, 2) == BODY[2:5], "other bytes")

    def table() -> None:
        rows = pa.table({"a": [1, 2, 3], "b": ["x", "y", "x"]})
        pyarrow.dataset.write_dataset(
            rows, f"{bucket}/table", filesystem=fs, format="parquet", partitioning=["b"]
        )
        found = pyarrow.dataset.dataset(f"{bucket}/table", filesystem=fs, partitioning=["b"])
        require(found.count_rows() == 3, "other rows")

    return {
        "bucket": lambda: fs.create_dir(bucket),
        "put": lambda: write("a/k", BODY),
        "get": lambda: require(read("a/k") == BODY, "other bytes"),
        "range": ranged,
        "head": lambda: require(fs.get_file_info(f"{bucket}/a/k").size == len(BODY), "another size"),
        "list": lambda: require(
            "k" in [info.base_name for info in fs.get_file_info(FileSelector(bucket, recursive=True))],
            "others",
        ),
        "copy": lambda: fs.copy_file(f"{bucket}/a/k", f"{bucket}/copied"),
        "multipart": multipart,
        "table": table,
        "delete": lambda: fs.delete_dir(bucket),
    }


@client("deltalake", "deltalake")
def deltalake(address: str, bucket: str) -> Steps:
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake

    _make(address, bucket)
    options = {
        "AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "root", "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true", "aws_conditional_put": "etag",
    }  # fmt: skip
    place = f"s3://{bucket}/table"

    def table() -> None:
        for number in range(3):
            write_deltalake(place, pa.table({"a": [number]}), mode="append", storage_options=options)
        found = DeltaTable(place, storage_options=options)
        require(found.version() == 2, f"version {found.version()}")
        require(found.to_pyarrow_table().num_rows == 3, "other rows")

    return {
        "table": table,
        "delete": lambda: DeltaTable(place, storage_options=options).delete("a = 1"),
    }


@client("pyiceberg", "pyiceberg")
def pyiceberg(address: str, bucket: str) -> Steps:
    import pyarrow as pa
    from pyiceberg.catalog import load_catalog

    _make(address, bucket)
    folder = tempfile.mkdtemp()
    catalog = load_catalog(
        "test",
        **{
            "type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"s3://{bucket}/warehouse",
            "s3.endpoint": address, "s3.access-key-id": "root", "s3.secret-access-key": SECRET,
            "s3.region": "us-east-1",
        },
    )  # fmt: skip

    def table() -> None:
        catalog.create_namespace("n")
        rows = pa.table({"a": [1, 2, 3]})
        made = catalog.create_table("n.t", schema=rows.schema)
        made.append(rows)
        made.append(rows)
        require(catalog.load_table("n.t").scan().to_arrow().num_rows == 6, "other rows")

    return {"table": table, "delete": lambda: catalog.load_table("n.t").delete("a = 1")}


def _make(address: str, bucket: str) -> None:
    """For clients that cannot create a bucket."""
    request = urllib.request.Request(
        f"{address}/v1/buckets", json.dumps({"name": bucket}).encode(), {"Authorization": f"Bearer {TOKEN}"}
    )
    urllib.request.urlopen(request).close()


@contextlib.contextmanager
def scratch(body: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_bytes(body)
        yield path


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """The address of our server, with two workers on a new directory."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "fencepost", "objects", "serve", folder]
        with subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0", "--workers", "2"],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "FENCEPOST_OBJECTS_ROOT_TOKEN": TOKEN},
        ) as process:  # fmt: skip
            try:
                assert process.stdout is not None
                address = process.stdout.readline().removeprefix("listening on ").strip()
                require(address, "the server did not start")
                yield address
            finally:
                process.terminate()


def version_of(needs: str) -> str:
    """The version that is installed; raises LookupError with the reason when it is not."""
    if needs in ("aws", "s3cmd", "rclone"):
        if shutil.which(needs) is None:
            raise LookupError(f"no program {needs} on the path")
        option = "version" if needs == "rclone" else "--version"
        words = run(needs, option).split()
        return words[0].removeprefix("aws-cli/") if needs == "aws" else words[-1 if needs == "s3cmd" else 1]
    try:
        importlib.import_module(needs)
        return metadata.version(needs)
    except ImportError as error:
        raise LookupError(f"the package {needs} is not installed") from error


def row_of(name: str, address: str, number: int, reasons: list[str]) -> list[str]:
    needs, make = CLIENTS[name]
    version = version_of(needs)
    sys.stderr.write(f"{name} {version}\n")
    try:
        steps = make(address, f"client-{number}")
    except Exception as error:  # noqa: BLE001  each client has exceptions of its own
        reasons.append(f"{name}: {short(error)}")
        return [f"{name} {version}", *[f"[{len(reasons)}]"] * len(COLUMNS)]
    cells = []
    for column in COLUMNS:
        if column not in steps:
            cells.append("-")
            continue
        try:
            steps[column]()
            cells.append("yes")
        except Exception as error:  # noqa: BLE001  the same
            traceback.print_exc()
            reasons.append(f"{name}, {column}: {KNOWN.get((name, column)) or short(error)}")
            cells.append(f"[{len(reasons)}]")
    return [f"{name} {version}", *cells]


KNOWN = {
    ("s3cmd", "presigned"): "`signurl` signs with Signature Version 2, which the server does not have; AWS "
    "refuses it in every region that is newer than 2014",
}
"""Reasons that the message of a failure does not give."""


def short(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:240]


def main(target: str) -> int:
    global SECRET
    import hmac

    SECRET = hmac.digest(TOKEN.encode(), b"root", "sha256").hex()
    os.environ.pop("AWS_CA_BUNDLE", None)
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "root", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": configuration(),
    }  # fmt: skip
    rows, reasons, missing = [], [], []
    with serving() as address:
        for number, name in enumerate(CLIENTS):
            try:
                rows.append(row_of(name, address, number, reasons))
            except LookupError as error:
                missing.append(f"{name}: {error}")
    text = page(rows, reasons, missing)
    sys.stdout.write(text)
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    Path(target).write_text(text)
    known = {f"{name}, {column}: {why}" for (name, column), why in KNOWN.items()}
    failed = [reason for reason in reasons if reason not in known]
    skipped = dict.fromkeys([*missing, *(reason for reason in reasons if reason in known)], 1)
    outcomes.record(sum(row.count("yes") for row in rows), failed, skipped)
    return int(bool(failed))


def configuration() -> str:
    """A file for the SDK and the command line of AWS, which presign with Signature Version 2 in us-east-1."""
    with tempfile.NamedTemporaryFile("w", delete=False) as file:
        file.write("[default]\ns3 =\n  signature_version = s3v4\n  addressing_style = path\n")
    return file.name


def page(rows: list[list[str]], reasons: list[str], missing: list[str]) -> str:
    head = ["client", *COLUMNS]
    lines = [f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows]]
    parts = [
        "# Clients of `fencepost objects serve`",
        "Written by `nox -s clients`, against a server with two workers. `yes`: it works; `-`: the client "
        "has no such operation, or it is not tried; a number: see below.",
        "\n".join(lines),
    ]
    if reasons:
        parts.append("\n".join(f"{number}. {reason}" for number, reason in enumerate(reasons, 1)))
    if missing:
        parts.append("Not tried here:\n\n" + "\n".join(f"- {reason}" for reason in missing))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
