"""Options of settings follow from the settings' lines in the model."""

from __future__ import annotations

from dataclasses import fields

import pytest

from slotq.cli.queue.pools_command import set_
from slotq.cli.verbs.submit import submit
from slotq.jobs.submission import JobSettings as Keywords
from slotq_core.model import jobs, pools
from slotq_core.wire.configuration import PoolBody
from slotq_core.wire.pool_definition import CHOICES, DURATIONS, SWITCHES

POOL_SETTINGS = [it for it in fields(pools.Pool) if it.name in {*DURATIONS, *SWITCHES, *CHOICES}]


@pytest.mark.parametrize("setting", POOL_SETTINGS, ids=lambda it: it.name)
def test_a_pools_setting_has_an_option_and_its_help(setting):
    (option,) = (it for it in set_.params if it.name == setting.name)
    assert option.opts == ["--" + setting.name.replace("_", "-")]
    assert option.help == setting.metadata["help"]


def test_what_the_body_takes_is_an_option():
    more = {"name", "no_resources", "no_properties", "has_nodes", "no_windows", "json"}
    own_commands = {"reservations"}  # `slotq reserve` and `slotq reservations`.
    settings = PoolBody.model_fields.keys() - own_commands
    assert {it.name for it in set_.params} == settings | more


@pytest.mark.parametrize("setting", fields(jobs.JobSettings), ids=lambda it: it.name)
def test_a_jobs_setting_has_an_option_and_a_keyword(setting):
    option = next(it for it in submit.params if it.name == setting.name)
    assert option.help == setting.metadata["help"]
    assert setting.name in Keywords.__annotations__
