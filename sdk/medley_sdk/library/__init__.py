"""Tasks for models that Medley knows: functions of a graph's name, to be used as they are or as examples."""
