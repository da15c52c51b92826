"""What a machine has of what Medley needs, before there is a spec."""
