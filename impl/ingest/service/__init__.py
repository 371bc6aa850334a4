"""The HTTP collector and the agent's spool: acceptance, used end to end."""
