"""One try of a task, with the numbers that Airflow would give it; and the end of a deferred task.

    one_try.py try '{"config": …}' NUMBER MAX_TRIES    prints what the task returns
    one_try.py kill '{"job_name": …}'                  ends the task of a trigger
    one_try.py wait '{"job_name": …}'                  prints the trigger's event, and its threads

Runs in Airflow's own environment: nothing of SlotQ's tests is here.
"""

import asyncio
import json
import sys
import threading
from types import SimpleNamespace
from typing import Any

from slotq.airflow.operators import SlotqTrainingOperator
from slotq.airflow.triggers import SlotqJobTrigger
from slotq.transport.signed_http import Transport

RETRIES = 1


def one_try(arguments, number, max_tries):
    task = SlotqTrainingOperator(task_id="fit", retries=RETRIES, print_log=False, **arguments)
    instance = SimpleNamespace(
        dag_id="dag", task_id="fit", run_id="run", map_index=-1, task=task,
        try_number=int(number), max_tries=int(max_tries),
    )  # fmt: skip
    execute: Any = SlotqTrainingOperator.execute  # Airflow wraps it for its own runs alone.
    return execute.__wrapped__(task, {"ti": instance})


def wait(arguments):
    """The event of a trigger that came back from its stored form, and whether anything of it has
    called the queue from the thread of the triggerer's loop."""
    path, stored = SlotqJobTrigger(**arguments).serialize()
    assert path == "slotq.airflow.triggers.SlotqJobTrigger"
    trigger = SlotqJobTrigger(**json.loads(json.dumps(stored)))
    threads, call = set(), Transport.call

    def noted(*args, **kwargs):
        threads.add(threading.current_thread() is threading.main_thread())
        return call(*args, **kwargs)

    Transport.call = noted

    async def first():
        return [event async for event in trigger.run()]

    (event,) = asyncio.run(first())
    return {"event": event.payload, "in_the_loop": sorted(threads)}


def kill(arguments):
    asyncio.run(SlotqJobTrigger(**arguments).on_kill())


if __name__ == "__main__":
    what, arguments, *more = sys.argv[1:]
    does: dict[str, Any] = {"try": one_try, "kill": kill, "wait": wait}
    done = does[what](json.loads(arguments), *more)
    print("RETURNED", json.dumps(done))
