"""The page: the results of a folder in one HTML file that can be attached to a pull request.

It is made from the results and nothing else, fetches nothing, and can be read without JavaScript. Each
section is a function from the results to HTML, or to None when there is nothing to show.
"""
