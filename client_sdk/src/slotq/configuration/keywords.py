"""Functions that take the keys of a TypedDict as keyword arguments.

    class JobSettings(TypedDict, total=False):
        retries: Annotated[int | None, "attempts after a failure"]

    @takes(JobSettings)
    def submit(name: str, **settings: Unpack[JobSettings]) -> None: ...

Type checkers read `Unpack`. `takes` does the same at run time: `help()` and notebooks show each key
with its text, and a key that is not there is a TypeError.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, cleandoc, signature
from textwrap import fill
from typing import Any, ParamSpec, TypeVar, get_type_hints

P = ParamSpec("P")
R = TypeVar("R")


def takes(
    keywords: type, *, open_ended: bool = False
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Show and check the keywords of a function whose last parameter is `**keywords`.

    Each keyword is optional. `open_ended`: the function takes others too.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        shown = _expanded(signature(function), keywords, open_ended=open_ended)

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            shown.bind(*args, **kwargs)
            return function(*args, **kwargs)

        checked.__signature__ = shown  # type: ignore[attr-defined]
        checked.__doc__ = f"{cleandoc(function.__doc__ or '')}\n\n{_described(keywords)}"
        return checked

    return decorate


def _expanded(signature: Signature, keywords: type, *, open_ended: bool) -> Signature:
    """The signature with a parameter for each keyword."""
    *first, last = signature.parameters.values()
    parameters = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in get_type_hints(keywords).items()
    ]
    rest = [last.replace(annotation=Any)] if open_ended else []
    return signature.replace(parameters=[*first, *parameters, *rest])


def _described(keywords: type) -> str:
    """The text of each keyword, a paragraph each."""
    hints: dict[str, Any] = get_type_hints(keywords, include_extras=True)
    texts = (f"`{name}`: {' '.join(hint.__metadata__)}." for name, hint in hints.items())
    return "\n".join(fill(text, 88, subsequent_indent="    ") for text in texts)
