"""The HTTP collector and the agent's spool: acceptance, used end to end.

    the collector                                        the agent
      assembly      a collector from its parts             spool      its queue on its disk
      server        the process: listens, drains, ends     sending    from the spool to any collector
      connections   deadlines for every client           both
      app           the routes                             kinds      refusals, and what the agent does
      acceptance    between HTTP and the protocol          metrics    Prometheus' text
      landing       the mode in which a disk accepts

Nothing is imported here: the agent needs no server, and the command line's help needs neither.
"""
