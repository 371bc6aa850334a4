"""The one compiled file; everything else about the package is in `pyproject.toml`.

It is optional: without a compiler the package installs and works, and many threads that write to a quick disk
wait longer for each other. It uses Python's stable interface, so that one wheel serves every Python from 3.11
on; `pyproject.toml` can say neither without calling itself experimental.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "fencepost.impl.store.files._together",
            ["impl/store/files/_together.c"],
            extra_compile_args=["-O3"],  # it takes an MD5
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
