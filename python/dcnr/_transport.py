"""Calls and streams over HTTP as the Connect protocol has them, with JSON: an orchestrator answers it on its one port."""

from __future__ import annotations

import http.client
import json
import socket
import struct
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple
from urllib.parse import urlsplit

from ._errors import DcnrError

Json = Dict[str, Any]

PORT_DEFAULT = 7700
_LAST_ENVELOPE = 2
_ENVELOPE_BYTES_MAX = 64 << 20


class Transport:
    """One connection per call: calls are few, and threads need not share anything."""

    def __init__(self, address: str, api_key: Optional[str], timeout_seconds: float) -> None:
        with_scheme = address if "://" in address else f"http://{address}"
        parts = urlsplit(with_scheme)
        if parts.hostname is None or parts.scheme not in ("http", "https"):
            raise DcnrError("invalid_argument", f'"{address}" is no address such as 127.0.0.1:7700 or https://lab.example')
        self._secure = parts.scheme == "https"
        self._host = parts.hostname
        self._port = parts.port or (443 if self._secure else PORT_DEFAULT)
        self._timeout_seconds = timeout_seconds
        self._headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self.address = address

    def call(self, service: str, method: str, request: Mapping[str, Any]) -> Json:
        headers = {"content-type": "application/json", "connect-protocol-version": "1"}
        response, connection = self._post(f"/dcnr.v1.{service}/{method}", headers, json.dumps(request).encode())
        try:
            answer = self._json(self._read(response))
            if response.status != 200:
                raise _error_of(answer, response.status)
            return answer
        finally:
            connection.close()

    def stream(self, service: str, method: str, request: Mapping[str, Any]) -> Iterator[Json]:
        """What the server tells, one message after another; leaving the loop ends the call."""
        headers = {"content-type": "application/connect+json", "connect-protocol-version": "1"}
        body = json.dumps(request).encode()
        envelope = struct.pack(">BI", 0, len(body)) + body
        response, connection = self._post(f"/dcnr.v1.{service}/{method}", headers, envelope)
        try:
            if response.status != 200:
                raise _error_of(self._json(self._read(response)), response.status)
            while True:
                flags, length = struct.unpack(">BI", self._exactly(response, 5))
                if length > _ENVELOPE_BYTES_MAX:
                    raise DcnrError("data_loss", f"{self.address} sends messages of {length} bytes: is it an orchestrator?")
                message = self._json(self._exactly(response, length))
                if flags & _LAST_ENVELOPE:
                    if "error" in message:
                        raise _error_of(message["error"], response.status)
                    return
                yield message
        finally:
            connection.close()

    def put(self, url: str, headers: Mapping[str, str], content: bytes) -> None:
        """Sends a blob to where the orchestrator said; a path is one at the orchestrator itself."""
        parts = urlsplit(url)
        here = url.startswith("/")
        secure = self._secure if here else parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        place = f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"
        connection = kind(place if here else parts.netloc, timeout=self._timeout_seconds)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        try:
            connection.request("PUT", target, body=content, headers=dict(headers))
            response = connection.getresponse()
            said = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise DcnrError("unavailable", f"the upload to {place if here else parts.netloc} broke off: {error}") from error
        finally:
            connection.close()
        if response.status >= 300:
            why = said.decode(errors="replace").strip()
            raise DcnrError("unavailable", f"the upload was refused ({response.status}): {why}")

    def _post(
        self, path: str, headers: Mapping[str, str], body: bytes
    ) -> Tuple[http.client.HTTPResponse, http.client.HTTPConnection]:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self._timeout_seconds)
        try:
            connection.request("POST", path, body=body, headers={**headers, **self._headers})
            return connection.getresponse(), connection
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> DcnrError:
        if isinstance(error, (socket.timeout, TimeoutError)):
            return DcnrError("deadline_exceeded", f"{self.address} has not answered for {self._timeout_seconds:g} s")
        return DcnrError("unavailable", f"no orchestrator answers at {self.address} ({error}): does dcnr up run there?")

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        try:
            return response.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error

    def _exactly(self, response: http.client.HTTPResponse, length: int) -> bytes:
        parts = []
        while length > 0:
            try:
                part = response.read(length)
            except (OSError, http.client.HTTPException) as error:
                raise self._unreachable(error) from error
            if not part:
                raise DcnrError("unavailable", f"{self.address} ended the stream in the middle: try again")
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

    def _json(self, content: bytes) -> Json:
        try:
            value = json.loads(content) if content else {}
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise DcnrError("unavailable", f"{self.address} does not answer as an orchestrator does: is the address right?")
        return value


def _error_of(answer: Mapping[str, Any], status: int) -> DcnrError:
    return DcnrError(str(answer.get("code", "unknown")), str(answer.get("message", f"refused with status {status}")))
