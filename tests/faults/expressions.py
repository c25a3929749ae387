"""DynamoDB's expressions: as much of their language as the store speaks, read once and kept.

A condition becomes a function of an item and the placeholders' values; an update becomes a function
that makes the new item of the old one. What is not understood is refused, never passed over, and a
placeholder that is not used is refused as DynamoDB refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
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

_TOKEN = re.compile(r"\s*(<>|<=|>=|[=<>(),+\-]|[:#]?[A-Za-z_][A-Za-z0-9_-]*)")
_COMPARISONS = {"=", "<>", "<", "<=", ">", ">="}
_CLAUSES = {"SET", "ADD", "REMOVE"}


class NotUnderstood(Exception):
    """The expression is malformed or not supported here."""


@cache
def condition(text: str) -> Condition:
    """Parse a condition, filter or key condition."""
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
        return self.comparison()

    def arguments(self, count: int) -> list[Operand]:
        self.take()
        self.take("(")
        found = [self.operand()]
        while self.accept(","):
            found.append(self.operand())
        self.take(")")
        if len(found) != count:
            raise NotUnderstood(f"{self.text!r}: {count} arguments were expected")
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
        sign = self.take()
        if sign not in _COMPARISONS:
            raise NotUnderstood(f"{self.text!r}: what is {sign!r}?")
        right = self.operand()
        return lambda item, names, values: compare(
            sign, left(item, names, values), right(item, names, values)
        )

    # --- operands

    def operand(self) -> Operand:
        token = self.take()
        if token.startswith(":"):
            return lambda _item, _names, values: values[token]
        if token == "if_not_exists":
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
        return {
            "N": str(
                _number(left(item, names, values)) + sign * _number(right(item, names, values))
            )
        }

    return added


def _assigning(name: Name, value: Operand) -> Step:
    def assign(item: dict[str, Value], before: Item, names: Names, values: Values) -> None:
        found = value(before, names, values)
        if found is None:
            raise NotUnderstood("an attribute of the expression is not in the item")
        item[name(names)] = found

    return assign


def _counting(name: Name, value: Operand) -> Step:
    def count(item: dict[str, Value], before: Item, names: Names, values: Values) -> None:
        was = before.get(name(names), {"N": "0"})
        item[name(names)] = {"N": str(_number(was) + _number(value(before, names, values)))}

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
    ((kind, what),) = value.items()
    return int(what) if kind == "N" else what.encode() if kind == "S" else what


def _number(value: Value | None) -> int:
    if value is None or "N" not in value:
        raise NotUnderstood("a number was expected")
    return int(value["N"])


def _begins(whole: Value | None, prefix: Value | None) -> bool:
    return bool(whole and prefix and str(whole.get("S", "")).startswith(prefix["S"]))


def _tokens(text: str) -> Iterator[str]:
    at, text = 0, text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise NotUnderstood(f"{text!r}: from {text[at:]!r} on")
        yield found[1]
        at = found.end()
