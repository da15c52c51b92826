"""The nouns that every part of Medley speaks of: frozen values, and the facts about hardware that ship with it."""
