"""DynamoDB's expressions: the part of their language that the queue uses, parsed once.

A condition becomes a function of an item and the placeholders' values; an update becomes a function
that turns the old item into the new one; a key condition becomes the range of sort keys to read.
What is not understood is refused, never ignored.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from operator import itemgetter
from typing import Any

Value = Mapping[str, Any]
Item = Mapping[str, Value]
Names = Mapping[str, str]
Values = Mapping[str, Value]
Name = Callable[[Names], str]
Condition = Callable[[Item, Names, Values], bool]
Operand = Callable[[Item, Names, Values], Value | None]
Update = Callable[[dict[str, Value], Names, Values], None]
Step = Callable[[dict[str, Value], Item, Names, Values], object]
Place = tuple[str, str, str]
"""An item's place in a partition: its sort key there, then its key in the table."""
KeyPart = tuple[Name, str, Sequence[Operand]]
"""A part of a key condition: attribute, sign, values."""

_TOKEN = re.compile(r"\s*(<>|<=|>=|[=<>(),+\-]|[:#]?[A-Za-z_][A-Za-z0-9_-]*)")
_COMPARISONS = {"=", "<>", "<", "<=", ">", ">="}
_CLAUSES = {"SET", "ADD", "REMOVE"}
_FUNCTIONS = {"if_not_exists"}
_ABSENT = "The provided expression refers to an attribute that does not exist in the item"


class NotUnderstood(Exception):
    """The expression is malformed or not supported here."""


class WrongOperand(Exception):
    """An update needs another value than the item has."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The part of a partition that a key condition names."""

    partition: str
    sign: str = ""
    """The condition on the sort key, if any."""
    low: str = ""
    high: str = ""

    def span(self, places: Sequence[Place]) -> tuple[int, int]:
        """Where the range begins and ends in a partition's sorted places."""
        sort, low = itemgetter(0), self.low
        first, after = bisect_left(places, low, key=sort), bisect_right(places, low, key=sort)
        match self.sign:
            case "=":
                return first, after
            case "<" | "<=":
                return 0, first if self.sign == "<" else after
            case ">" | ">=":
                return after if self.sign == ">" else first, len(places)
            case "BETWEEN":
                return first, bisect_right(places, self.high, key=sort)
            case "begins_with":
                length = len(low)
                return first, bisect_right(places, low, key=lambda place: place[0][:length])
        return 0, len(places)


@cache
def key_condition(text: str) -> Callable[[tuple[str, str], Names, Values], KeyRange]:
    """Parse a key condition. The result takes the names of the partition key and the sort key."""
    reader = _Reader(text)
    parts = [reader.key_part()]
    while reader.accept("AND"):
        parts.append(reader.key_part())
    reader.end()

    def made(keys: tuple[str, str], names: Names, values: Values) -> KeyRange:
        said: dict[str, tuple[str, list[str]]] = {}
        for name, sign, operands in parts:
            found = [operand({}, names, values) or {} for operand in operands]
            said[name(names)] = sign, [value.get("S", "") for value in found]
        sign, (partition, *_) = said.pop(keys[0], ("", [""]))
        if sign != "=" or not said.keys() <= {keys[1]}:
            raise NotUnderstood("Query key condition not supported")
        sign, limits = said.get(keys[1], ("", [""]))
        return KeyRange(partition, sign, limits[0], limits[-1])

    return made


@cache
def condition(text: str) -> Condition:
    """Parse a condition or a filter."""
    reader = _Reader(text)
    read = reader.disjunction()
    reader.end()
    return read


@cache
def update(text: str) -> Update:
    reader = _Reader(text)
    steps: list[Step] = []
    while reader.peek():
        steps += _CLAUSE_READERS[reader.take_clause()](reader)

    def run(item: dict[str, Value], names: Names, values: Values) -> None:
        before = dict(item)  # Each right side uses the item before the update.
        for step in steps:
            step(item, before, names, values)

    return run


@cache
def placeholders(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[:#][A-Za-z0-9_]+", text))


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.at = text, list(_tokens(text)), 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        token = self.peek()
        if not token or (wanted and token.upper() != wanted):
            raise NotUnderstood(f"{self.text!r}: {wanted or 'more'} was expected, not {token!r}")
        self.at += 1
        return token

    def accept(self, wanted: str) -> bool:
        if self.peek().upper() != wanted:
            return False
        self.at += 1
        return True

    def end(self) -> None:
        if self.peek():
            raise NotUnderstood(f"{self.text!r}: what is {self.peek()!r}?")

    def take_clause(self) -> str:
        clause = self.take().upper()
        if clause not in _CLAUSES:
            raise NotUnderstood(f"{self.text!r}: what is {clause!r}?")
        return clause

    # --- conditions

    def disjunction(self) -> Condition:
        parts = [self.conjunction()]
        while self.accept("OR"):
            parts.append(self.conjunction())
        if len(parts) == 1:
            return parts[0]
        return lambda item, names, values: any(part(item, names, values) for part in parts)

    def conjunction(self) -> Condition:
        parts = [self.negation()]
        while self.accept("AND"):
            parts.append(self.negation())
        if len(parts) == 1:
            return parts[0]
        return lambda item, names, values: all(part(item, names, values) for part in parts)

    def negation(self) -> Condition:
        if self.accept("NOT"):
            inner = self.negation()
            return lambda item, names, values: not inner(item, names, values)
        if self.accept("("):
            whole = self.disjunction()
            self.take(")")
            return whole
        return self.predicate()

    def predicate(self) -> Condition:
        match self.peek().lower():
            case "attribute_exists" | "attribute_not_exists" as asked:
                (operand,) = self.arguments(1)
                wanted = asked == "attribute_exists"
                return lambda item, names, values: (
                    (operand(item, names, values) is not None) is wanted
                )
            case "attribute_type":
                there, kind = self.arguments(2)
                return lambda item, names, values: (
                    (kind(item, names, values) or {})["S"] in (there(item, names, values) or {})
                )
            case "begins_with":
                whole, prefix = self.arguments(2)
                return lambda item, names, values: _begins(
                    whole(item, names, values), prefix(item, names, values)
                )
            case "contains":
                whole, part = self.arguments(2)
                return lambda item, names, values: _contains(
                    whole(item, names, values), part(item, names, values)
                )
        return self.comparison()

    def arguments(self, count: int) -> list[Operand]:
        self.take()
        found = self.operands()
        if len(found) != count:
            raise NotUnderstood(f"{self.text!r}: {count} arguments were expected")
        return found

    def operands(self) -> list[Operand]:
        self.take("(")
        found = [self.operand()]
        while self.accept(","):
            found.append(self.operand())
        self.take(")")
        return found

    def comparison(self) -> Condition:
        left = self.operand()
        if self.accept("BETWEEN"):
            low = self.operand()
            self.take("AND")
            high = self.operand()
            return lambda item, names, values: (
                compare(">=", left(item, names, values), low(item, names, values))
                and compare("<=", left(item, names, values), high(item, names, values))
            )
        if self.accept("IN"):
            members = self.operands()
            return lambda item, names, values: any(
                compare("=", left(item, names, values), member(item, names, values))
                for member in members
            )
        sign, right = self.sign(), self.operand()
        return lambda item, names, values: compare(
            sign, left(item, names, values), right(item, names, values)
        )

    def sign(self) -> str:
        sign = self.take()
        if sign not in _COMPARISONS:
            raise NotUnderstood(f"{self.text!r}: what is {sign!r}?")
        return sign

    def key_part(self) -> KeyPart:
        if self.accept("begins_with".upper()):
            self.take("(")
            name = self.attribute()
            self.take(",")
            prefix = self.operand()
            self.take(")")
            return name, "begins_with", [prefix]
        name = self.attribute()
        if self.accept("BETWEEN"):
            low = self.operand()
            self.take("AND")
            return name, "BETWEEN", [low, self.operand()]
        return name, self.sign(), [self.operand()]

    # --- operands

    def operand(self) -> Operand:
        token = self.take()
        if token.startswith(":"):
            return lambda _item, _names, values: values[token]
        if token in _FUNCTIONS:
            self.at -= 1
            here, otherwise = self.arguments(2)

            def present(item: Item, names: Names, values: Values) -> Value | None:
                found = here(item, names, values)
                return otherwise(item, names, values) if found is None else found

            return present
        self.at -= 1
        name = self.attribute()
        return lambda item, names, _values: item.get(name(names))

    def attribute(self) -> Name:
        token = self.take()
        if token.startswith("#"):
            return lambda names: names[token]
        if not token[0].isalpha():
            raise NotUnderstood(f"{self.text!r}: {token!r} is no attribute")
        return lambda _names: token

    def sum(self) -> Operand:
        total = self.operand()
        while self.peek() in {"+", "-"}:
            sign = 1 if self.take() == "+" else -1
            total = _added(total, self.operand(), sign)
        return total


def _added(left: Operand, right: Operand, sign: int) -> Operand:
    def added(item: Item, names: Names, values: Values) -> Value:
        one, other = left(item, names, values), right(item, names, values)
        return _as_value(_number(one) + sign * _number(other))

    return added


def _assigning(name: Name, value: Operand) -> Step:
    def assign(item: dict[str, Value], before: Item, names: Names, values: Values) -> None:
        found = value(before, names, values)
        if found is None:
            raise WrongOperand(_ABSENT)
        item[name(names)] = found

    return assign


def _counting(name: Name, value: Operand) -> Step:
    def count(item: dict[str, Value], before: Item, names: Names, values: Values) -> None:
        was = before.get(name(names), {"N": "0"})
        item[name(names)] = _as_value(_number(was) + _number(value(before, names, values)))

    return count


def _dropping(name: Name) -> Step:
    return lambda item, _before, names, _values: item.pop(name(names), None)


def _set(reader: _Reader) -> Iterator[Step]:
    while True:
        name = reader.attribute()
        reader.take("=")
        value = reader.sum()

        yield _assigning(name, value)
        if not reader.accept(","):
            return


def _add(reader: _Reader) -> Iterator[Step]:
    while True:
        name, value = reader.attribute(), reader.operand()

        yield _counting(name, value)
        if not reader.accept(","):
            return


def _remove(reader: _Reader) -> Iterator[Step]:
    while True:
        name = reader.attribute()

        yield _dropping(name)
        if not reader.accept(","):
            return


_CLAUSE_READERS: Mapping[str, Callable[[_Reader], Iterator[Step]]] = {
    "SET": _set,
    "ADD": _add,
    "REMOVE": _remove,
}


def compare(sign: str, left: Value | None, right: Value | None) -> bool:
    """Values of different types are unequal, and neither is smaller."""
    if left is None or right is None or left.keys() != right.keys():
        return sign == "<>" and (left is not None or right is not None)
    one, other = _comparable(left), _comparable(right)
    match sign:
        case "=":
            return bool(one == other)
        case "<>":
            return bool(one != other)
        case "<":
            return bool(one < other)
        case "<=":
            return bool(one <= other)
        case ">":
            return bool(one > other)
    return bool(one >= other)


def _comparable(value: Value) -> Any:
    ((kind, content),) = value.items()
    return number_of(content) if kind == "N" else content


def number_of(text: str) -> int | Decimal:
    """Raises ValueError or decimal.InvalidOperation."""
    return int(text) if text.lstrip("-").isdecimal() else Decimal(text)


def _number(value: Value | None) -> int | Decimal:
    if value is None:
        raise WrongOperand(_ABSENT)
    if "N" not in value:
        raise WrongOperand("An operand in the update expression has an incorrect data type")
    return number_of(value["N"])


def _as_value(number: int | Decimal) -> Value:
    return {"N": str(number) if isinstance(number, int) else f"{number:f}"}


def _begins(whole: Value | None, prefix: Value | None) -> bool:
    return bool(whole and prefix and str(whole.get("S", "")).startswith(prefix["S"]))


def _contains(whole: Value | None, part: Value | None) -> bool:
    if whole is None or part is None:
        return False
    ((kind, content),) = part.items()
    if kind == "S" and "S" in whole:
        return content in whole["S"]
    return content in whole.get(f"{kind}S", ()) or part in whole.get("L", ())


def _tokens(text: str) -> Iterator[str]:
    at, text = 0, text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise NotUnderstood(f"{text!r}: from {text[at:]!r} on")
        yield found[1]
        at = found.end()
