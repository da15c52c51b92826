"""What is served: models with their objectives, request types and traffic."""
