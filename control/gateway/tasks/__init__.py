"""Apps whose requests are tasks: their code is recorded, and what it calls is sent to executors."""
