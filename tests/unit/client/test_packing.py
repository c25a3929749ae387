"""The folder as an archive: its contents, and the same archive for the same files."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest

from slotq.errors import NotConfigured
from slotq.packaging import archive
from slotq.packaging.archive import Ignored, listed, pack

TREE = (
    ".git/HEAD",
    ".venv/bin/python",
    "README.md",
    "data/big.bin",
    "data/keep.txt",
    "logs/a.log",
    "pkg/__init__.py",
    "pkg/__pycache__/x.cpython-311.pyc",
    "pkg/data/more.bin",
    "pkg/deep/down/notes.log",
    "pkg/old.pyc",
    "train.py",
)
CODE = ["README.md", "data/big.bin", "data/keep.txt", "logs/a.log", "pkg/__init__.py"]
CODE += ["pkg/data/more.bin", "pkg/deep/down/notes.log", "train.py"]
NOBODY = 65534
"""The user without rights."""


@pytest.fixture
def folder(tmp_path):
    for name in TREE:
        file = tmp_path / "work" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return tmp_path / "work"


def test_files_that_no_training_job_needs_are_left_out(folder):
    assert sorted(listed(folder).files) == sorted(CODE)


IGNORED = [
    ("*.log", {"logs/a.log", "pkg/deep/down/notes.log"}),
    ("/*.log", set()),
    ("data/", {"data/big.bin", "data/keep.txt", "pkg/data/more.bin"}),
    ("/data/", {"data/big.bin", "data/keep.txt"}),
    ("/data", {"data/big.bin", "data/keep.txt"}),
    ("data/*.bin", {"data/big.bin"}),
    ("**/data/*.bin", {"data/big.bin", "pkg/data/more.bin"}),
    ("pkg/**", {"pkg/__init__.py", "pkg/data/more.bin", "pkg/deep/down/notes.log"}),
    ("pkg/**/notes.log", {"pkg/deep/down/notes.log"}),
    ("data/*\n!keep.txt", {"data/big.bin"}),
    ("data/\n!data/keep.txt", {"data/big.bin", "data/keep.txt", "pkg/data/more.bin"}),
    ("train.p?", {"train.py"}),
    ("train[.]py", {"train.py"}),
    ("[!t]*.md", {"README.md"}),
    ("# train.py\n\n", set()),
    ("train.py/", set()),
    ("trainXpy", set()),
    ("[]t]rain.py", {"train.py"}),
    ("[!]a]rain.py", {"train.py"}),
    ("[\\]t]rain.py", {"train.py"}),
    ("t[z-aq-s]ain.py", {"train.py"}),
    ("t[z-a]ain.py", set()),
    ("[[:lower:]]rain.py", {"train.py"}),
    ("\\[t\\]rain.py", set()),
    ("trai\\n.p\\y", {"train.py"}),
    ("logs[!x]a.log", set()),
    ("logs[./]a.log", set()),
    ("pkg/d**.log", set()),
    ("tr**n.py", {"train.py"}),
    ("[train.py", set()),
    ("train.py\\", set()),
    ("train.py\\ ", set()),
    ("train.py  ", {"train.py"}),
    ("\ufefftrain.py", {"train.py"}),
]


@pytest.mark.parametrize(("text", "gone"), IGNORED)
def test_an_ignore_file_excludes_files(folder, text, gone):
    (folder / ".slotqignore").write_text(text)
    (folder / ".gitignore").write_text("*\n")  # the other file is ignored
    assert set(CODE) - set(listed(folder).files) == gone


@pytest.mark.parametrize(("text", "gone"), IGNORED)
def test_git_reads_the_ignore_file_the_same_way(folder, text, gone):
    if shutil.which("git") is None:
        pytest.skip("there is no git here")
    shutil.rmtree(folder / ".git")
    (folder / ".gitignore").write_text(text)
    git = ["git", "-c", "core.excludesFile=/dev/null", "-C", str(folder)]
    subprocess.run([*git, "init", "-q"], check=True)
    shown = subprocess.run(
        [*git, "ls-files", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    assert set(CODE) - set(shown) == gone
    assert set(listed(folder).files) >= set(CODE) - gone


def test_an_ignore_file_in_another_encoding_is_read(folder):
    """A name is bytes; Python has those that are no UTF-8 as surrogates."""
    name = os.fsdecode(b"caf\xe9.txt")
    (folder / name).write_text("secret")
    assert name in listed(folder).files
    (folder / ".gitignore").write_bytes(b"# na\xefve\ncaf\xe9.*\n")
    assert name not in listed(folder).files


def test_the_last_pattern_counts_and_default_patterns_can_be_undone():
    assert Ignored(["*.py", "!train.py"]).ignores("a/b.py", folder=False)
    assert not Ignored(["*.py", "!train.py"]).ignores("train.py", folder=False)
    assert not Ignored(["!venv/"]).ignores("venv", folder=True)
    assert Ignored().ignores("venv", folder=True)
    assert not Ignored().ignores("venv", folder=False)


def test_the_same_files_give_the_same_archive(folder, tmp_path):
    first = pack(folder)
    shutil.copytree(folder, tmp_path / "copy")
    os.utime(tmp_path / "copy" / "train.py", (1, 1))
    assert pack(tmp_path / "copy") == first
    (folder / "train.py").write_text("other")
    assert pack(folder).digest != first.digest


def test_the_archive_keeps_contents_and_permissions(folder, tmp_path):
    (folder / "run.sh").write_text("exit\n")
    (folder / "run.sh").chmod(0o700)
    (folder / "elsewhere.txt").write_text("linked")
    (folder / "link.txt").symlink_to("elsewhere.txt")
    (folder / "broken").symlink_to(tmp_path / "nowhere")
    made = pack(folder)
    with tarfile.open(fileobj=io.BytesIO(made.content)) as tar:
        entries = {each.name: each for each in tar.getmembers()}
        assert tar.extractfile("link.txt").read() == b"linked"
    assert (entries["run.sh"].mode, entries["train.py"].mode) == (0o755, 0o644)
    assert {each.uid for each in entries.values()} == {0}
    assert "broken" not in entries
    assert made.files == len(entries) == len(CODE) + 3


def test_data_is_not_packed_by_mistake(folder, monkeypatch):
    monkeypatch.setattr(archive, "MOST_BYTES", 50)
    with pytest.raises(
        NotConfigured, match=r"the largest are .*notes\.log.*\.slotqignore.*--input"
    ):
        pack(folder)


def test_something_else_than_a_folder_is_refused(tmp_path):
    with pytest.raises(NotConfigured, match="is not a folder"):
        pack(tmp_path / "nowhere")


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_link_out_of_the_folder_is_refused_by_its_name(folder, kind):
    outside = folder.parent / "home"
    outside.mkdir()
    (outside / "credentials").write_text("secret")
    leads = outside / "credentials" if kind == "file" else outside
    (folder / "pkg" / "taken").symlink_to(leads)
    with pytest.raises(NotConfigured, match=f"pkg/taken is a link to {leads}.*slotqignore"):
        pack(folder)
    (folder / ".slotqignore").write_text("taken")
    pack(folder)


def test_a_link_within_the_folder_is_replaced_by_its_target(folder):
    (folder / "alias.py").symlink_to("pkg/__init__.py")
    (folder.parent / "by-another-name").symlink_to(folder)
    (folder / "round.py").symlink_to("../by-another-name/train.py")
    content = pack(folder.parent / "by-another-name").content
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        assert tar.extractfile("alias.py").read() == b"pkg/__init__.py"
        assert tar.extractfile("round.py").read() == b"train.py"
        assert not [member for member in tar if not member.isreg()]


def test_a_link_to_a_folder_within_the_folder_stays_a_link(folder, tmp_path):
    (folder / "latest").symlink_to("pkg/deep")
    (folder / "pkg" / "round").symlink_to(folder)
    made = pack(folder)
    with tarfile.open(fileobj=io.BytesIO(made.content)) as tar:
        tar.extractall(tmp_path / "code", filter="data")
    assert (tmp_path / "code/latest/down/notes.log").read_text() == "pkg/deep/down/notes.log"
    assert (tmp_path / "code/pkg/round").resolve() == tmp_path / "code"
    assert made.files == len(CODE) + 2


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_cannot_be_read_is_refused_by_its_name(kind):
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        closed = folder / "closed"
        closed.mkdir() if kind == "folder" else closed.write_text("root's")
        (folder / ".slotqignore").write_text("")
        closed.chmod(0)
        root = os.geteuid()
        os.seteuid(root or NOBODY)  # Root may read everything.
        try:
            with pytest.raises(NotConfigured, match=r"closed cannot be read .*slotqignore"):
                pack(folder)
        finally:
            os.seteuid(root)


def test_what_cannot_be_packed_is_named(folder):
    (folder / "broken").symlink_to("nowhere")
    found = listed(folder)
    assert found.lost == ("broken",)
    assert "broken" not in found.files


def test_a_word_names_a_file_that_is_not_packed(folder):
    (folder / ".gitignore").write_text("data/\n*.log\n")
    found = listed(folder)
    assert found.ignored_by == ".gitignore"
    left_out = ["data", "data/", "./data/big.bin", "logs/../data", "logs/a.log"]
    assert all(found.lacks(folder, word) for word in left_out)
    packed = ["train.py", "pkg", ".", "", "nothing", "../work/train.py", "/etc/hosts", "--a"]
    assert not any(found.lacks(folder, word) for word in packed)


def test_an_empty_folder_is_packed(folder):
    """A script may write into it."""
    (folder / "out/deep").mkdir(parents=True)
    assert [name for name in listed(folder).files if "out" in name] == ["out/deep/"]
    with tarfile.open(fileobj=io.BytesIO(pack(folder).content)) as tar:
        assert tar.getmember("out/deep").isdir()
    assert not listed(folder).lacks(folder, "out")
    (folder / ".gitignore").write_text("out/")
    assert not [name for name in listed(folder).files if "out" in name]
