"""Independent reads at once, with results as if one by one."""

from __future__ import annotations

import sys
import threading
from subprocess import run

import pytest

from slotq_core.adapters.dynamodb.reading.in_parallel import IN_FLIGHT, Threads, one_by_one
from slotq_core.errors import Conflict, Unavailable


@pytest.mark.parametrize("in_parallel", [one_by_one, Threads()])
def test_results_come_in_the_order_of_the_arguments(in_parallel):
    assert in_parallel(lambda number: number * 2, range(100)) == [*range(0, 200, 2)]
    assert in_parallel(lambda number: number, []) == []


@pytest.mark.parametrize("in_parallel", [one_by_one, Threads()])
def test_the_first_error_in_that_order_is_raised(in_parallel):
    def read(number: int) -> int:
        if number in {3, 7}:
            raise Conflict("3") if number == 3 else Unavailable("7")
        return number

    with pytest.raises(Conflict):
        in_parallel(read, range(10))
    assert in_parallel(read, [1, 2]) == [1, 2]


def test_sixteen_are_in_flight_and_no_more():
    all_there, lock = threading.Barrier(IN_FLIGHT), threading.Lock()
    now = most = 0

    def read(_: int) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        all_there.wait(timeout=30)
        with lock:
            now -= 1

    Threads()(read, range(2 * IN_FLIGHT))
    assert most == IN_FLIGHT


def test_a_single_read_needs_no_thread():
    threads = Threads()
    assert threads(lambda _: threading.current_thread(), [1]) == [threading.current_thread()]
    assert threads(lambda _: threading.current_thread(), [1, 2]) != [threading.current_thread()] * 2


def test_a_cold_start_does_not_import_the_threads():
    code = (
        "import sys; import slotq_core.adapters.dynamodb.reading.in_parallel;"
        "sys.exit('concurrent.futures' in sys.modules)"
    )
    assert run([sys.executable, "-c", code], check=False).returncode == 0
