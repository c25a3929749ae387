"""Properties that are texts or booleans: what a pool says in words, and jobs ask for as it is."""

from __future__ import annotations

import pytest

from slotq.errors import InvalidRequest as ClientRefusal
from slotq.jobs.submission import settings_tags
from slotq_core.admission.rules import admit
from slotq_core.errors import InvalidRequest, NeverFits
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Submission
from slotq_core.model.pools import Pool
from slotq_core.wire import traits
from slotq_core.wire.document import contents as document
from slotq_core.wire.pool_definition import check_together, defined, settings_of
from slotq_core.wire.scenario.pages import job_of
from slotq_core.wire.scenario.views import SnapshotJobView
from slotq_core.wire.submission import parse_submission
from slotq_core.wire.views.jobs import SharedJobView, job_view
from slotq_core.wire.views.pools import PoolSettingsView

P5 = "ml.p5.48xlarge"
KIND = {"gpu_type": "H100", "confidential": True, "mem": 8}


def pool(name: str, **properties: traits.Value) -> Pool:
    return defined(name, {"slots": 2, "instance_type": P5, "properties": properties})


POOLS = [pool("a", **KIND), pool("b", gpu_type="A100", confidential=False), pool("c", mem=8)]


def wanting(*pools: str, **values: traits.Value) -> Submission:
    demand = Demand({"slots": 1, **traits.encoded(values)})
    return Submission(name="job", instance_type=P5, demand=demand, pools=pools)


@pytest.mark.parametrize(
    ("values", "pools"),
    [
        ({"gpu_type": "H100"}, ("a",)),
        ({"gpu_type": "A100"}, ("b",)),
        ({"confidential": True}, ("a",)),
        ({"confidential": False}, ("b",)),
        ({"gpu_type": "H100", "mem": 8}, ("a",)),
        ({"mem": 8}, ("a", "c")),
    ],
    ids=str,
)
def test_a_job_goes_where_the_words_are_its_own(values, pools):
    job = admit(wanting(**values), POOLS, submitter="ann", now=7)
    assert job.pools == pools
    assert traits.decoded(job.requires) == values
    assert job.demand == Demand(slots=1)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"gpu_type": "H200"}, "gpu_type H200, and a has H100, b has A100"),
        ({"zone": "eu"}, "zone eu, and none of its pools says what zone is"),
        ({"confidential": "maybe"}, "confidential maybe, and a has true, b has false"),
        ({"mem": "much"}, "mem much, and a has 8, c has 8"),
        ({"gpu_type": 3}, "gpu_type of at least 3, which none of its pools has"),
        (
            {"gpu_type": "A100", "confidential": True},
            "no pool has all of these together",
        ),
    ],
    ids=str,
)
def test_what_no_pool_says_is_refused_with_what_the_pools_say(values, said):
    with pytest.raises(NeverFits, match=said):
        admit(wanting(**values), POOLS, submitter="ann", now=7)


def test_the_case_of_a_word_counts():
    with pytest.raises(NeverFits):
        admit(wanting(gpu_type="h100"), POOLS, submitter="ann", now=7)


def test_a_pool_is_read_and_written_with_its_words():
    assert settings_of(POOLS[0])["properties"] == KIND
    assert type(settings_of(POOLS[0])["properties"]["confidential"]) is bool
    assert defined("a", {"slots": 3}, POOLS[0]).properties == POOLS[0].properties
    shown = PoolSettingsView(**settings_of(POOLS[0])).model_dump(mode="json")
    assert shown["properties"] == KIND
    assert type(shown["properties"]["confidential"]) is bool


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        (
            {"gpu_type": "an H100"},
            "properties.gpu_type must be a whole number from 1 to 1000000, a",
        ),
        ({"gpu_type": "x" * 32}, "a text of 1 to 31 letters"),
        ({"gpu_type": "a,b"}, "a text of 1 to 31 letters"),
        ({"gpu_type": "a=b"}, "a text of 1 to 31 letters"),
        ({"gpu_type": ["H100"]}, "a text of 1 to 31 letters"),
        ({"gpu_type": 1.5}, "must be a whole number from 1 to 1000000, not 1.5"),
        ({"gpu_type": "80G"}, "must be a whole number from 1 to 1000000, not '80G'"),
        ({"mem_per_gpu_in_GiB": "much"}, "must be a whole number from 1 to 1000000, not 'much'"),
        ({"mem_per_gpu_in_GiB": True}, "must be a whole number from 1 to 1000000, not True"),
    ],
    ids=str,
)
def test_what_is_no_word_is_refused(properties, said):
    with pytest.raises(InvalidRequest, match=said):
        pool("a", **properties)


def test_a_word_is_no_resource_of_another_pool():
    other = defined("d", {"slots": 1, "instance_type": P5, "resources": {"gpu_type": 2}})
    with pytest.raises(InvalidRequest, match="'gpu_type' is a resource of pool 'd'"):
        check_together([*POOLS, other])


def submitted(demand: str) -> Demand:
    body = {
        "TrainingJobName": "job",
        "ResourceConfig": {"InstanceType": P5, "InstanceCount": 1, "VolumeSizeInGB": 1},
        "Tags": [{"Key": "slotq:demand", "Value": demand}],
    }
    return parse_submission(body)[0].demand


def test_a_tag_asks_for_words():
    wanted = submitted("gpus=8,gpu_type=H100,confidential=true")
    assert traits.decoded(wanted) == {
        "slots": 1, "gpus": 8, "gpu_type": "H100", "confidential": True
    }  # fmt: skip
    for odd in ("gpu_type=H100,gpu_type=A100", "gpus=many", "gpu_type=", "gpu_type=80G", "=H100"):
        with pytest.raises(InvalidRequest, match="slotq:demand"):
            submitted(odd)


def test_a_document_says_words():
    section = {"name": "a", "capacity": 2, "instance_type": P5, "properties": KIND}
    (read_pool,) = document.read({"pools": [section]}).pools
    assert read_pool.properties == POOLS[0].properties
    odd = {**section, "properties": {"gpu_type": "an H100", "mem_per_gpu_in_GiB": False}}
    with pytest.raises(InvalidRequest) as refused:
        document.read({"pools": [odd]})
    assert "properties.gpu_type: a whole number from 1 to 1000000, a text" in refused.value.message


def test_a_setting_of_the_client_becomes_the_tag():
    tags = settings_tags(demand={"gpus": 8, "gpu_type": "H100", "confidential": True})
    assert tags == {"slotq:demand": "gpus=8,gpu_type=H100,confidential=true"}
    for demand in ({"gpu_type": "an H100"}, {"gpus": "many"}, {"gpu_type": None}):
        with pytest.raises(ClientRefusal, match=r"demand\.gpu"):
            settings_tags(demand=demand)


def test_a_view_and_what_is_read_from_it_keep_the_words():
    job = admit(wanting(gpu_type="H100", confidential=True), POOLS, submitter="ann", now=7)
    assert job_view(job).requires == {"gpu_type": "H100", "confidential": True}
    shared = job_view(job).model_dump(include={*SharedJobView.model_fields})
    text = SnapshotJobView(**shared).model_dump_json()
    assert job_of(SnapshotJobView.model_validate_json(text)).requires == job.requires
