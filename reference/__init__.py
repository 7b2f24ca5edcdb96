"""The recurrent nets themselves: weights, equations, layouts, the oracle and the documents' random streams.

Nothing in here knows of pytest.
"""
