"""Offers as clouds state them now, each from the cloud's own programming interface."""
