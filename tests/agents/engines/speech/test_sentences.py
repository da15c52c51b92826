"""Text is cut where people pause, and nothing of it is lost."""

from hypothesis import given
from hypothesis import strategies as st

from agents.engines.speech.sentences import spoken_pieces

TEXTS = st.text(st.sampled_from("ab cd.!?,;\n。"), max_size=200)


@given(TEXTS, st.integers(1, 40))
def test_pieces_are_short_and_have_all_of_the_text(text: str, most: int) -> None:
    pieces = spoken_pieces(text, most)
    assert all(0 < len(piece) <= most for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


def test_sentences_are_spoken_one_by_one_and_long_ones_are_cut_at_pauses() -> None:
    assert spoken_pieces("One two. Three?\nFour", 20) == ("One two.", "Three?", "Four")
    assert spoken_pieces("a house, a garden and a tree", 20) == ("a house,", "a garden and a tree")
    assert spoken_pieces("one two three", 8) == ("one two", "three")
