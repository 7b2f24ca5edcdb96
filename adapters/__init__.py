"""Adapters: recurrent layers of other frameworks, each as it comes from its package, for `--cell` and `make conventions`.

A module per framework holds what `pytest --cell=adapters.NAME:LSTM` names, `LSTM`, `GRU` or `RNN`, and LAYERS, the same
layers with their own parameters, which `python -m adapters.conventions` measures. Nothing here computes a cell.
"""
