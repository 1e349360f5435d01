"""The plug-ins that come with kode, each a package that imports kode only through `kode.plugin`.

No module of kode imports a plug-in: kode finds them by their entry points in `pyproject.toml`.
"""
