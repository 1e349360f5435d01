"""Settings: their values, where those come from, and which provider they choose.

model.py    the nested parts with their defaults
load.py     defaults < own file < project file < environment < flags, and the origin of each
files.py    config files, and those of other agents; the folder of the person's own
choice.py   which provider to ask, with which key
"""
