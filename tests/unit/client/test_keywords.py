"""Settings that several functions take are written once, and shown by each."""

import inspect
from typing import Annotated, TypedDict, Unpack

import pytest

import slotq
from slotq import QueueClient, QueueTrainingJobSession
from slotq.configuration.keywords import takes
from slotq.session.install import QueueSettings, SessionSettings


class Colours(TypedDict, total=False):
    red: Annotated[int | None, "from 0 to 255"]
    blue: Annotated[int | None, "the same"]


@takes(Colours)
def mix(name: str, **colours: Unpack[Colours]) -> dict[str, int | None]:
    """Mix a colour."""
    return {name: colours.get("red"), "blue": colours.get("blue")}


def test_each_keyword_is_shown_with_its_text():
    assert str(inspect.signature(mix)).startswith(
        "(name: str, *, red: int | None = None, blue: int | None = None)"
    )
    assert inspect.getdoc(mix) == "Mix a colour.\n\n`red`: from 0 to 255.\n`blue`: the same."


def test_known_keywords_arrive_and_others_are_type_errors():
    assert mix("sky", blue=255) == {"sky": None, "blue": 255}
    with pytest.raises(TypeError, match="green"):
        mix("grass", green=255)  # type: ignore[call-arg]


@pytest.mark.parametrize("function", [slotq.install, QueueTrainingJobSession])
def test_install_and_the_session_show_every_setting(function):
    assert QueueSettings.__annotations__.keys() <= inspect.signature(function).parameters.keys()
    text = function.__doc__ if function is slotq.install else function.__init__.__doc__
    assert all(f"`{name}`: " in str(text) for name in QueueSettings.__annotations__)


def test_a_misspelt_setting_is_a_type_error():
    with pytest.raises(TypeError, match="prioritty"):
        slotq.install(prioritty=5)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="prioritty"):
        QueueClient("https://queue/prod").with_settings(prioritty=5)  # type: ignore[call-arg]


def test_the_session_names_the_keywords_of_the_installed_sdk():
    """A type checker refuses a keyword that is missing here."""
    parent = inspect.signature(QueueTrainingJobSession.__mro__[1].__init__).parameters
    ours = SessionSettings.__annotations__.keys() - QueueSettings.__annotations__.keys()
    assert parent.keys() - {"self", "boto_session"} <= ours
