"""Settings: their values, the origins of the values, and the provider that they choose.

model.py    the nested parts with their defaults
load.py     defaults < own file < project file < environment < flags, and the origin of each
files.py    config files, other agents' settings files, and the person's config folder
choice.py   which provider to ask, with which key
"""
