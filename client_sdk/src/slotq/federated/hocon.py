"""Reader of HOCON, the form of FLARE's `meta.conf`.

It reads JSON with what HOCON adds to describe a job: comments (`#`, `//`), keys without quotes and
keys with dots (`a.b = 1`), `=` or nothing in place of a colon, line ends in place of commas, text
without quotes or in three, lists that grow with `+=`, and a document without its outer braces. A
key that occurs again wins; two objects of one key become one.

What would make a document depend on the machine that reads it is refused by name: `${…}`, which
takes environment variables, and `include`, which takes files. pyhocon, FLARE's reader, does both: a
folder from a stranger could carry a secret of this machine away in its name, and an include that is
not found counts as empty. Of the 186 `.conf` files in FLARE's repository the two read all alike.
"""

from __future__ import annotations

import json
import re
from typing import Any

from slotq_core.wire.strict_json import DEEPEST

_SPACE = re.compile(r"(?:[ \t\r\f\ufeff]|(?:#|//)[^\n]*)*")
_LINES = re.compile(r"(?:\s|\ufeff|(?:#|//)[^\n]*)*")
_TRIPLE = re.compile(r'"""(.*?)"""(?!")', re.DOTALL)
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_PLAIN = re.compile(r'[^\s$"{}\[\]:=,+#`^?!@*&\\]+')
"""Text without quotes. HOCON keeps the excluded characters for itself."""
_END_OF_VALUE = re.compile(r"[\n\r,}\]#{\[$]|\Z")
_BLANKS = re.compile(r"[ \t]*")
_SEPARATOR = re.compile(r"\+=|[=:]|(?=\{)")
_NUMBER = re.compile(r"-?[0-9]{1,19}(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,2})?")
_WORDS = {"true": True, "false": False, "null": None}
_REFUSED = {"${": "${…} takes a value from elsewhere", "include": "include takes another file"}


class NotHocon(ValueError):
    """The text is not HOCON that describes a job. The message begins with the line."""


def parse(text: str) -> dict[str, Any]:
    """The document. Raises NotHocon."""
    reader = _Reader(text)
    reader.skip(_LINES)
    braced = reader.takes("{")
    document = reader.members("}" if braced else "", DEEPEST)
    reader.skip(_LINES)
    if reader.at < len(text):
        raise reader.wrong("nothing may follow the end of the document")
    return document


class _Reader:
    """The text, and the place up to which it has been read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0

    def skip(self, pattern: re.Pattern[str]) -> str:
        """Pass what matches; returns it."""
        if found := pattern.match(self._text, self.at):
            self.at = found.end()
            return found[0]
        return ""

    def takes(self, token: str) -> bool:
        """Pass the token, if it comes next."""
        found = self._text.startswith(token, self.at)
        self.at += len(token) if found else 0
        return found

    def wrong(self, what: str) -> NotHocon:
        for token, reason in _REFUSED.items():
            if self._text.startswith(token, self.at):
                what = f"{reason}; write the value itself"
        return NotHocon(f"line {self._text.count(chr(10), 0, self.at) + 1}: {what}")

    def members(self, end: str, levels: int) -> dict[str, Any]:
        """The members of an object up to its `end`; empty: up to the end of the text."""
        found: dict[str, Any] = {}
        while not self._ends(end):
            path = self._path()
            self.skip(_LINES)
            sign = _SEPARATOR.match(self._text, self.at)
            if sign is None:
                raise self.wrong(f"'=' or ':' must follow the key {'.'.join(path)[:40]!a}")
            self.at = sign.end()
            self.skip(_LINES)
            start = self.at
            value = self._value(levels - 1)
            if not _put(found, path, value, more=sign[0] == "+="):
                self.at = start
                raise self.wrong(f"+= adds to a list, and {'.'.join(path)[:40]!a} is none")
            self._between(end)
        return found

    def _list(self, levels: int) -> list[Any]:
        found: list[Any] = []
        while not self._ends("]"):
            found.append(self._value(levels - 1))
            self._between("]")
        return found

    def _ends(self, end: str) -> bool:
        """Pass the end, if it comes next."""
        self.skip(_LINES)
        if self.at < len(self._text):
            return bool(end) and self.takes(end)
        if end:
            raise self.wrong(f"'{end}' is missing")
        return True

    def _between(self, end: str) -> None:
        """Pass what separates two members: a comma, or the end of a line."""
        self.skip(_SPACE)
        ended = self._text.startswith((*filter(None, [end]), "\n"), self.at)
        if self.at < len(self._text) and not ended and not self._text.startswith(",", self.at):
            raise self.wrong("a comma or the end of the line must follow a value")
        self.skip(_LINES)
        self.takes(",")

    def _path(self) -> list[str]:
        """A key, divided at the dots outside of quotes."""
        parts = [""]
        start = self.at
        while True:
            if quoted := self._quoted():
                parts[-1] += quoted[0]
            elif plain := self.skip(_PLAIN):
                first, *others = plain.split(".")
                parts[-1] += first
                parts += others
            else:
                break
            blanks = self.skip(_BLANKS)
            if not _PLAIN.match(self._text, self.at) and not self._text.startswith('"', self.at):
                break
            parts[-1] += blanks
        if self.at == start or not all(parts) or parts[0].split()[0] == "include":
            self.at = start
            raise self.wrong("a key is missing")
        return parts

    def _quoted(self) -> tuple[str] | None:
        """A text in quotes, which may be empty; None: no quote comes next."""
        if found := _TRIPLE.match(self._text, self.at):
            self.at = found.end()
            return (found[1],)
        if found := _QUOTED.match(self._text, self.at):
            try:
                content = json.loads(found[0], strict=False)
            except ValueError:
                raise self.wrong("a text has an escape that JSON does not have") from None
            self.at = found.end()
            return (content,)
        if self._text.startswith('"', self.at):
            raise self.wrong("a text has no end")
        return None

    def _value(self, levels: int) -> Any:
        if levels < 0:
            raise self.wrong(f"it nests deeper than {DEEPEST} levels")
        if self.takes("{"):
            return self.members("}", levels)
        if self.takes("["):
            return self._list(levels)
        text, is_plain, start = "", True, self.at
        while not _END_OF_VALUE.match(self._text, self.at):
            if quoted := self._quoted():
                text, is_plain = text + quoted[0], False
            elif plain := self.skip(_PLAIN) or self._sign():
                text += plain
            else:
                break
            blanks = self.skip(_BLANKS)
            is_comment = blanks and self._text.startswith("//", self.at)
            if is_comment or _END_OF_VALUE.match(self._text, self.at):
                break
            text += blanks
        if self.at == start:
            raise self.wrong("a value is missing")
        return _meant(text) if is_plain else text

    def _sign(self) -> str:
        """Pass a character that HOCON keeps for itself and that its readers take in a text."""
        found = self._text[self.at : self.at + 1]
        if found in {"@", ":", "=", "+", "*", "&", "!", "?", "^"}:
            self.at += 1
            return found
        return ""


def _meant(text: str) -> Any:
    """A text without quotes, as the value that it stands for."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if found := _NUMBER.fullmatch(text):
        return float(text) if found[1] or found[2] else int(text)
    return text


def _put(into: dict[str, Any], path: list[str], value: Any, *, more: bool) -> bool:
    """Set the value at the path. Returns whether it may: only a list grows."""
    *parents, last = path
    for name in parents:
        if not isinstance(into.get(name), dict):
            into[name] = {}
        into = into[name]
    before = into.get(last)
    if more:
        if not isinstance(into.setdefault(last, []), list):
            return False
        into[last] = [*into[last], value]
    elif isinstance(before, dict) and isinstance(value, dict):
        for name, part in value.items():
            _put(before, [name], part, more=False)
    else:
        into[last] = value
    return True
