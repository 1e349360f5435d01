"""What other agents remember, moved in: where it is (`places`), how it reads (`readers`, over
`markdown`), and how it gets into the review (`take`). It counts once a person has approved it.
"""
