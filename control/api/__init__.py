"""The REST admin API, /api/v1: the console, Terraform and people's own programs speak to Medley through it only."""
