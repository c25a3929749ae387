"""Every rule of a federated job's meta.json, each with its own message."""

from __future__ import annotations

import io
import json
import tarfile

import pytest

from slotq.errors import InvalidRequest
from slotq.federated.job_folder import job_in
from slotq.federated.meta import read

POOLS = ("client1", "client2", "client3")
FOLDERS = ("app1", "app2", "app3")
SERVER_AND_TWO = {"app1": ["server"], "app2": ["client1", "client2"]}


def meta_of(**changes):
    document = {"name": "fed", "deploy_map": SERVER_AND_TWO} | changes
    kept = {key: value for key, value in document.items() if value is not ...}
    return read(kept, folders=FOLDERS, pools=POOLS)


def test_the_example_of_the_document():
    found = read(
        {
            "name": "try_algo1",
            "resource_spec": {
                "client1": {"num_gpus": 1, "mem_per_gpu_in_GiB": 1},
                "client2": {"num_gpus": 1, "mem_per_gpu": "16G"},
            },
            "deploy_map": {
                "hello-numpy-sag-server": ["server"],
                "hello-numpy-sag-client": ["client1", "client2"],
                "hello-numpy-sag-client3": ["client3"],
            },
            "min_clients": 2,
            "mandatory_clients": ["client1", "client2"],
        },
        folders=["hello-numpy-sag-server", "hello-numpy-sag-client", "hello-numpy-sag-client3"],
        pools=POOLS,
    )
    assert found.name == "try-algo1"
    assert found.clients == POOLS
    assert found.members == {
        "server": "try-algo1-server",
        "client1": "try-algo1-client1",
        "client2": "try-algo1-client2",
        "client3": "try-algo1-client3",
    }
    assert found.needs == {
        "client1": {"num_gpus": 1, "mem_per_gpu_in_GiB": 1},
        "client2": {"num_gpus": 1, "mem_per_gpu_in_GiB": 16},
    }
    assert found.min_clients == 2
    assert found.mandatory == ("client1", "client2")


def test_all_is_the_server_and_every_site():
    found = meta_of(deploy_map={"app1": ["@ALL"], "app2": []})
    assert found.apps == dict.fromkeys(("server", *POOLS), "app1")


def test_all_is_every_site_that_a_mapping_names():
    found = meta_of(
        deploy_map={"app1": ["@ALL"]},
        sites={"site-1": "client1", "site-2": "client1", "server": "client3"},
    )
    assert list(found.apps) == ["server", "site-1", "site-2"]
    assert found.pools == {"server": "client3", "site-1": "client1", "site-2": "client1"}


def test_a_mapping_of_the_server_alone_leaves_every_pool_a_site():
    found = meta_of(deploy_map={"app1": ["@ALL"]}, sites={"server": "client3"})
    assert found.clients == POOLS


def test_what_is_left_out():
    found = meta_of()
    assert (found.min_clients, found.mandatory, found.needs) == (1, (), {})
    assert found.heartbeat is None
    assert "server" not in found.pools  # Any pool will do.


def test_a_need_of_nothing_is_none():
    assert meta_of(resource_spec={"client1": {"num_gpus": 0}, "client2": {}}).needs == {
        "client1": {},
        "client2": {},
    }


FAULTS = [
    ({"name": ...}, "name", "name is missing"),
    ({"name": 7}, "name", "must be a text"),
    ({"name": "__"}, "name", "at least one letter or digit"),
    ({"name": "n" * 64}, "name", "at most 63 characters"),
    ({"name": ..., "Name": "fed"}, "Name", "did you mean 'name'?"),
    ({"deploy_map": ..., "deploymap": {}}, "deploymap", "did you mean 'deploy_map'?"),
    ({"deploy_map": ...}, "deploy_map", "deploy_map is missing"),
    ({"deploy_map": ["app1"]}, "deploy_map", "must be an object"),
    ({"deploy_map": {}}, "deploy_map", "deploy_map is empty"),
    ({"deploy_map": {"app9": ["@ALL"]}}, "deploy_map.app9", "has no app folder 'app9'"),
    ({"deploy_map": {"app9": []}}, "deploy_map.app9", "has no app folder 'app9'"),
    ({"deploy_map": {"app1": "client1"}}, "deploy_map", "no app to 'server'"),
    ({"deploy_map": {"app1": 1}}, "deploy_map.app1", "must be a list of sites"),
    ({"deploy_map": {"app1": {"other": ["server"]}}}, "deploy_map.app1", "must be a list of sites"),
    ({"deploy_map": {"app1": {"sites": "server"}}}, "deploy_map.app1", "must be a list of sites"),
    (
        {"deploy_map": {"app1": [{"sites": ["server"], "other": 1}]}},
        "deploy_map.app1",
        "must be a list of sites",
    ),
    ({"deploy_map": {"app1": [1]}}, "deploy_map.app1", "must be a list of sites"),
    ({"deploy_map": {"app1": []}}, "deploy_map", "deploys no app to any site"),
    ({"deploy_map": {"app1": ["client1"]}}, "deploy_map", "no app to 'server'"),
    ({"deploy_map": {"app1": ["server"]}}, "deploy_map", "no site besides 'server'"),
    (
        {"deploy_map": {"app1": ["server", "client1"], "app2": ["server"]}},
        "deploy_map.app2",
        "deploys app1 and app2 to 'server': there is only one server",
    ),
    (
        {"deploy_map": {"app1": ["server", "server", "client1"]}},
        "deploy_map.app1",
        "names server twice",
    ),
    (
        {"deploy_map": {"app1": ["server", "client1"], "app2": ["client1"]}},
        "deploy_map.app2",
        "deploys app1 and app2 to client1: a site gets one app",
    ),
    (
        {"deploy_map": {"app1": ["@ALL"], "app2": ["client1"]}},
        "deploy_map.app2",
        "app1 is deployed to @ALL: with @ALL no app may name a site",
    ),
    (
        {"deploy_map": {"app1": ["@ALL"], "app2": ["@ALL"]}},
        "deploy_map.app2",
        "with @ALL no app may name a site",
    ),
    ({"deploy_map": {"app1": ["@ALL", "client1"]}}, "deploy_map.app1", "with @ALL no app"),
    ({"deploy_map": {"app1": ["@ALL", "@ALL"]}}, "deploy_map.app1", "names @ALL twice"),
    (
        {"deploy_map": {"app1": ["server"], "app2": ["site-9"]}},
        "deploy_map.app2",
        "client2, client3); name its pool with --site site-9=POOL",
    ),
    ({"min_clients": "two"}, "min_clients", "must be a whole number, not 'two'"),
    ({"min_clients": "3"}, "min_clients", "min_clients is 3, and deploy_map has only 2 clients"),
    ({"min_clients": 1.5}, "min_clients", "must be a whole number"),
    ({"min_clients": True}, "min_clients", "must be a whole number"),
    ({"min_clients": 0}, "min_clients", "at least 1"),
    ({"min_clients": -1}, "min_clients", "at least 1, not -1"),
    ({"min_clients": 3}, "min_clients", "min_clients is 3, and deploy_map has only 2 clients"),
    ({"mandatory_clients": "client1"}, "mandatory_clients", "must be a list of sites"),
    ({"mandatory_clients": [1]}, "mandatory_clients", "must be a list of sites"),
    ({"mandatory_clients": ["server"]}, "mandatory_clients", "is no client: it always takes part"),
    (
        {"mandatory_clients": ["client3"]},
        "mandatory_clients",
        "'client3', to which deploy_map deploys no app (it does to: client1, client2)",
    ),
    ({"resource_spec": [1]}, "resource_spec", "must be an object"),
    (
        {"resource_spec": {"@default": {"licences": 1}}},
        "resource_spec.@default.licences",
        "takes only num_of_gpus, num_of_cpus, memory",
    ),
    *(
        (
            {"resource_spec": {site: {name: value}}},
            f"resource_spec.{site}.{name}",
            f"must be a whole number {rule}, not ",
        )
        for site in ("client1", "@default")
        for name, value, rule in [
            ("num_of_gpus", -1, "of at least 0"),
            ("num_of_gpus", True, "of at least 0"),
            ("num_of_gpus", "1", "of at least 0"),
            ("num_of_gpus", 0.5, "of at least 0"),
            ("num_of_cpus", 0, "of at least 1"),
            ("memory", 8, 'followed by Mi, Gi or Ti, such as "64Gi"'),
            ("memory", "8G", 'followed by Mi, Gi or Ti, such as "64Gi"'),
            ("memory", "0Gi", 'followed by Mi, Gi or Ti, such as "64Gi"'),
        ]
    ),
    (
        {"resource_spec": {"client1": {"num_gpus": 1, "num_of_gpus": 1}}},
        "resource_spec.client1.num_of_gpus",
        "asks for num_gpus and for num_of_gpus, which are the same",
    ),
    (
        {"resource_spec": {"client1": {"vcpus": 2, "num_of_cpus": 2}}},
        "resource_spec.client1.num_of_cpus",
        "asks for vcpus and for num_of_cpus, which are the same",
    ),
    (
        {"resource_spec": {"client1": {"process": [1]}}},
        "resource_spec.client1.process",
        "must be an object",
    ),
    (
        {"resource_spec": {"client1": {"gpu_type": ["H100"]}}},
        "resource_spec.client1.gpu_type",
        "a text, or true or false, not ['H100']",
    ),
    (
        {"resource_spec": {"client1": {"gpu_type": "an H100"}}},
        "resource_spec.client1.gpu_type",
        "a text of 1 to 31 letters, digits and ._:/@- that begins with a letter or digit, not",
    ),
    ({"resource_spec": {"client1": 2}}, "resource_spec.client1", "must be an object"),
    (
        {"resource_spec": {"client1": {"num_gpus": "two"}}},
        "resource_spec.client1.num_gpus",
        "must be a whole number, or a size such as \"16G\", not 'two'",
    ),
    (
        {"resource_spec": {"client1": {"num_gpus": 1.5}}},
        "resource_spec.client1.num_gpus",
        "not 1.5",
    ),
    (
        {"resource_spec": {"client1": {"num_gpus": True}}},
        "resource_spec.client1.num_gpus",
        "not True",
    ),
    (
        {"resource_spec": {"client1": {"num_gpus": None}}},
        "resource_spec.client1.num_gpus",
        "not None",
    ),
    (
        {"resource_spec": {"client1": {"num_gpus": -1}}},
        "resource_spec.client1.num_gpus",
        "from 0 to 1,000,000, not -1",
    ),
    (
        {"resource_spec": {"client1": {"num gpus": 1}}},
        "resource_spec.client1.num gpus",
        "no name of a resource",
    ),
    (
        {"resource_spec": {"client1": {"slots": 2}}},
        "resource_spec.client1.slots",
        "ResourceConfig says how many slots",
    ),
    ({"sites": ["client1"]}, "sites", "must be an object"),
    ({"sites": {"client1": 1}}, "sites", "must be an object"),
    ({"sites": {"site-1": "gone"}}, "sites.site-1", "there is no pool 'gone'"),
    ({"heartbeat_seconds": "60"}, "heartbeat_seconds", "from 60 to 86,400, not '60'"),
    ({"heartbeat_seconds": 59}, "heartbeat_seconds", "from 60 to 86,400, not 59"),
    (
        {
            "deploy_map": {"app1": ["server", "a_b", "a-b"]},
            "sites": {"a_b": "client1", "a-b": "client1"},
        },
        "deploy_map.app1",
        "sites 'a_b' and 'a-b' would both be the job 'fed-a-b'",
    ),
    (
        {"name": "n" * 60},
        "deploy_map.app1",
        "the job at site 'server' would be named",
    ),
]


@pytest.mark.parametrize(("changes", "field", "message"), FAULTS, ids=lambda it: str(it)[:60])
def test_each_rule_says_what_is_wrong_and_where(changes, field, message):
    with pytest.raises(InvalidRequest) as refused:
        meta_of(**changes)
    assert refused.value.field == field
    assert message in refused.value.message


@pytest.mark.parametrize(
    "sites",
    [
        ["@all"],
        "@ALL",
        {"sites": ["@All"]},
        {"targets": ["@ALL"]},
        [{"sites": ["server", "client1"]}, "client2", {"targets": ["client3"]}],
    ],
    ids=str,
)
def test_sites_in_every_form_of_flares(sites):
    assert meta_of(deploy_map={"app1": sites}).apps == dict.fromkeys(("server", *POOLS), "app1")


def test_a_client_may_be_mandatory_twice_and_a_number_a_text():
    found = meta_of(mandatory_clients=["client1"] * 2, min_clients="2")
    assert (found.mandatory, found.min_clients) == (("client1",), 2)


def test_needs_of_a_site_without_an_app_have_no_effect():
    found = meta_of(resource_spec={"client3": {"num_gpus": 1}})
    assert found.needs == {}
    (warning,) = found.warnings
    assert warning.startswith("resource_spec of client3 has no effect: deploy_map deploys no app")


def test_the_default_is_for_each_client_and_a_sites_own_go_first():
    default = {"num_of_gpus": 2, "num_of_cpus": 8, "memory": "1025Mi"}
    found = meta_of(resource_spec={"@default": default, "client2": {"num_of_gpus": 0}})
    assert found.needs == {
        "client1": {"gpus": 2, "vcpus": 8, "memory_gib": 2},
        "client2": {"vcpus": 8, "memory_gib": 2},
    }
    assert found.warnings == ()


def test_without_gpus_their_memory_means_nothing():
    spec = {"client1": {"num_of_gpus": 0, "mem_per_gpu_in_GiB": 16, "site": "eu"}}
    assert meta_of(resource_spec=spec).needs == {"client1": {"site": "eu"}}


def test_of_launchers_only_the_process_counts():
    spec = {
        "client1": {"process": {"num_of_gpus": 1}, "docker": {"num_of_gpus": 4}},
        "client2": {"k8s": {}},
    }
    found = meta_of(resource_spec=spec)
    assert found.needs == {"client1": {"gpus": 1}, "client2": {}}
    assert [line.partition(" in the queue")[0] for line in found.warnings] == [
        "resource_spec.client1: docker has no effect",
        "resource_spec.client2: k8s has no effect",
    ]


def test_texts_and_booleans_are_asked_for_as_they_are():
    spec = {"gpu_type": "H100", "confidential": True, "shared": False, "tier": "true", "mem": "16G"}
    assert meta_of(resource_spec={"client1": spec}).needs["client1"] == {
        "gpu_type": "H100",
        "confidential": True,
        "shared": False,
        "tier": True,
        "mem_in_GiB": 16,
    }


FLARES = ("scope", "launcher_spec", "stats_pool_config", "study", "custom_props", "job_id")
"""Keys that FLARE's own jobs have, and the queue does not know."""


@pytest.mark.parametrize("key", [*FLARES, "submitter_name", "our_ticket"])
def test_an_unknown_key_is_warned_of_and_not_refused(key):
    (warning,) = meta_of(**{key: {"a": 1}}).warnings
    assert warning == f"meta.json: '{key}' is kept, and has no effect in the queue"


def test_a_mapping_of_a_site_without_an_app_is_warned_of():
    (warning,) = meta_of(sites={"client9": "client1", "client1": "client1"}).warnings
    assert "the pool of client9 has no effect" in warning
    assert "(it does to: server, client1, client2)" in warning


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("min_client", "min_clients"),
        ("minClients", "min_clients"),
        ("mandatory_client", "mandatory_clients"),
        ("resources_spec", "resource_spec"),
        ("heartbeat_second", "heartbeat_seconds"),
    ],
)
def test_a_typing_error_gets_a_hint(key, meant):
    (warning,) = meta_of(**{key: 2}).warnings
    assert warning.endswith(f"has no effect in the queue; did you mean '{meant}'?")


def test_a_document_that_is_no_object():
    with pytest.raises(InvalidRequest, match=r"meta\.json must hold one object"):
        read([], folders=FOLDERS, pools=POOLS)


def folder_of(tmp_path, meta=None, **apps):
    root = tmp_path / "my_job"
    root.mkdir()
    for app, template in apps.items():
        (root / app / "source").mkdir(parents=True)
        (root / app / "source" / "train.py").write_text("print(1)\n")
        if template is not None:
            (root / app / "job.json").write_text(template)
    if meta is not None:
        (root / "meta.json").write_text(meta if isinstance(meta, str) else json.dumps(meta))
    return root


RUNS = json.dumps({"AlgorithmSpecification": {"ContainerEntrypoint": ["python3", "train.py"]}})
META = {"name": "fed", "deploy_map": {"app1": ["@ALL"]}}

FOLDER_FAULTS = [
    ({}, "meta.json", "neither a meta.json"),
    ({"meta": "{"}, "meta.json", "meta.json is not JSON"),
    ({"meta": '{"name": "a", "name": "b"}'}, "meta.json", "the key 'name' occurs twice"),
    ({"meta": META, "app1": None}, "app1/job.json", "app1/job.json is missing"),
    ({"meta": META, "app1": "{"}, "app1/job.json", "app1/job.json is not JSON"),
    ({"meta": META, "app1": "[]"}, "app1/job.json", "app1/job.json must hold one object"),
    ({"meta": META, "app1": "{}"}, "app1/job.json", "what to run of app1/source/train.py"),
    *(
        (
            {"meta": META, "app1": json.dumps(template)},
            f"app1/job.json.{path}",
            f"app1/job.json: {path}: must be {kind}, not ",
        )
        for template, path, kind in [
            ({"AlgorithmSpecification": ["x"]}, "AlgorithmSpecification", "an object"),
            (
                {"AlgorithmSpecification": {"ContainerEntrypoint": "python3 train.py"}},
                "AlgorithmSpecification.ContainerEntrypoint",
                "a list",
            ),
            ({"InputDataConfig": 5}, "InputDataConfig", "a list"),
            ({"HyperParameters": ["sagemaker_program"]}, "HyperParameters", "an object"),
            ({"Tags": {"a": "b"}}, "Tags", "a list"),
        ]
    ),
]


@pytest.mark.parametrize(("folder", "field", "message"), FOLDER_FAULTS, ids=lambda it: str(it)[:50])
def test_each_fault_of_a_folder_names_the_file(tmp_path, folder, field, message):
    root = folder_of(tmp_path, **folder)
    with pytest.raises(InvalidRequest) as refused:
        job_in(root, pools=POOLS)
    assert refused.value.field == field
    assert message in refused.value.message


def test_a_single_app_gets_a_meta_json_that_deploys_to_all(tmp_path):
    root = folder_of(tmp_path, my_app=RUNS) / "my_app"
    found = job_in(root, pools=POOLS)
    assert found.meta.name == "my-app"
    assert dict.fromkeys(("server", *POOLS), "my_app") == found.meta.apps
    assert list(found.apps) == ["my_app"]


def test_an_app_for_no_site_is_only_a_folder(tmp_path):
    meta = {"name": "fed", "deploy_map": {"app1": ["@ALL"], "spare": []}}
    found = job_in(folder_of(tmp_path, meta, app1=RUNS, spare=None), pools=POOLS)
    assert list(found.apps) == ["app1"]


def test_another_name_may_be_given(tmp_path):
    found = job_in(folder_of(tmp_path, META, app1=RUNS), pools=POOLS, name="second")
    assert found.meta.name == "second"


HOCON = """
# As FLARE's own templates have it.
name = "fed"
resource_spec { client1 { num_gpus = 1, gpu_type = H100 } }
min_clients = 2
deploy_map {
  app1 = ["@ALL"]   // a comment
}
"""


def test_hocon_is_read_and_shipped_as_it_is(tmp_path):
    root = folder_of(tmp_path, app1=RUNS)
    (root / "meta.conf").write_text(HOCON)
    found = job_in(root, pools=POOLS)
    assert (found.meta.name, found.meta.min_clients) == ("fed", 2)
    assert found.meta.needs == {"client1": {"num_gpus": 1, "gpu_type": "H100"}}
    assert found.warnings == ()
    with tarfile.open(fileobj=io.BytesIO(found.apps["app1"].pack.content)) as tar:
        assert tar.extractfile("source/meta.conf").read().decode() == HOCON


def test_json_goes_before_hocon(tmp_path):
    root = folder_of(tmp_path, META, app1=RUNS)
    (root / "meta.conf").write_text('name = "other"')
    assert job_in(root, pools=POOLS).meta.name == "fed"


def test_hocon_that_is_none_is_refused_with_the_line(tmp_path):
    root = folder_of(tmp_path, app1=RUNS)
    (root / "meta.conf").write_text('name = "fed"\ndeploy_map [')
    with pytest.raises(InvalidRequest, match=r"meta\.conf is not HOCON: line 2: "):
        job_in(root, pools=POOLS)


def test_a_job_without_a_name_has_its_folders(tmp_path):
    meta = {"deploy_map": {"app1": ["@ALL"]}}
    assert job_in(folder_of(tmp_path, meta, app1=RUNS), pools=POOLS).meta.name == "my-job"
