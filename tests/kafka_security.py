"""Who may come in to a broker of tests, and how: its settings, and what a client needs."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Security = Literal["plain", "sasl", "tls"]

USER = "tests"
GUEST = "guest"
"""A user of `sasl` that is let in, and may do nothing."""


@dataclass(frozen=True, slots=True)
class Secured:
    """Both sides of a security: the broker's settings, and the properties of its clients."""

    settings: Mapping[str, str]
    client: Mapping[str, str] = field(repr=False)


def secured(security: Security, folder: Path) -> Secured:
    """What `security` means; files that it needs are made in `folder`."""
    if security == "sasl":
        return _sasl()
    return _tls(folder) if security == "tls" else Secured(_protocol("PLAINTEXT"), {})


def certificate(folder: Path, name: str) -> Path:
    """A certificate of 127.0.0.1 that signs itself; its key lies beside it."""
    made = folder / f"{name}.crt"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-nodes", "-days", "2", "-out", str(made), "-keyout", str(made.with_suffix(".key"))]
    subprocess.run([*words, *names, *files], check=True, capture_output=True)
    return made


def _protocol(name: str) -> dict[str, str]:
    return {"listener.security.protocol.map": f"CLIENTS:{name},CONTROLLER:PLAINTEXT"}


def _sasl() -> Secured:
    password = f"pw-{secrets.token_hex(8)}"
    users = " ".join(f'user_{name}="{password}"' for name in (USER, GUEST))
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        **_protocol("SASL_PLAINTEXT"),
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": (
            f'{module} username="{USER}" password="{password}" {users};'
        ),
        "allow.everyone.if.no.acl.found": "false",
        "super.users": f"User:{USER};User:ANONYMOUS",  # the controller's own listener knows nobody
    }
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": password,
    }
    return Secured(settings, client)


def _tls(folder: Path) -> Secured:
    own = certificate(folder, "broker")
    store = folder / "broker.pem"
    store.write_text(own.with_suffix(".key").read_text() + own.read_text())
    settings = {
        **_protocol("SSL"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(own),
    }
    return Secured(settings, {"security.protocol": "SSL", "ssl.ca.location": str(own)})
