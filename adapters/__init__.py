"""Adapters: recurrent layers of other frameworks, as they come from their packages.

A module per framework holds what `pytest --cell=adapters.NAME:LSTM` names, `LSTM`, `GRU` or `RNN`, and LAYERS, the same
layers with their own parameters, which `python -m adapters.conventions` measures. Nothing here computes a cell.
"""
