"""The plan of the folders: none is so full that a newcomer has to search it."""

from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "remanence"
FULL = 15


def test_no_folder_has_more_files_than_one_can_read_at_a_glance():
    folders = {path.parent for path in SOURCE.rglob("*.py")}
    crowded = {str(f.relative_to(SOURCE)): n for f in folders if (n := len(list(f.glob("*.py")))) > FULL}
    assert not crowded and len(folders) > 20
