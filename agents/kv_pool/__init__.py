"""One KV cache for the engines of several models on a device: its owner lends blocks of it, over a socket."""
