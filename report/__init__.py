"""From evidence to verdicts, JSON and the claim report. Knows nothing of recurrent nets."""
