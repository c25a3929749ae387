"""Wheels made by hand, to be installed without a package index."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile


def wheel(name: str, source: str, *, version: str = "1.0", command: str = "") -> bytes:
    """A wheel with one module; with a `command` that calls its `main`, if named."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": source,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if command:
        files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{command} = {name}:main\n"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        record = ""
        for path, text in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
            record += f"{path},sha256={digest.decode().rstrip('=')},{len(text.encode())}\n"
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    return packed.getvalue()
