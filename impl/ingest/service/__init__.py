"""The HTTP collector and the agent's spool: acceptance, used end to end.

    the collector                                              the agent
      app           a collector, its parts and its routes        spool      its queue on its disk
      requests      tokens, query, body, kinds of refusal        sending    from the spool to any collector
      acceptance    between HTTP and the protocol
      landing       the mode in which a local disk accepts
      conflicts     the interface for operators
      background    work beside the requests
      openapi       the OpenAPI document

This package imports nothing, because the agent and the help of a command need no HTTP server.
"""
