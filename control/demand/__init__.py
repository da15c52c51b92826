"""Load reports of gateways."""
