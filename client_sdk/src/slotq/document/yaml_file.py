"""A YAML file with the line number of every value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from slotq.errors import DocumentError
from slotq_core.wire.document.faults import DocumentFault, Loc

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml reads a file of 10,000 jobs in one second, the Python loader in ten."""

NOT_YAML = (yaml.YAMLError, ValueError, RecursionError)
"""What a loader raises for a text that it cannot read: a ValueError for the date 2026-02-30."""

_SHOWN = 20
"""The most faults reported for one file."""

Place = tuple[Path, int, str]
"""A file, a line, and the name of the key there."""

_KEYS = {"tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"}


class Document:
    """A parsed file."""

    def __init__(
        self,
        path: Path,
        refused: type[DocumentError] = DocumentError,
        *,
        text: str | None = None,
    ) -> None:
        """Parse the file; with `text`, this in its place. Raises `refused` if it is missing or is
        not YAML."""
        self.path, self._refused = path, refused
        loader = _Loader(read_text(path, refused) if text is None else text)
        try:
            self._root: yaml.Node | None = loader.get_single_node()
            if self._root is not None:
                self._check_keys(self._root)
            self.data: Any = None if self._root is None else loader.construct_document(self._root)
        except yaml.YAMLError as error:
            raise self._refused(self._not_yaml(error)) from None
        except ValueError as error:
            raise self._refused(f"{path}: a value cannot be read: {error}") from None
        except RecursionError:
            raise self._refused(f"{path}: nested too deeply") from None
        finally:
            loader.dispose()

    def line(self, loc: Loc) -> int:
        """The line of the innermost part of `loc` that the file contains."""
        node, line = self._root, 1
        for part in loc:
            found = _step(node, part)
            if found is None:
                break
            line, node = found
        return line

    def loc(self, path: str) -> Loc:
        """The part of a path such as `pools[0].properties.mem` that the file contains. A key may
        have dots."""
        node, found = self._root, []
        while path and (step := _first(node, path)):
            part, path = step
            found.append(part)
            here = _step(node, part)
            node = here[1] if here else None
        return tuple(found)

    def _check_keys(self, root: yaml.Node) -> None:
        """Refuse repeated keys and keys that are no text. YAML readers silently keep the last of
        two equal keys, and read `on` as true."""
        for mapping in _mappings(root, set()):
            lines: dict[str, int] = {}
            for key, _ in mapping.value:
                line = key.start_mark.line + 1
                where = f"{self.path}:{line}: "
                if key.tag not in _KEYS:
                    what = f"{key.value}: " if isinstance(key, yaml.ScalarNode) else ""
                    raise self._refused(f"{where}{what}a key must be a text: put it in quotes")
                if key.value in lines:
                    before = f"it is already in line {lines[key.value]}"
                    raise self._refused(f"{where}{key.value}: this key occurs twice; {before}")
                lines[key.value] = line

    def _not_yaml(self, error: yaml.YAMLError) -> str:
        mark = getattr(error, "problem_mark", None)
        if mark is None:
            return f"{self.path}: not YAML: {error}"
        problem = getattr(error, "problem", None) or "the file ends too early"
        return f"{self.path}:{mark.line + 1}: not YAML: {problem} (column {mark.column + 1})"


def parsed(text: str, name: str) -> Any:
    """The value of a YAML text. Raises DocumentError, with `name` for its file."""
    return Document(Path(name), text=text).data


def read_text(path: Path, refused: type[DocumentError]) -> str:
    """The text of a file. Raises `refused`."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise refused(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise refused(f"{path}: not UTF-8: {error}") from None


def _step(node: yaml.Node | None, part: int | str) -> tuple[int, yaml.Node] | None:
    """The line and the value of one key, or of one list element."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return key.start_mark.line + 1, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part].start_mark.line + 1, node.value[part]
    return None


def _first(node: yaml.Node | None, path: str) -> tuple[int | str, str] | None:
    """The first part of the path, and the rest; None if the node does not have it."""
    if isinstance(node, yaml.SequenceNode):
        number = re.match(r"\[?(\d+)\]?\.?", path)
        return (int(number[1]), path[number.end() :]) if number else None
    keys = [key.value for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []
    fits = [key for key in keys if path == key or path.startswith((f"{key}.", f"{key}["))]
    if not fits:
        return None
    key = max(fits, key=len)
    return key, path[len(key) :].removeprefix(".")


def _mappings(node: yaml.Node, seen: set[int]) -> Iterator[yaml.MappingNode]:
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        yield node
        for key, value in node.value:
            yield from _mappings(key, seen)
            yield from _mappings(value, seen)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _mappings(item, seen)


def faults_text(faults: Iterable[DocumentFault], where: Callable[[Loc], Place]) -> str:
    """One line per fault, in the order of the file's lines."""
    placed = sorted((*where(fault.loc), fault.message) for fault in faults)
    lines = [
        f"{path}:{line}: {key + ': ' if key else ''}{message}"
        for path, line, key, message in placed[:_SHOWN]
    ]
    if len(placed) > _SHOWN:
        lines.append(f"and {len(placed) - _SHOWN} more")
    return "\n".join(lines)
