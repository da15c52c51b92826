"""The difference between what runs and what is wanted: the next safe moves, and the whole way there. Pure: values in,
values out."""
