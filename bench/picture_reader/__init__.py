"""A small model that reads pictures, made of two published ones and a connector that is trained here."""
