"""Apps: models with their objectives, request types and traffic."""
