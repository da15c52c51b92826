"""What a launch needs, looked at before anything is rented."""
