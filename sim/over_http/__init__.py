"""Audits over HTTP: real operating-system processes in any language, and the schedule of their S3 requests.

launcher   the interpreter that starts, kills and reaps them.
endpoint   connections on 127.0.0.1, and requests that are held.
fleet      the processes: their quiet moments and their ends.
world      requests become the steps of a world like any other.
search     sampling, replay, minimising.
"""
