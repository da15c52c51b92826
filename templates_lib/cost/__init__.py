"""Estimated seconds of a stage: a roofline whose efficiencies were fitted to public measurements."""
