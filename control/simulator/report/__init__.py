"""What a simulation found, as files, as pictures and as one page."""
