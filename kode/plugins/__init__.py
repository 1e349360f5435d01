"""The plug-ins that come with kode, each a package that imports kode only through `kode.plugin`.

Nothing of kode imports them: their entry points in `pyproject.toml` name them.
"""
