"""Choices that a plan makes, and that a request keeps."""

from typing import TypeVar

from medley_sdk.current import running

Option = TypeVar("Option")


def replayable_choice(*options: Option) -> Option:
    """Return one of `options` (Cornserve, Listing 2). The plan says which share of requests takes which: it is drawn by
    the request's id, so that a request that runs again takes the same. What each option leads to is recorded."""
    return options[running().choose(len(options))]
