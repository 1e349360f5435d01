"""What kode costs and how well it judges, as figures. `python -m bench.NAME` prints one part."""
