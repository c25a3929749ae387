"""HOCON as FLARE's job files use it, and what is refused of it."""

from __future__ import annotations

import pytest

from slotq.federated.hocon import NotHocon, parse

READ = [
    ("", {}),
    ("{}", {}),
    ("\ufeffa = 1", {"a": 1}),
    ('{"a": {"b": [1, 2.5, true, null, "t"]}}', {"a": {"b": [1, 2.5, True, None, "t"]}}),
    ("a = 1\nb: 2\nc { d = 3 }", {"a": 1, "b": 2, "c": {"d": 3}}),
    ("a = 1, b = 2,\n", {"a": 1, "b": 2}),
    ("a = 1 # x\n// y\nb = 2 // z", {"a": 1, "b": 2}),
    ("a.b.c = 1\na.b.d = 2", {"a": {"b": {"c": 1, "d": 2}}}),
    ('"a.b" = 1', {"a.b": 1}),
    ("a { b = 1 }\na { c = 2 }", {"a": {"b": 1, "c": 2}}),
    ("a { b { c = 1 } }\na { b { c = 2 } }", {"a": {"b": {"c": 2}}}),
    ("a = 1\na = two", {"a": "two"}),
    ("a { b = 1 }\na = 2\na.c = 3", {"a": {"c": 3}}),
    ("a = [\n  x\n  y z,\n  @ALL\n]", {"a": ["x", "y z", "@ALL"]}),
    ("a = [1]\na += 2", {"a": [1, 2]}),
    ("a += 2", {"a": [2]}),
    ("a = one two  # c", {"a": "one two"}),
    ('a = """b "c"\nd"""', {"a": 'b "c"\nd'}),
    (r'a = "x\n\u00e9\"y"', {"a": 'x\n\u00e9"y'}),
    ("a = -1\nb = -1.5\nc = 01\nd = 1.2.3", {"a": -1, "b": -1.5, "c": 1, "d": "1.2.3"}),
    ("a = 1e-5\nb = 2E+3\nc = 1e400", {"a": 1e-5, "b": 2000.0, "c": "1e400"}),
    ("a = TRUE\nb = Null", {"a": True, "b": None}),
    ("a = s3://b/c\nb = t // c", {"a": "s3://b/c", "b": "t"}),
    ('a = ""', {"a": ""}),
    ("a\n{\n}\n", {"a": {}}),
    ("a = {},b=[]", {"a": {}, "b": []}),
    ("include_all = 1", {"include_all": 1}),
]


@pytest.mark.parametrize(("text", "found"), READ, ids=lambda it: str(it)[:40])
def test_what_is_read(text, found):
    assert parse(text) == found


def test_values_keep_their_types():
    found = parse("a = 1\nb = true\nc = 1.0")
    assert [type(value) for value in found.values()] == [int, bool, float]


REFUSED = [
    ("a = ${HOME}", r"line 1: \$\{…\} takes a value from elsewhere; write the value itself"),
    ("b = 1\na = x ${?HOME}", r"line 2: \$\{…\} takes a value"),
    ('include "other.conf"', "line 1: include takes another file"),
    ("a = {\n  include file(b)\n}", "line 2: include takes another file"),
    ("a", "line 1: '=' or ':' must follow the key 'a'"),
    ("a =", "line 1: a value is missing"),
    ("= 1", "line 1: a key is missing"),
    ("a..b = 1", "line 1: a key is missing"),
    ("a {\n", "line 2: '}' is missing"),
    ("a = [1", r"line 1: '\]' is missing"),
    ("a = [1}", "line 1: a comma or the end of the line must follow"),
    ("{a = 1} b", "line 1: nothing may follow"),
    ("a = 1 }", "line 1: a comma or the end of the line must follow"),
    ('a = "b', "line 1: a text has no end"),
    (r'a = "\q"', "line 1: a text has an escape"),
    ("a = 1\na += 2", r"line 2: \+= adds to a list, and 'a' is none"),
    ("a = {} {}", "line 1: a comma or the end of the line must follow"),
    ("a = " + "[" * 40, "line 1: it nests deeper than 32 levels"),
    ("a = " + "{b=" * 2000, "line 1: it nests deeper than 32 levels"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=lambda it: str(it)[:40])
def test_what_is_refused_with_its_line(text, message):
    with pytest.raises(NotHocon, match=f"^{message}"):
        parse(text)
