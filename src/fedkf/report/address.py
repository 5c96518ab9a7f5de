"""Where the dashboard listens, and the address that a browser needs."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from dataclasses import dataclass

from fedkf.core.errors import UserError


@dataclass(frozen=True)
class Address:
    """An open port; others than this machine need the token, which is part of the URL."""

    listener: socket.socket
    url: str
    token: str | None


def listen(host: str, port: int) -> Address:
    """Open a port (0 finds a free one), or say why it cannot be had."""
    name = "127.0.0.1" if host == "localhost" else host
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        raise UserError(
            f"--host {host}: give an IP address, such as 127.0.0.1 or 0.0.0.0"
        ) from None
    token = None if address.is_loopback else secrets.token_urlsafe(24)
    six = address.version == 6
    try:
        listener = socket.create_server(
            (name, port), family=socket.AF_INET6 if six else socket.AF_INET
        )
    except OverflowError:
        raise UserError(f"--port {port} is not a port") from None
    except OSError as error:
        raise UserError(
            f"cannot listen on {host}, port {port}: {error.strerror}; "
            "another --port may be free, and 0 finds one"
        ) from None
    shown, query = f"[{name}]" if six else name, f"?token={token}" if token else ""
    return Address(listener, f"http://{shown}:{listener.getsockname()[1]}/{query}", token)
