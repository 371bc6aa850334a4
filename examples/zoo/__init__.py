"""Failures that really happened, as programs: broken as they were, mended, and sometimes tempting but wrong.

Every module is an entry of `holdfast zoo --programs`, and a system of `holdfast audit`, named like its file:
`mended` is the program itself, `broken...` and `tempting...` are its mutants, and what ends with `_boto3` is
the same on plain boto3. Its docstring holds the story and the sources.
"""
