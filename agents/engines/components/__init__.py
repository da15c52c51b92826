"""Engines of components other than decoders: what they take, what they refuse, what they say of themselves."""
