"""Words as data: which say the same, which say the opposite, which say little.

Plain tables of English words as they occur in facts about people, tools and projects, in their
dictionary form or any other (they are stemmed when loaded). A wrong synonym can cost a fact, a
missing one only a call to the judge: when in doubt, leave it out. Not here: looking words up
(`vocabulary`), reading a text with them (`claims`).
"""
