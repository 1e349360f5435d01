"""Imports other agents' memory: finds it (`places`), parses it (`readers`, over `markdown`), and
puts it into the review (`take`). It counts once a person has approved it."""
