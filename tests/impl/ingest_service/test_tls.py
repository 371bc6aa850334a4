"""The collector uses TLS, and closes plain connections."""

import datetime as dt
import ipaddress
from pathlib import Path

import pytest

from fencepost.commands import entry

from .serving import batch, frame, serving

x509 = pytest.importorskip("cryptography.x509")


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1, and its key."""
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "collector")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    pem, secret = folder / "certificate.pem", folder / "key.pem"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return pem, secret


def test_a_batch_over_tls(tmp_path: Path) -> None:
    with serving(tmp_path, tls=self_signed(tmp_path)) as served:
        assert served.url.startswith("https://")
        assert served.post(batch(), frame()).json()["duplicate"] is False
        refused = served.post(batch(), b"x" * 9_000_000)
        assert (refused.status_code, refused.json()["error"]) == (413, "body_too_large")
        with served.raw() as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            assert plain.recv(100) == b"", "it is no secret-less way in"
        assert served.post(batch(), frame()).json()["duplicate"] is True


def test_an_invalid_certificate_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pem, key = self_signed(tmp_path)
    run = entry.group.main
    assert entry.run(lambda: run(["ingest", "enrol", f"{tmp_path}/t", "a"], standalone_mode=False)) == 0
    words = [
        "ingest",
        "serve",
        "--store",
        f"file://{tmp_path}/s",
        "--agents",
        f"{tmp_path}/t",
        "--listen",
        "127.0.0.1:0",
    ]
    for certificate, secret in ((tmp_path / "none", key), (key, key), (pem, pem)):
        tls = ["--tls-certificate", str(certificate), "--tls-key", str(secret)]
        capsys.readouterr()
        assert entry.run(lambda tls=tls: run([*words, *tls], standalone_mode=False)) == 2
        printed = capsys.readouterr().err
        assert "cannot set up TLS" in printed
        assert printed.count("\n") == 1
