"""A schema registry of the tests: a real HTTP server on loopback with a few schemas in it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class SchemaRegistry:
    """What the registry has, what it was asked for, and how it fares."""

    port: int
    user: str | None = None
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By subject and version, as in "orders-value/latest"."""
    asked: list[str] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    """The status codes of the next answers."""
    bare_failures: list[int] = field(default_factory=list)
    """The same, of answers as anybody gives them."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def add(self, number: int, schema: str, **more: Any) -> None:
        self.schemas[number] = {"schema": schema, **more}

    def answer(self, path: str, authorization: str | None) -> tuple[int, dict[str, Any]]:
        self.asked.append(path)
        if self.bare_failures:
            return self.bare_failures.pop(0), {}
        if self.failures:
            return self.failures.pop(0), {"error_code": 50001, "message": "not now"}
        if self.user is not None:
            expected = "Basic " + base64.b64encode(self.user.encode()).decode()
            if authorization != expected:
                return 401, {"error_code": 401, "message": "Unauthorized"}
        known = {f"/schemas/ids/{number}": found for number, found in self.schemas.items()}
        for subject, found in self.subjects.items():
            name, version = subject.rsplit("/", 1)
            known[f"/subjects/{name}/versions/{version}"] = found
        if path not in known:
            return 404, {"error_code": 40403, "message": "not found"}
        return 200, known[path]


@contextmanager
def running_registry() -> Iterator[SchemaRegistry]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = registry.answer(self.path, self.headers.get("Authorization"))
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: Any) -> None:
            """Nothing: the tests say what went wrong."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        registry = SchemaRegistry(server.server_address[1])
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield registry
        finally:
            server.shutdown()
