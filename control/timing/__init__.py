"""What instances of text models cost in time: their pipelines, the times of their steps, and those of prompts."""
