"""Builds the folder of a release: `python -m release VERSION FOLDER`, in SAM's environment."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from release import terraform_module
from release.archives import digest, pack
from release.template import CODE_BUCKET, packaged

ROOT = Path(__file__).parents[1]
BUILT = ROOT / ".aws-sam/build"
WHEELS = ROOT / "dist"
TEMPLATE = "slotq.template.json"
SUMS = "SHA256SUMS"


def build(version: str, folder: Path) -> None:
    """Make the folder anew, of what `sam build` and `make wheels` have made."""
    shutil.rmtree(folder, ignore_errors=True)
    code, wheels = folder / "code", folder / "wheels"
    for each in (code, wheels):
        each.mkdir(parents=True)
    for wheel in sorted(WHEELS.glob("*.whl")):
        shutil.copyfile(wheel, wheels / wheel.name)
    template = packaged(
        BUILT, version, lambda built: pack(built, code / f"{_name(built.name)}.zip")
    )
    _write(folder / TEMPLATE, json.dumps(template, indent=1, ensure_ascii=False))
    parameters = {k: v for k, v in template["Parameters"].items() if k != CODE_BUCKET}
    terraform_module.write(folder / "terraform", parameters, template["Outputs"])
    _write(folder / "NOTES.md", notes((ROOT / "CHANGELOG.md").read_text()))
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = (f"{digest(path)}  {path.relative_to(folder).as_posix()}" for path in files)
    _write(folder / SUMS, "\n".join(sums))


def notes(changelog: str) -> str:
    """The newest part of the changelog that says anything: of this release, or unreleased."""
    parts = re.split(r"^(?=## \[)", changelog, flags=re.MULTILINE)
    return next(part.strip() for part in parts[1:] if "\n- " in part)


def _name(built: str) -> str:
    """`CoreLayer` as a file's name: core-layer."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", built).lower()


def _write(file: Path, text: str) -> None:
    file.write_text(f"{text}\n")


if __name__ == "__main__":
    build(sys.argv[1], Path(sys.argv[2]))
