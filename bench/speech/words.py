"""Sentences that are spoken, and how many of their words are understood."""

import re

SENTENCES = (
    "The birch canoe slid on the smooth planks.",
    "Glue the sheet to the dark blue background.",
    "It is easy to tell the depth of a well.",
    "These days a chicken leg is a rare dish.",
    "Rice is often served in round bowls.",
    "The juice of lemons makes fine punch.",
    "The box was thrown beside the parked truck.",
    "The hogs were fed chopped corn and garbage.",
    "Four hours of steady work faced us.",
    "A large size in stockings is hard to sell.",
    "The boy was there when the sun rose.",
    "A rod is used to catch pink salmon.",
    "The source of the huge river is the clear spring.",
    "Kick the ball straight and follow through.",
    "Help the woman get back to her feet.",
    "A pot of tea helps to pass the evening.",
    "Smoky fires lack flame and heat.",
    "The soft cushion broke the man's fall.",
    "The salt breeze came across from the sea.",
    "The girl at the booth sold fifty bonds.",
)
"""Lists 1 and 2 of the Harvard sentences (IEEE 1969), whose sounds are as frequent as in English."""
_NUMBERS = {"4": "four", "50": "fifty"}


def words_of(text: str) -> list[str]:
    """Words in lower case, without marks; numbers that the sentences have, in letters."""
    found = re.findall(r"[a-z']+|\d+", text.lower().replace("\u2019", "'"))
    return [_NUMBERS.get(word, word) for word in found]


def kept(said: str, heard: str) -> int:
    """Count the words of what was said that were heard, in their order (longest common subsequence)."""
    words, others = words_of(said), words_of(heard)
    best = [0] * (len(others) + 1)
    for word in words:
        before = best[:]
        for at, other in enumerate(others, 1):
            best[at] = before[at - 1] + 1 if word == other else max(before[at], best[at - 1])
    return best[-1]
