"""How families of models write calls of tools and reasoning into their text, and what clients see of it."""
