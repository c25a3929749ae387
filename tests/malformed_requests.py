"""Requests that no client sends, as text, for each server that listens here. Every one of them
gets an answer."""

from __future__ import annotations

import socket

_DIGITS = "9" * 5_000
"""More than Python turns into a number."""

MALFORMED: dict[str, str] = {
    "a length of 5,000 digits": (
        f"POST {{api}} HTTP/1.1\r\n{{head}}Content-Length: {_DIGITS}\r\n\r\n"
    ),
    "a length of zeros": f"POST {{api}} HTTP/1.1\r\n{{head}}Content-Length: {'0' * 5_000}\r\n\r\n",
    "a negative length": "POST {api} HTTP/1.1\r\n{head}Content-Length: -1\r\n\r\n",
    "a length that is a superscript": "POST {api} HTTP/1.1\r\n{head}Content-Length: ²\r\n\r\n",
    "two lengths": (
        "POST {api} HTTP/1.1\r\n{head}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}"
    ),
    "a body that ends too soon": (
        "POST {api} HTTP/1.1\r\n{head}Content-Type: application/json\r\n"
        "Content-Length: 99\r\n\r\n{{"
    ),
    "a bracket that looks like a host": "GET {api}//[bad HTTP/1.1\r\n{head}\r\n",
    "an address that is one": "GET //[bad HTTP/1.1\r\n{head}\r\n",
    "a whole address that cannot be read": "GET http://[bad/ HTTP/1.1\r\n{head}\r\n",
    "an address that is no ASCII": "GET {api}/jobs/é HTTP/1.1\r\n{head}\r\n",
    "a percent sign with nothing behind": "GET {api}/jobs/%zz HTTP/1.1\r\n{head}\r\n",
    "half a character, escaped": "GET {api}/jobs/%c3?x=%ff HTTP/1.1\r\n{head}\r\n",
    "a NUL, escaped": "GET {api}/jobs/%00 HTTP/1.1\r\n{head}\r\n",
    "a thousand parameters": "GET {api}/jobs?" + "a=1&" * 1_000 + " HTTP/1.1\r\n{head}\r\n",
    "an unknown method": "BREW {api}/jobs HTTP/1.1\r\n{head}\r\n",
    "a method that is no ASCII": "GÉT {api}/jobs HTTP/1.1\r\n{head}\r\n",
    "HEAD": "HEAD {api}/jobs HTTP/1.1\r\n{head}\r\n",
    "an unknown version": "GET / HTTP/9.9\r\n{head}\r\n",
    "no version at all": "GET / what\r\n\r\n",
    "one word": "GET\r\n\r\n",
    "a thousand headers": "GET / HTTP/1.1\r\n{head}" + "X-A: b\r\n" * 1_000 + "\r\n",
    "a header of 100,000 characters": "GET / HTTP/1.1\r\n{head}X-A: " + "b" * 100_000 + "\r\n\r\n",
    "an address of 100,000 characters": "GET /" + "b" * 100_000 + " HTTP/1.1\r\n{head}\r\n",
    "a header without a colon": "GET {api}/jobs HTTP/1.1\r\n{head}odd\r\n\r\n",
    "a token that is no ASCII": "GET {api}/jobs HTTP/1.1\r\n{head}Authorization: Bearer é\r\n\r\n",
    "chunks that are none": (
        "POST {api} HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\nzz\r\n"
    ),
    "a host that is no ASCII": "GET / HTTP/1.1\r\nHost: é\r\n\r\n",
    "no host": "GET / HTTP/1.1\r\n\r\n",
}


def first_line(port: int, text: str, *, api: str, head: str) -> str:
    """Send the request, say no more, and return the first line of the answer: empty if there is
    none."""
    sent = text.replace("{api}", api).replace("{head}", head)
    sent = sent.replace("{{", "{").replace("}}", "}")
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        try:
            connection.sendall(sent.encode())
            connection.shutdown(socket.SHUT_WR)
        except OSError:  # It has answered and closed already.
            pass
        answer = b""
        while b"\r\n" not in answer and (more := _received(connection)):
            answer += more
    return answer.partition(b"\r\n")[0].decode("latin-1")


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(4096)
    except ConnectionError:
        return b""
