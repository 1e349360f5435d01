"""Sessions of other agents: a module per format reads its lines; `take` converts them to kode's
sessions."""
