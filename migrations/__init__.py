"""Alembic's environment and revisions. `control.db.migrate` runs them; a developer makes a new one with

alembic -c migrations/alembic.ini -x url=postgresql+psycopg://… revision --autogenerate --rev-id 0002 -m "why"
"""
