"""Code of installed packages is not the user's, wherever the packages are.

If this fails, an audit takes a library for the audited program: it searches all of its memory at every
import, and names its lines in counterexamples.
"""

import subprocess
import sys
from pathlib import Path

PRINTS = "import installed; from fencepost.sim.world.present import is_users; print(is_users(installed))"


def is_users(folder: Path) -> str:
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); {PRINTS}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def test_a_folder_of_pip_install_target_is_no_user_code(tmp_path: Path) -> None:
    tmp_path.joinpath("installed.py").write_text("")
    assert is_users(tmp_path) == "True"
    tmp_path.joinpath("installed-1.0.dist-info").mkdir()
    assert is_users(tmp_path) == "False"
