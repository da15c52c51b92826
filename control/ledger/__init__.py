"""Spending as values: exact until it is shown. No row, clock or surface is known here."""
