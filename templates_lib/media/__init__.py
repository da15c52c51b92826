"""What a picture or clip is before anything is decoded: what its header says, and which tokens it becomes."""
