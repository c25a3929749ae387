"""A job's settings in the tags of its request."""

import pytest

from slotq_core.errors import InvalidRequest
from slotq_core.model.jobs import SEMI, SETTINGS, JobSettings
from slotq_core.wire.setting_tags import MOST, TAGS, read_settings, written


@pytest.mark.parametrize("name", SETTINGS)
def test_the_default_of_each_setting_is_written_and_read(name):
    """A setting is a switch, one of the words of an enum, GPUs, or a number with `most` in its
    metadata. Another kind needs its reading in `wire/setting_tags.py`."""
    default = getattr(JobSettings(), name)
    assert isinstance(default, bool | str) or name in {*MOST, "gpus"}
    assert read_settings({TAGS[name]: written(name, default)}) == {name: default}


@pytest.mark.parametrize(("text", "preemptible"), [("", True), ("False", False), ("TRUE", True)])
def test_an_empty_switch_is_no_switch(text, preemptible):
    """As in version 0.2.0: its jobs may have such a tag, and can still be changed."""
    assert read_settings({TAGS["preemptible"]: text}) == {"preemptible": preemptible}


@pytest.mark.parametrize("text", ["semi", "Semi"])
def test_a_job_may_be_semi_preemptible(text):
    assert read_settings({TAGS["preemptible"]: text}) == {"preemptible": SEMI}
    assert written("preemptible", text) == SEMI
    with pytest.raises(ValueError, match="true, false or semi, not 'half'"):
        read_settings({TAGS["preemptible"]: "half"})
    with pytest.raises(InvalidRequest, match="true, false or semi, not 'half'"):
        written("preemptible", "half")


@pytest.mark.parametrize("name", ["min_runtime", "retries", "workload"])
def test_an_empty_value_of_another_setting_is_refused(name):
    with pytest.raises(ValueError, match=TAGS[name]):
        read_settings({TAGS[name]: ""})
