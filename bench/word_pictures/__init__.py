"""A small model of our own that draws coloured shapes of words: trained here, served as any generator."""
