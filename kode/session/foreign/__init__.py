"""Sessions of other agents: each format has a module that reads its lines; `take` makes sessions of
kode's own of them.
"""
