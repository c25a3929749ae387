"""Ports to forward: how they are written, and where this machine listens for them."""

from __future__ import annotations

import re
import socket

import pytest

from slotq.errors import NoShell
from slotq.remote_shell import ports
from slotq.remote_shell.ports import Forward, check_distinct, listening, parsed


@pytest.mark.parametrize(
    ("text", "forward"),
    [
        ("8888", Forward(port=8888)),
        ("8888:9999", Forward(port=8888, local=9999)),
        ("80:8080", Forward(port=80, local=8080)),
        ("1:65535", Forward(port=1, local=65535)),
        ("08888", Forward(port=8888)),
    ],
)
def test_a_forward_is_a_port_and_perhaps_a_port_of_this_machine(text, forward):
    assert parsed(text) == forward


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0", "a port is a number from 1 to 65535, not 0"),
        ("8888:0", "a port is a number from 1 to 65535, not 0"),
        ("65536", "a port is a number from 1 to 65535, not 65536"),
        ("8888:65536", "not 65536"),
        ("9" * 5000, "is not PORT or PORT:LOCAL, such as 8888 or 8888:9999"),
        ("", "is not PORT or PORT:LOCAL"),
        ("jupyter", "is not PORT or PORT:LOCAL"),
        ("-1", "is not PORT or PORT:LOCAL"),
        ("8888:", "is not PORT or PORT:LOCAL"),
        ("127.0.0.1:8888", "is not PORT or PORT:LOCAL"),
        ("0.0.0.0:8888:8888", "is not PORT or PORT:LOCAL"),
        ("٨٨", "is not PORT or PORT:LOCAL"),
        ("88 ", "is not PORT or PORT:LOCAL"),
        ("88\n", "is not PORT or PORT:LOCAL"),
    ],
)
def test_anything_else_is_refused_with_what_is_right(text, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        parsed(text)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (("8888", "8888"), "port 8888 is given twice"),
        (("8888:9000", "8888:9000"), "port 8888 is given twice"),
        (("8888:9000", "6006:9000"), "two forwards want port 9000 of this machine"),
    ],
)
def test_two_forwards_need_a_port_each(texts, said):
    with pytest.raises(ValueError, match=said):
        check_distinct([parsed(text) for text in texts])


def test_one_port_may_be_forwarded_twice():
    check_distinct([parsed("8888:9000"), parsed("8888:9001"), parsed("8888"), parsed("9000")])


def numbers(*forwards, **options):
    with listening(forwards, **options) as sockets:
        return [each.getsockname() for each in sockets]


def taken():
    return socket.create_server(("127.0.0.1", 0))


def free():
    with taken() as server:
        return server.getsockname()[1]


def test_this_machine_listens_at_the_same_number_on_loopback_alone():
    port = free()
    with listening([Forward(port=port)]) as (listener,):
        assert listener.getsockname() == ("127.0.0.1", port)
        socket.create_connection(("127.0.0.1", port)).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port))


def test_another_number_is_taken_if_the_same_is_in_use():
    with taken() as server:
        port = server.getsockname()[1]
        ((host, local),) = numbers(Forward(port=port))
    assert host == "127.0.0.1"
    assert local != port


def test_a_wanted_port_that_is_in_use_is_refused_with_what_to_do():
    with taken() as server:
        port = server.getsockname()[1]
        with pytest.raises(NoShell) as raised:
            numbers(Forward(port=80, local=port))
    other = port + 1 if port < 65535 else port - 1
    assert str(raised.value) == (
        f"port {port} of this machine is in use: name another, such as --forward 80:{other}"
    )


def test_a_wanted_port_comes_before_one_that_may_be_any():
    """The first may have any number, and must not take what the second wants."""
    port = free()
    (_, first), (_, second) = numbers(Forward(port=port), Forward(port=80, local=port))
    assert (first != port, second) == (True, port)


def test_a_failure_closes_the_ports_that_were_had():
    port = free()
    with taken() as server:
        used = server.getsockname()[1]
        with pytest.raises(NoShell):
            numbers(Forward(port=1, local=port), Forward(port=2, local=used))
        assert numbers(Forward(port=1, local=port)) == [("127.0.0.1", port)]


def test_a_port_of_the_superuser_is_refused_with_what_to_do(monkeypatch):
    real = ports._bound

    def bound(port):
        if 0 < port < 1024:
            raise PermissionError(13, "Permission denied")
        return real(port)

    monkeypatch.setattr(ports, "_bound", bound)
    with pytest.raises(NoShell, match=r"for the superuser: name another, such as .* 80:8080"):
        numbers(Forward(port=80, local=80))
    ((_, local),) = numbers(Forward(port=80))
    assert local >= 1024


def test_in_the_emulator_the_jobs_own_port_is_left_to_the_job():
    """Job and user are on one machine: a port that we took would be missing to the job."""
    port = free()
    ((_, local),) = numbers(Forward(port=port), shared=True)
    assert local != port
    with pytest.raises(NoShell, match=f"name another, such as --forward {port}:"):
        numbers(Forward(port=port, local=port), shared=True)
