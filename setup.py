"""The packages: this folder as `headrace`, and every folder in it that holds modules.

All else is in pyproject.toml.
"""

from setuptools import find_packages, setup

setup(
    packages=["headrace", *(f"headrace.{name}" for name in find_packages())],
    script_name="setup.py",  # so that this file itself is not taken for one of the package's
)
