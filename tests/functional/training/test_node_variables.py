"""MASTER_IP, MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK in script mode: `sitecustomize.py`."""

from __future__ import annotations

import ast

import pytest

from tests.functional.training.processes import BESIDE, FILE, Container

NAMES = ("MASTER_IP", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
SHOW = f"import os; print(*(os.environ.get(name) for name in {NAMES}))"
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SHOW!r}], check=True)"


@pytest.fixture
def script_mode(tmp_path):
    """As the toolkit starts a script: the code's folder, with the shipped files, on PYTHONPATH."""

    def container(**place):
        made = Container(tmp_path, **place)
        code = made.ml / "code"
        for file in (FILE, BESIDE / "sitecustomize.py"):
            (code / file.name).write_bytes(file.read_bytes())
        made.environment["PYTHONPATH"] = str(code)
        return made

    return container


def shown(container, script=SHOW, **environment):
    code, out, err = container.run(script, **environment)
    assert code == 0, err
    return out.split(), err


def test_they_are_there_before_the_first_line(script_mode):
    assert shown(script_mode())[0] == ["127.0.0.1", "127.0.0.1", "2222", "1", "0"]


def test_they_are_those_of_the_hosts_of_this_start(script_mode):
    hosts = ("algo-2", "algo-10", "algo-1")
    for rank, host in enumerate(("algo-1", "algo-2", "algo-10")):
        assert shown(script_mode(hosts=hosts, host=host))[0][3:] == ["3", str(rank)]
    resumed = script_mode(hosts=("algo-1", "algo-2"), host="algo-2", job="job1-qstamp-2-abcdef")
    assert shown(resumed)[0][3:] == ["2", "1"]


def test_child_processes_inherit_them(script_mode):
    assert shown(script_mode(), CHILD)[0][3:] == ["1", "0"]


def test_what_the_job_or_a_launcher_has_set_stays(script_mode):
    container = script_mode()
    given = shown(container, MASTER_PORT="7777", RANK="5")[0]
    assert given == ["127.0.0.1", "127.0.0.1", "7777", "1", "5"]
    for launched in ("LOCAL_RANK", "OMPI_COMM_WORLD_RANK"):
        assert shown(container, **{launched: "0"})[0] == ["None"] * 5


def test_the_images_own_sitecustomize_runs_after_it(script_mode, tmp_path):
    container = script_mode()
    image = tmp_path / "image"
    image.mkdir()
    (image / "sitecustomize.py").write_text("import os\nos.environ['IMAGE'] = os.environ['RANK']\n")
    container.environment["PYTHONPATH"] += f":{image}"
    own = "import os, sitecustomize; print(os.environ['IMAGE'], sitecustomize.__file__)"
    assert shown(container, own)[0] == ["0", str(image / "sitecustomize.py")]


def test_no_script_fails_for_want_of_them(script_mode):
    container = script_mode()
    (container.ml / "code" / "slotq_training.py").write_text("raise OSError('broken')\n")
    out, err = shown(container)
    assert out == ["None"] * 5
    assert "MASTER_IP and RANK are not set: OSError('broken')" in err


def test_the_files_are_for_the_python_of_old_containers():
    for file in (FILE, *BESIDE.glob("*.py")):
        ast.parse(file.read_text(), feature_version=(3, 8))
