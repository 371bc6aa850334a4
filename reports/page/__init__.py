"""The page: what the commands found out, in one HTML file that can be attached to a pull request.

It is made from the results in a folder and from nothing else, fetches nothing, and can be read without
JavaScript. Each section is a module that answers HTML for the results it understands, or nothing.
"""
