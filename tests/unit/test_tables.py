"""What is told of verbs and routes follows from their tables."""

import dataclasses

import pytest

from slotq.cli.main import COMMANDS
from slotq.cli.verbs.changes import CHANGES
from slotq_core.model.jobs import JobState
from slotq_core.operations.amend import Amendment
from slotq_core.wire.job_changes import AMENDMENT_KEYS, ChangeBody
from slotq_core.wire.verbs import VERBS
from tests.table_pages import files


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_what_is_written_from_the_table_is_up_to_date(path):
    assert path.read_text() == files()[path], "run `make tables`"


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_a_verb_changes_what_a_change_may_say(verb):
    assert verb.key in ChangeBody.model_fields
    assert bool(verb.tag) == (verb.key == "tags")
    ways = [verb.value is not None, verb.of_attempt, bool(verb.takes)]
    assert ways.count(True) == 1


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_a_button_is_for_jobs_that_the_verb_is_for(verb):
    offered = [state for offer in verb.offers for state in offer.states]
    assert len(offered) == len(set(offered))
    assert verb.states.issuperset(offered)
    assert verb.states <= set(JobState)


def test_every_verb_is_a_command():
    assert CHANGES.keys() == {verb.name for verb in VERBS}
    assert COMMANDS.keys() >= CHANGES.keys()


def test_an_amendment_has_the_keys_of_a_change():
    derived = {"revise", "project"}
    fields = {field.name for field in dataclasses.fields(Amendment)}
    assert fields - derived == set(AMENDMENT_KEYS) - {"tags"}
