"""A project's life for `bench.memory_life`:

story    what is said and asked, and what is true at any moment
reader   a model that believes nothing but what it was shown
mind     the model that memory asks by itself: to judge, to sum up, to consolidate
hands    what a model writes with a system's own tools
installed   the same life through the installed command
plain    plain files with word search, and the whole history in the window
"""
